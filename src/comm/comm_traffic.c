#include "comm/comm_internal.h"

#include <string.h>

// Close the busy period of a dimension with messages in flight, and open the next.
static void cut_busy(comm *c, comm_dimension dimension, double now)
{
    if (c->in_flight[dimension] > 0)
        c->traffic[dimension].busy_ms += 1e3 * (now - c->busy_since[dimension]);
    c->busy_since[dimension] = now;
}

void comm_traffic_begin(comm *c, comm_dimension dimension)
{
    cut_busy(c, dimension, comm_seconds());
    c->in_flight[dimension]++;
}

void comm_traffic_end(comm *c, const comm_job *job)
{
    comm_dimension dimension = job->group->dimension;
    cut_busy(c, dimension, comm_seconds());
    c->in_flight[dimension]--;
    if (job->started) {
        c->traffic[dimension].raw_bytes += job->raw_bytes;
        c->traffic[dimension].wire_bytes += job->wire_bytes;
    }
}

void comm_traffic_take(comm *c, comm_traffic traffic[COMM_DIMENSION_COUNT])
{
    pthread_mutex_lock(&c->lock);
    double now = comm_seconds();
    for (int d = 0; d < COMM_DIMENSION_COUNT; d++)
        cut_busy(c, (comm_dimension)d, now);
    memcpy(traffic, c->traffic, sizeof c->traffic);
    memset(c->traffic, 0, sizeof c->traffic);
    pthread_mutex_unlock(&c->lock);
}
