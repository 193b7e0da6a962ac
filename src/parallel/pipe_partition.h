/* Dealing out consecutive layers to the parts of a pipeline. */
#ifndef TRIFOLD_PARALLEL_PIPE_PARTITION_H
#define TRIFOLD_PARALLEL_PIPE_PARTITION_H

#include <stddef.h>

#include "base/status.h"

/* Cut `count` items with weights > 0 into `parts` runs of at least one item each, such that the
 * heaviest run is as light as can be; of all such cuts the one whose first runs are longest.
 * bounds[p] is the first item of run p, bounds[parts] is `count`. STATUS_ERR_CONFIG where there are
 * fewer items than parts. */
status pipe_partition(const size_t *weights, size_t count, size_t parts, size_t *bounds);

#endif
