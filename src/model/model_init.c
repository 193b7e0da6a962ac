#include "model/model_init.h"

#include <math.h>

#include "base/philox.h"

// FNV-1a of the name: the tensor's own random stream.
static uint64_t name_stream(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}

// Box-Muller on two words of the stream: a normal number a value, none shared between neighbours.
static float normal_value(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t words[4];
    philox_block(seed, stream, index, words);
    float radius = sqrtf(-2 * logf(1 - philox_unit(words[0]))); // 1 - u is in (0, 1]
    return radius * cosf(6.28318530718f * philox_unit(words[1]));
}

static float uniform_value(uint64_t seed, uint64_t stream, uint64_t index)
{
    return 2 * philox_uniform(seed, stream, index) - 1;
}

// Row `row` of the part.
static void init_row(const tensor_info *info, uint64_t seed, uint64_t stream, size_t row,
                     float *host)
{
    const size_t first = (info->first_row + row) * info->whole_cols + info->first_col;
    const float scale = info->init_scale;
    for (size_t i = 0; i < info->cols; i++) {
        switch (info->init) {
        case TENSOR_INIT_ZERO:
            host[i] = 0;
            break;
        case TENSOR_INIT_ONE:
            host[i] = 1;
            break;
        case TENSOR_INIT_NORMAL:
            host[i] = scale * normal_value(seed, stream, first + i);
            break;
        case TENSOR_INIT_UNIFORM:
            host[i] = scale * uniform_value(seed, stream, first + i);
            break;
        }
    }
}

void model_init_tensor(const tensor_info *info, uint64_t seed, float *host)
{
    const uint64_t stream = name_stream(info->name);
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < info->rows; r++)
        init_row(info, seed, stream, r, host + r * info->cols);
}
