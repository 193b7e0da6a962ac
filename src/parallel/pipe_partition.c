#include "parallel/pipe_partition.h"

#include "base/sizes.h"

// Fill runs up to `limit` from the first item on, but leave an item for each run that follows.
// False where the items do not fit.
static int fill(const size_t *weights, size_t count, size_t parts, size_t limit, size_t *bounds)
{
    size_t item = 0;
    for (size_t p = 0; p < parts; p++) {
        const size_t most = count - (parts - 1 - p); // items that runs up to this one may take
        size_t sum = 0;
        bounds[p] = item;
        while (item < most && sum + weights[item] <= limit)
            sum += weights[item++];
        if (item == bounds[p])
            return 0;
    }
    bounds[parts] = item;
    return item == count;
}

status pipe_partition(const size_t *weights, size_t count, size_t parts, size_t *bounds)
{
    size_t low = 0, high = 0;
    if (parts == 0 || count < parts)
        return fail(STATUS_ERR_CONFIG,
                    "%zu layers cannot be dealt out to %zu parts of a pipeline; each needs one",
                    count, parts);
    for (size_t i = 0; i < count; i++) {
        low = size_max(low, weights[i]);
        high += weights[i];
    }
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (fill(weights, count, parts, middle, bounds))
            high = middle;
        else
            low = middle + 1;
    }
    fill(weights, count, parts, high, bounds);
    return STATUS_OK;
}
