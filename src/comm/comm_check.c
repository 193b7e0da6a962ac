#include "comm/comm_internal.h"

#include <stdio.h>
#include <string.h>

// What a call must have in common on all ranks of its group, as it travels.
enum {
    FIELD_ALGORITHM,
    FIELD_KIND,
    FIELD_OP,
    FIELD_TYPE,
    FIELD_COUNT,
    FIELD_COUNTS, // a hash of the parts
    FIELD_ROOT,
};

// Names by which ranks can compare algorithms; their addresses differ between processes.
static const comm_algorithm *const algorithms[] = {
    &comm_allreduce_direct, &comm_allreduce_gather, &comm_reduce_scatter_direct,
    &comm_allgather_direct, &comm_broadcast_chain,  &comm_broadcast_tree,
};

static int64_t algorithm_index(const comm_algorithm *algorithm)
{
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++)
        if (algorithms[i] == algorithm)
            return (int64_t)i;
    return -1;
}

// FNV-1a over the counts.
static int64_t hash_counts(const size_t *counts, int size)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int r = 0; counts && r < size; r++)
        for (int byte = 0; byte < 8; byte++)
            hash = (hash ^ ((uint64_t)counts[r] >> (8 * byte) & 0xff)) * 0x100000001b3u;
    return (int64_t)hash;
}

static void describe(const int64_t *call, char *text, size_t size)
{
    bool known = call[FIELD_ALGORITHM] >= 0;
    snprintf(text, size, "%s of %lld elements of %s (%s, operation %lld, root %lld, parts %llx)",
             known ? algorithms[call[FIELD_ALGORITHM]]->name : "another call",
             (long long)call[FIELD_COUNT], dtype_str((dtype)call[FIELD_TYPE]),
             comm_kind_str((comm_kind)call[FIELD_KIND]), (long long)call[FIELD_OP],
             (long long)call[FIELD_ROOT], (unsigned long long)call[FIELD_COUNTS]);
}

static const int64_t *call_of(const comm_group *group, int rank)
{
    return group->calls + rank * COMM_CHECK_FIELDS;
}

static bool same_call(const comm_group *group, int a, int b)
{
    return memcmp(call_of(group, a), call_of(group, b), COMM_CHECK_FIELDS * sizeof(int64_t)) == 0;
}

// The lowest rank of those whose call most ranks made.
static int most_common(const comm_group *group)
{
    int best = 0, best_count = 0;
    for (int r = 0; r < group->size; r++) {
        int count = 0;
        for (int other = 0; other < group->size; other++)
            count += same_call(group, r, other);
        if (count > best_count) {
            best = r;
            best_count = count;
        }
    }
    return best;
}

// All ranks hold the same table, so all fail alike, and before anything of the call is sent.
static status compare(const comm_group *group, const char *name)
{
    int common = most_common(group);
    int odd = 0;
    while (odd < group->size && same_call(group, odd, common))
        odd++;
    if (odd == group->size)
        return STATUS_OK;
    char a[256], b[256];
    describe(call_of(group, odd), a, sizeof a);
    describe(call_of(group, common), b, sizeof b);
    return fail(STATUS_ERR_COMM,
                "%s along %s, call %llu of the group: world rank %d calls %s, rank %d calls %s",
                name, comm_dimension_str(group->dimension), (unsigned long long)group->checked,
                group->world_ranks[odd], a, group->world_ranks[common], b);
}

status comm_check_call(comm_group *group, const comm_message *message)
{
    int64_t *mine = group->calls + group->rank * COMM_CHECK_FIELDS;
    mine[FIELD_ALGORITHM] = algorithm_index(message->algorithm);
    mine[FIELD_KIND] = (int64_t)message->kind;
    mine[FIELD_OP] = (int64_t)message->op;
    mine[FIELD_TYPE] = (int64_t)message->type;
    mine[FIELD_COUNT] = (int64_t)message->count;
    mine[FIELD_COUNTS] = hash_counts(message->counts, group->size);
    mine[FIELD_ROOT] = message->peer;
    comm_message exchange = {
        .algorithm = &comm_allgather_direct,
        .kind = COMM_CONTROL,
        .type = DTYPE_I64,
        .buffer = (unsigned char *)group->calls,
        .count = (size_t)group->size * COMM_CHECK_FIELDS, // split evenly
        .peer = -1,
    };
    comm_request request;
    TRY(comm_job_begin(group, &exchange, &request));
    TRY(comm_wait(&request));
    group->checked++;
    return compare(group, message->algorithm->name);
}
