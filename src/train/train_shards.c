// Checkpoints of a model whose tensors are spread over ranks.
//
// A checkpoint holds whole tensors, so any grid reads what any other wrote. Rank 0 writes it. For
// each tensor in turn the ranks that have a part send it, and rank 0 puts the parts together; who
// has what follows from the grid alone. Reading needs no messages: every rank reads the file and
// keeps its part.
#include <string.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "train/train_internal.h"

static float *part_buffer(const train_state *t, checkpoint_part part)
{
    switch (part) {
    case CHECKPOINT_PARAM:
        return optimizer_master(t->optimizer);
    case CHECKPOINT_EXP_AVG:
        return optimizer_exp_avg(t->optimizer);
    case CHECKPOINT_EXP_AVG_SQ:
        return optimizer_exp_avg_sq(t->optimizer);
    }
    return NULL;
}

// ---- Saving ----

// The order in which tensors are collected: that in which a checkpoint is written.
typedef struct collection {
    train_state *t;
    tensor_table *tables; // of every place of the model: (pipe, tensor)
    float *part;          // staging, as large as the largest tensor
    bool with_optimizer;
    int next_part; // what is collected next
    size_t next_index;
} collection;

static size_t largest_tensor(const tensor_table *table)
{
    size_t most = 0;
    for (size_t i = 0; i < table->count; i++)
        most = size_max(most, tensor_elements(&table->tensors[i]));
    return most;
}

static size_t places_of(const train_state *t)
{
    return (size_t)t->grid.shape.pipe * (size_t)t->grid.shape.tensor;
}

static status collection_init(collection *c, train_state *t, bool with_optimizer)
{
    void *memory;
    *c = (collection){.t = t, .with_optimizer = with_optimizer};
    TRY(memory_alloc(places_of(t), sizeof(tensor_table), "checkpoint", &memory));
    c->tables = memory;
    TRY(memory_alloc(largest_tensor(&t->whole), sizeof(float), "checkpoint", &memory));
    c->part = memory;
    for (size_t i = 0; i < places_of(t); i++) {
        const size_t tensor = (size_t)t->grid.shape.tensor;
        const grid_place place = {.pipe = (int)(i / tensor), .tensor = (int)(i % tensor)};
        TRY(run_plan_table(&t->plan, place, &c->tables[i]));
    }
    return STATUS_OK;
}

static void collection_fini(collection *c)
{
    for (size_t i = 0; c->tables && i < places_of(c->t); i++)
        tensor_table_fini(&c->tables[i]);
    memory_free(c->tables);
    memory_free(c->part);
}

// The rank that speaks for a place.
static int rank_of(const collection *c, size_t place)
{
    const size_t tensor = (size_t)c->t->grid.shape.tensor;
    return grid_rank(&c->t->grid.shape,
                     (grid_place){.pipe = (int)(place / tensor), .tensor = (int)(place % tensor)});
}

// Bring this rank's part of its tensor `index` to the staging buffer.
static status read_own(collection *c, checkpoint_part part, size_t index)
{
    const train_state *t = c->t;
    const tensor_info *info = &t->table.tensors[index];
    return device_download(t->stream, c->part, part_buffer(t, part) + info->offset,
                           tensor_elements(info) * sizeof(float));
}

static status transfer(collection *c, const tensor_info *info, int from)
{
    comm_group *world = comm_world(c->t->comm);
    const size_t count = tensor_elements(info);
    comm_request request = {0};
    if (comm_group_rank(world) == from)
        TRY(comm_send_begin(world, COMM_CONTROL, c->part, count, DTYPE_F32, 0, &request));
    else
        TRY(comm_recv_begin(world, COMM_CONTROL, c->part, count, DTYPE_F32, from, &request));
    return comm_wait(&request);
}

// One tensor from all places that count a part of it, in their order; `whole` is NULL on all ranks
// but the first.
static status collect(collection *c, checkpoint_part part, const char *name, float *whole)
{
    const int me = comm_world_rank(c->t->comm);
    for (size_t place = 0; place < places_of(c->t); place++) {
        const tensor_table *table = &c->tables[place];
        const size_t index = tensor_table_find(table, name);
        if (index == SIZE_MAX || !table->tensors[index].counted)
            continue;
        const int from = rank_of(c, place);
        if (me == from)
            TRY(read_own(c, part, index));
        if (from != 0 && (me == from || me == 0))
            TRY(transfer(c, &table->tensors[index], from));
        if (me == 0 && whole)
            tensor_part_place(&table->tensors[index], whole, c->part);
    }
    return STATUS_OK;
}

static status collect_next(collection *c, float *whole)
{
    const tensor_table *table = &c->t->whole;
    TRY(collect(c, (checkpoint_part)c->next_part, table->tensors[c->next_index].name, whole));
    if (++c->next_index == table->count) {
        c->next_index = 0;
        c->next_part++;
    }
    return STATUS_OK;
}

static bool is_done(const collection *c)
{
    return c->next_part > (c->with_optimizer ? CHECKPOINT_EXP_AVG_SQ : CHECKPOINT_PARAM);
}

static status read_whole(void *context, checkpoint_part part, size_t index, float *host)
{
    collection *c = context;
    if ((int)part != c->next_part || index != c->next_index)
        return fail(STATUS_ERR_COMM, "tensor %zu of part %d is collected out of order", index,
                    (int)part);
    return collect_next(c, host);
}

static status save_collected(collection *c, const checkpoint_state *state)
{
    const train_state *t = c->t;
    const config *o = t->config;
    const checkpoint_tensors tensors = {.table = &t->whole, .context = c, .read = read_whole};
    return checkpoint_save(o->save, state, &tensors, o->keep_last_n_checkpoints,
                           o->extra_save_iters.items, o->extra_save_iters.count);
}

// Whatever comes of writing, the others' parts are taken to the end: they wait to be rid of them.
status train_save_shards(train_state *t, const checkpoint_state *state)
{
    collection c;
    status saved = STATUS_OK;
    status result = collection_init(&c, t, state->has_optimizer);
    if (result == STATUS_OK && comm_world_rank(t->comm) == 0)
        saved = save_collected(&c, state);
    while (result == STATUS_OK && !is_done(&c))
        result = collect_next(&c, NULL);
    collection_fini(&c);
    return saved != STATUS_OK ? saved : result;
}

// ---- Loading ----

static status write_whole(void *context, checkpoint_part part, size_t index, const float *host)
{
    train_state *t = context;
    const size_t own = tensor_table_find(&t->table, t->whole.tensors[index].name);
    if (own == SIZE_MAX)
        return STATUS_OK;
    const tensor_info *info = &t->table.tensors[own];
    void *memory;
    TRY(memory_alloc(tensor_elements(info), sizeof(float), "checkpoint", &memory));
    tensor_part_take(info, memory, host);
    const status result = device_upload(t->stream, part_buffer(t, part) + info->offset, memory,
                                        tensor_elements(info) * sizeof(float));
    memory_free(memory);
    return result;
}

checkpoint_tensors train_load_target(train_state *t)
{
    return (checkpoint_tensors){.table = &t->whole, .context = t, .write = write_whole};
}
