#include "data/batch_order.h"

int64_t batch_order_batch(const batch_order *order)
{
    return order->micro_batch * order->accumulation * order->data_parallel;
}

int64_t batch_order_batches(const batch_order *order)
{
    int64_t batches = order->samples / batch_order_batch(order);
    return batches > 0 ? batches : 1;
}

int64_t batch_order_sample(const batch_order *order, int64_t iteration, int64_t micro_step,
                           int64_t rank, int64_t item)
{
    int64_t batch = iteration % batch_order_batches(order);
    int64_t block = batch * order->accumulation + micro_step;
    return (block * order->data_parallel + rank) * order->micro_batch + item;
}

int64_t batch_order_eval_start(int64_t iteration, int64_t eval_interval, int64_t eval_iters,
                               bool at_end)
{
    int64_t done = iteration / eval_interval - (at_end ? 0 : 1);
    return done > 0 ? done * eval_iters : 0;
}
