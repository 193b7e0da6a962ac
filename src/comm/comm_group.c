#include "comm/comm_internal.h"

#include "base/memory.h"
#include "base/sizes.h"

comm_lane *comm_group_free_lane(comm_group *group)
{
    for (int i = 0; i < COMM_LANES; i++)
        if (!group->lanes[i].job)
            return &group->lanes[i];
    return NULL;
}

static status check_members(const comm *c, const int *world_ranks, int count)
{
    bool member = false;
    if (count < 1 || count > c->world_size)
        return fail(STATUS_ERR_COMM, "a group of %d ranks in a world of %d", count, c->world_size);
    for (int i = 0; i < count; i++) {
        if (world_ranks[i] < 0 || world_ranks[i] >= c->world_size)
            return fail(STATUS_ERR_COMM, "a group with rank %d in a world of %d ranks",
                        world_ranks[i], c->world_size);
        for (int j = 0; j < i; j++)
            if (world_ranks[i] == world_ranks[j])
                return fail(STATUS_ERR_COMM, "a group with rank %d at places %d and %d",
                            world_ranks[i], j, i);
        member = member || world_ranks[i] == c->world_rank;
    }
    if (!member)
        return fail(STATUS_ERR_COMM,
                    "rank %d creates a group that it is not in; each rank names "
                    "the group that contains it",
                    c->world_rank);
    return STATUS_OK;
}

// The same for all members: from the options, which comm_create() compared, and the size.
static size_t chunk_bytes_of(const comm *c, int size)
{
    size_t room = COMM_STAGING_MAX / (COMM_WINDOW * (size_t)size);
    size_t bytes = size_min(c->options.chunk_bytes, room);
    return size_max(bytes / COMM_CHUNK_UNIT * COMM_CHUNK_UNIT, COMM_CHUNK_UNIT);
}

static status allocate_lane(comm_group *group, comm_lane *lane)
{
    size_t size = (size_t)group->size;
    size_t streams = COMM_ROLES * size;
    size_t staging = size_max(size * COMM_WINDOW * group->chunk_bytes, size * COMM_SMALL_BYTES);
    TRY(memory_alloc(streams, sizeof *lane->streams, "streams of a group",
                     (void **)&lane->streams));
    TRY(memory_alloc(streams * COMM_WINDOW, sizeof(MPI_Request), "requests of a group",
                     (void **)&lane->requests));
    TRY(memory_alloc(staging, 1, "staging of a group", (void **)&lane->staging));
    for (size_t i = 0; i < streams * COMM_WINDOW; i++)
        lane->requests[i] = MPI_REQUEST_NULL;
    for (size_t i = 0; i < streams; i++)
        lane->streams[i].requests = &lane->requests[i * COMM_WINDOW];
    return STATUS_OK;
}

static status allocate(comm *c, comm_dimension dimension, const int *world_ranks, int count,
                       comm_group **out)
{
    size_t size = (size_t)count;
    size_t slots = COMM_ROLES * size * COMM_WINDOW;
    TRY(memory_alloc(1, sizeof **out, "a group", (void **)out));
    comm_group *group = *out;
    group->owner = c;
    group->dimension = dimension;
    group->size = count;
    group->chunk_bytes = chunk_bytes_of(c, count);
    group->mpi = MPI_COMM_NULL;
    TRY(memory_alloc(size, sizeof *group->world_ranks, "ranks of a group",
                     (void **)&group->world_ranks));
    for (int i = 0; i < count; i++) {
        group->world_ranks[i] = world_ranks[i];
        if (world_ranks[i] == c->world_rank)
            group->rank = i;
    }
    if (count == 1) // it sends nothing
        return STATUS_OK;
    TRY(memory_alloc(size, COMM_CHECK_FIELDS * sizeof *group->calls, "scratch of a group",
                     (void **)&group->calls));
    TRY(memory_alloc(size, sizeof *group->inputs, "scratch of a group", (void **)&group->inputs));
    TRY(memory_alloc(slots, sizeof *group->indices, "scratch of a group",
                     (void **)&group->indices));
    TRY(memory_alloc(slots, sizeof *group->statuses, "scratch of a group",
                     (void **)&group->statuses));
    for (int i = 0; i < COMM_LANES; i++)
        TRY(allocate_lane(group, &group->lanes[i]));
    return STATUS_OK;
}

static void release(comm_group *group)
{
    if (!group)
        return;
    for (int i = 0; i < COMM_LANES; i++) {
        memory_free(group->lanes[i].streams);
        memory_free(group->lanes[i].requests);
        memory_free(group->lanes[i].staging);
    }
    memory_free(group->world_ranks);
    memory_free(group->calls);
    memory_free(group->inputs);
    memory_free(group->indices);
    memory_free(group->statuses);
    memory_free(group);
}

// The communicator has exactly the ranks that this rank named, in their order.
static status check_split(const comm_group *group)
{
    MPI_Group world, members;
    int size;
    TRY_MPI(MPI_Comm_size(group->mpi, &size), "group");
    bool same = size == group->size;
    TRY_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world), "group");
    TRY_MPI(MPI_Comm_group(group->mpi, &members), "group");
    for (int i = 0; same && i < size; i++) {
        int world_rank;
        TRY_MPI(MPI_Group_translate_ranks(members, 1, &i, world, &world_rank), "group");
        same = world_rank == group->world_ranks[i];
    }
    MPI_Group_free(&world);
    MPI_Group_free(&members);
    if (same)
        return STATUS_OK;
    return fail(STATUS_ERR_COMM, "the ranks of a group along %s named different members",
                comm_dimension_str(group->dimension));
}

typedef struct creation {
    comm_group *group; /* NULL where local checks failed */
    status result;     /* so far */
} creation;

// Split the world by the groups' lowest ranks. A rank that failed takes part without a group, so
// that the others learn of it here instead of waiting for it.
static status create_task(comm *c, void *argument)
{
    creation *create = argument;
    comm_group *group = create->group;
    int color = MPI_UNDEFINED;
    for (int i = 0; create->result == STATUS_OK && i < group->size; i++)
        if (color == MPI_UNDEFINED || group->world_ranks[i] < color)
            color = group->world_ranks[i];
    MPI_Comm mpi;
    TRY_MPI(MPI_Comm_split(MPI_COMM_WORLD, color, group ? group->rank : 0, &mpi), "group");
    if (mpi != MPI_COMM_NULL) {
        group->mpi = mpi;
        TRY_MPI(MPI_Comm_set_errhandler(mpi, MPI_ERRORS_RETURN), "group");
        create->result = check_split(group);
    }
    int ok = create->result == STATUS_OK;
    int all_ok;
    TRY_MPI(MPI_Allreduce(&ok, &all_ok, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "group");
    if (!all_ok && create->result == STATUS_OK)
        create->result = fail(STATUS_ERR_COMM,
                              "a group was not created: another rank of the %d "
                              "failed",
                              c->world_size);
    if (create->result != STATUS_OK && mpi != MPI_COMM_NULL)
        MPI_Comm_free(&group->mpi);
    return create->result;
}

status comm_group_create(comm *c, comm_dimension dimension, const int *world_ranks, int count,
                         comm_group **out)
{
    creation create = {NULL, check_members(c, world_ranks, count)};
    if (create.result == STATUS_OK)
        create.result = allocate(c, dimension, world_ranks, count, &create.group);
    if (create.result != STATUS_OK) {
        release(create.group);
        create.group = NULL;
    }
    status result = comm_task_run(c, create_task, &create);
    if (result != STATUS_OK) {
        release(create.group);
        return result;
    }
    *out = create.group;
    return STATUS_OK;
}

static status destroy_task(comm *c, void *argument)
{
    (void)c;
    comm_group *group = argument;
    TRY_MPI(MPI_Comm_free(&group->mpi), "group");
    return STATUS_OK;
}

void comm_group_destroy(comm_group *group)
{
    if (!group)
        return;
    // On a broken comm the task is refused; MPI's part is then lost with the process.
    (void)comm_task_run(group->owner, destroy_task, group);
    release(group);
}

int comm_group_rank(const comm_group *group)
{
    return group->rank;
}

int comm_group_size(const comm_group *group)
{
    return group->size;
}

comm_dimension comm_group_dimension(const comm_group *group)
{
    return group->dimension;
}
