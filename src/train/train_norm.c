// The norm of the gradients over all ranks.
#include <math.h>

#include "train/train_internal.h"

// Squares of what this rank counts: replicas of data ranks count once, and so do tensors that
// several tensor ranks have. Neighbouring tensors are taken together.
static status own_squares(train_state *t, double *sum)
{
    const tensor_table *table = &t->table;
    *sum = 0;
    if (t->grid.place.data != 0)
        return STATUS_OK;
    for (size_t i = 0; i < table->count;) {
        size_t end = i;
        double part;
        while (end < table->count && table->tensors[end].counted)
            end++;
        if (end == i) {
            i++;
            continue;
        }
        const size_t first = table->tensors[i].offset;
        const size_t last = end < table->count ? table->tensors[end].offset : table->elements;
        TRY(device_sum_squares(t->stream, &part, t->grads + first, last - first));
        *sum += part;
        i = end;
    }
    return STATUS_OK;
}

status train_gradient_norm(train_state *t, double *norm)
{
    const int ranks = comm_world_size(t->comm);
    double sum = 0;
    comm_request request = {0};
    TRY(own_squares(t, &t->square_sums[comm_world_rank(t->comm)]));
    TRY(comm_allgather_begin(comm_world(t->comm), COMM_CONTROL, t->square_sums, t->square_counts,
                             DTYPE_U8, &request));
    TRY(comm_wait(&request));
    for (int r = 0; r < ranks; r++)
        sum += t->square_sums[r];
    *norm = sqrt(sum);
    return STATUS_OK;
}
