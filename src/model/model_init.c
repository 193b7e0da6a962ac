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

void model_init_tensor(const tensor_info *info, uint64_t seed, size_t first, size_t count,
                       float *host)
{
    const uint64_t stream = name_stream(info->name);
    const float scale = info->init_scale;
    switch (info->init) {
    case TENSOR_INIT_ZERO:
    case TENSOR_INIT_ONE:
        for (size_t i = 0; i < count; i++)
            host[i] = info->init == TENSOR_INIT_ONE ? 1.0f : 0.0f;
        break;
    case TENSOR_INIT_NORMAL:
#pragma omp parallel for schedule(static)
        for (size_t i = 0; i < count; i++)
            host[i] = scale * normal_value(seed, stream, first + i);
        break;
    case TENSOR_INIT_UNIFORM:
#pragma omp parallel for schedule(static)
        for (size_t i = 0; i < count; i++)
            host[i] = scale * uniform_value(seed, stream, first + i);
        break;
    }
}
