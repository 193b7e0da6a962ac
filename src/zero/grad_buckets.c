#include "zero/grad_buckets.h"

#include <stdbool.h>
#include <string.h>

#include "base/memory.h"

enum {
    IN_FLIGHT_MAX = 256, /* messages; comm refuses more than 1024 over all groups */
};

typedef struct bucket {
    size_t begin; /* elements of the flat buffer */
    size_t end;
    size_t tensors;
    size_t ready; /* of them */
    comm_request request;
} bucket;

struct grad_buckets {
    comm_group *group;
    float *grads;
    size_t n_tensors;
    size_t *bucket_of; /* [n_tensors] */
    bool *ready;       /* [n_tensors] */
    size_t count;      /* buckets */
    bucket *buckets;   /* [n_tensors], `count` used; the first holds the last tensors */
    size_t begun;
    size_t waited;
};

static status check_offsets(const size_t *offsets, size_t n_tensors, size_t total,
                            size_t bucket_elements)
{
    if (bucket_elements == 0)
        return fail(STATUS_ERR_CONFIG, "a gradient bucket of 0 elements; it must have at least 1");
    if (n_tensors == 0 || offsets[0] != 0)
        return fail(STATUS_ERR_CONFIG,
                    "gradient buckets: %zu tensors, the first at %zu; there must "
                    "be one at 0",
                    n_tensors, n_tensors ? offsets[0] : (size_t)0);
    for (size_t i = 0; i < n_tensors; i++) {
        size_t next = i + 1 < n_tensors ? offsets[i + 1] : total;
        if (next <= offsets[i])
            return fail(STATUS_ERR_CONFIG,
                        "gradient buckets: tensor %zu runs from %zu to %zu; "
                        "offsets must ascend",
                        i, offsets[i], next);
    }
    return STATUS_OK;
}

static void plan(grad_buckets *b, const size_t *offsets, size_t total, size_t bucket_elements)
{
    size_t end = total;
    for (size_t i = b->n_tensors; i-- > 0; end = offsets[i]) {
        bucket *last = b->count > 0 ? &b->buckets[b->count - 1] : NULL;
        if (!last || last->end - offsets[i] > bucket_elements) {
            last = &b->buckets[b->count++];
            last->end = end;
        }
        last->begin = offsets[i];
        last->tensors++;
        b->bucket_of[i] = b->count - 1;
    }
}

static status allocate(grad_buckets *b)
{
    TRY(memory_alloc(b->n_tensors, sizeof *b->bucket_of, "gradient buckets",
                     (void **)&b->bucket_of));
    TRY(memory_alloc(b->n_tensors, sizeof *b->ready, "gradient buckets", (void **)&b->ready));
    return memory_alloc(b->n_tensors, sizeof *b->buckets, "gradient buckets", (void **)&b->buckets);
}

status grad_buckets_create(comm_group *group, float *grads, const size_t *tensor_offsets,
                           size_t n_tensors, size_t total, size_t bucket_elements,
                           grad_buckets **out)
{
    grad_buckets *b;
    TRY(check_offsets(tensor_offsets, n_tensors, total, bucket_elements));
    TRY(memory_alloc(1, sizeof *b, "gradient buckets", (void **)&b));
    b->group = group;
    b->grads = grads;
    b->n_tensors = n_tensors;
    status result = allocate(b);
    if (result != STATUS_OK) {
        grad_buckets_destroy(b);
        return result;
    }
    plan(b, tensor_offsets, total, bucket_elements);
    *out = b;
    return STATUS_OK;
}

void grad_buckets_destroy(grad_buckets *b)
{
    if (!b)
        return;
    memory_free(b->bucket_of);
    memory_free(b->ready);
    memory_free(b->buckets);
    memory_free(b);
}

size_t grad_buckets_count(const grad_buckets *b)
{
    return b->count;
}

static status begin_complete(grad_buckets *b)
{
    while (b->begun < b->count && b->buckets[b->begun].ready == b->buckets[b->begun].tensors) {
        if (b->begun - b->waited == IN_FLIGHT_MAX)
            TRY(comm_wait(&b->buckets[b->waited++].request));
        bucket *next = &b->buckets[b->begun];
        TRY(comm_allreduce_begin(b->group, COMM_GRADIENTS, COMM_SUM, b->grads + next->begin,
                                 next->end - next->begin, DTYPE_F32, &next->request));
        b->begun++;
    }
    return STATUS_OK;
}

status grad_buckets_ready(grad_buckets *b, size_t tensor)
{
    if (tensor >= b->n_tensors)
        return fail(STATUS_ERR_COMM, "gradient of tensor %zu is ready, but there are %zu", tensor,
                    b->n_tensors);
    if (b->ready[tensor])
        return fail(STATUS_ERR_COMM, "gradient of tensor %zu is ready twice in a step", tensor);
    b->ready[tensor] = true;
    b->buckets[b->bucket_of[tensor]].ready++;
    return begin_complete(b);
}

status grad_buckets_finish(grad_buckets *b)
{
    for (size_t i = 0; i < b->n_tensors; i++)
        if (!b->ready[i])
            return fail(STATUS_ERR_COMM, "gradient of tensor %zu of %zu was never ready", i,
                        b->n_tensors);
    while (b->waited < b->begun)
        TRY(comm_wait(&b->buckets[b->waited++].request));
    memset(b->ready, 0, b->n_tensors * sizeof *b->ready);
    for (size_t k = 0; k < b->count; k++)
        b->buckets[k].ready = 0;
    b->begun = 0;
    b->waited = 0;
    return STATUS_OK;
}
