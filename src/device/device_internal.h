/* Inside the device module: what a backend provides.
 *
 * A backend is one `device_ops` table. device.c checks arguments where that is the same for all and
 * passes them on; no other file of the program sees the table. */
#ifndef TRIFOLD_DEVICE_DEVICE_INTERNAL_H
#define TRIFOLD_DEVICE_DEVICE_INTERNAL_H

#include "device/device.h"

typedef struct device_ops {
    const char *name;
    void (*destroy)(device *d);
    const char *(*describe)(const device *d);
    int (*threads)(const device *d);
    status (*malloc)(device *d, size_t bytes, const char *what, void **out);
    void (*free)(device *d, void *pointer);
    void (*memory)(const device *d, size_t *in_use, size_t *peak);
    status (*stream_create)(device *d, device_stream **out);
    void (*stream_destroy)(device_stream *s);
    status (*stream_synchronize)(device_stream *s);
    status (*upload)(device_stream *s, void *dst, const void *src_host, size_t bytes);
    status (*download)(device_stream *s, void *dst_host, const void *src, size_t bytes);
    status (*copy)(device_stream *s, void *dst, const void *src, size_t bytes);
    status (*zero)(device_stream *s, void *dst, size_t bytes);
    status (*matmul_create)(device *d, const matmul_spec *spec, matmul **out);
    void (*matmul_destroy)(matmul *plan);
    status (*matmul)(device_stream *s, const matmul *plan, const matmul_args *args);
    status (*norm_forward)(device_stream *s, const norm_forward_args *args);
    status (*norm_backward)(device_stream *s, const norm_backward_args *args);
    status (*rotary)(device_stream *s, const rotary_args *args);
    size_t (*attention_workspace)(const device *d, size_t batch, size_t tokens, size_t heads,
                                  size_t head_dim, dtype type);
    status (*attention_forward)(device_stream *s, const attention_forward_args *args);
    status (*attention_backward)(device_stream *s, const attention_backward_args *args);
    status (*gelu_forward)(device_stream *s, const gelu_forward_args *args);
    status (*gelu_backward)(device_stream *s, const gelu_backward_args *args);
    status (*bias_backward)(device_stream *s, const bias_backward_args *args);
    status (*dropout)(device_stream *s, const dropout_args *args);
    status (*add)(device_stream *s, const add_args *args);
    status (*cast)(device_stream *s, const cast_args *args);
    status (*embedding_forward)(device_stream *s, const embedding_forward_args *args);
    status (*embedding_backward)(device_stream *s, const embedding_backward_args *args);
    status (*cross_entropy)(device_stream *s, const cross_entropy_args *args);
    status (*cross_entropy_stats)(device_stream *s, const cross_entropy_stats_args *args);
    status (*cross_entropy_merge)(device_stream *s, const cross_entropy_merge_args *args);
    status (*sum_squares)(device_stream *s, double *sum_host, const float *x, size_t count);
    status (*adamw)(device_stream *s, const adamw_args *args);
} device_ops;

/* Every backend's device, stream and matmul begin with the table. */
struct device {
    const device_ops *ops;
};

struct device_stream {
    const device_ops *ops;
};

struct matmul {
    const device_ops *ops;
};

status cpu_device_create(const device_options *options, device **out);

#endif
