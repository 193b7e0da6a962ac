#include "device/device_internal.h"

#include <string.h>

status device_create(const device_options *options, device **out)
{
    if (!strcmp(options->backend, "cpu"))
        return cpu_device_create(options, out);
    return fail(STATUS_ERR_CONFIG, "device \"%s\" is not in this program; it has: cpu",
                options->backend);
}

void device_destroy(device *d)
{
    if (d)
        d->ops->destroy(d);
}

const char *device_describe(const device *d)
{
    return d->ops->describe(d);
}

int device_threads(const device *d)
{
    return d->ops->threads(d);
}

status device_malloc(device *d, size_t bytes, const char *what, void **out)
{
    return d->ops->malloc(d, bytes, what, out);
}

void device_free(device *d, void *pointer)
{
    if (pointer)
        d->ops->free(d, pointer);
}

void device_memory(const device *d, size_t *in_use, size_t *peak)
{
    d->ops->memory(d, in_use, peak);
}

status device_stream_create(device *d, device_stream **out)
{
    return d->ops->stream_create(d, out);
}

void device_stream_destroy(device_stream *s)
{
    if (s)
        s->ops->stream_destroy(s);
}

status device_stream_synchronize(device_stream *s)
{
    return s->ops->stream_synchronize(s);
}

status device_upload(device_stream *s, void *dst, const void *src_host, size_t bytes)
{
    return s->ops->upload(s, dst, src_host, bytes);
}

status device_download(device_stream *s, void *dst_host, const void *src, size_t bytes)
{
    return s->ops->download(s, dst_host, src, bytes);
}

status device_copy(device_stream *s, void *dst, const void *src, size_t bytes)
{
    return s->ops->copy(s, dst, src, bytes);
}

status device_zero(device_stream *s, void *dst, size_t bytes)
{
    return s->ops->zero(s, dst, bytes);
}

status device_matmul_create(device *d, const matmul_spec *spec, matmul **out)
{
    return d->ops->matmul_create(d, spec, out);
}

void device_matmul_destroy(matmul *plan)
{
    if (plan)
        plan->ops->matmul_destroy(plan);
}

status device_matmul(device_stream *s, const matmul *plan, const matmul_args *args)
{
    return s->ops->matmul(s, plan, args);
}

size_t device_attention_workspace(const device *d, size_t batch, size_t tokens, size_t heads,
                                  size_t head_dim, dtype type)
{
    return d->ops->attention_workspace(d, batch, tokens, heads, head_dim, type);
}

status device_sum_squares(device_stream *s, double *sum_host, const float *x, size_t count)
{
    return s->ops->sum_squares(s, sum_host, x, count);
}

status device_norm_forward(device_stream *s, const norm_forward_args *args)
{
    return s->ops->norm_forward(s, args);
}

status device_norm_backward(device_stream *s, const norm_backward_args *args)
{
    return s->ops->norm_backward(s, args);
}

status device_rotary(device_stream *s, const rotary_args *args)
{
    return s->ops->rotary(s, args);
}

status device_attention_forward(device_stream *s, const attention_forward_args *args)
{
    return s->ops->attention_forward(s, args);
}

status device_attention_backward(device_stream *s, const attention_backward_args *args)
{
    return s->ops->attention_backward(s, args);
}

status device_gelu_forward(device_stream *s, const gelu_forward_args *args)
{
    return s->ops->gelu_forward(s, args);
}

status device_gelu_backward(device_stream *s, const gelu_backward_args *args)
{
    return s->ops->gelu_backward(s, args);
}

status device_bias_backward(device_stream *s, const bias_backward_args *args)
{
    return s->ops->bias_backward(s, args);
}

status device_dropout(device_stream *s, const dropout_args *args)
{
    return s->ops->dropout(s, args);
}

status device_add(device_stream *s, const add_args *args)
{
    return s->ops->add(s, args);
}

status device_cast(device_stream *s, const cast_args *args)
{
    return s->ops->cast(s, args);
}

status device_embedding_forward(device_stream *s, const embedding_forward_args *args)
{
    return s->ops->embedding_forward(s, args);
}

status device_embedding_backward(device_stream *s, const embedding_backward_args *args)
{
    return s->ops->embedding_backward(s, args);
}

status device_cross_entropy(device_stream *s, const cross_entropy_args *args)
{
    return s->ops->cross_entropy(s, args);
}

status device_cross_entropy_stats(device_stream *s, const cross_entropy_stats_args *args)
{
    return s->ops->cross_entropy_stats(s, args);
}

status device_cross_entropy_merge(device_stream *s, const cross_entropy_merge_args *args)
{
    return s->ops->cross_entropy_merge(s, args);
}

status device_adamw(device_stream *s, const adamw_args *args)
{
    return s->ops->adamw(s, args);
}
