/* The kernels of one instruction set.
 *
 * Every file of this folder is compiled once for each variant, with CPU_ISA as its suffix, and
 * written in plain C and vector extensions (cpu_simd.h), so that the compiler's flags alone decide
 * what it becomes. */
#ifndef TRIFOLD_DEVICE_CPU_KERNELS_H
#define TRIFOLD_DEVICE_CPU_KERNELS_H

#include "device/cpu/cpu_internal.h"

#define CPU_OP_JOIN(name, isa) cpu_##name##_##isa
#define CPU_OP_EXPAND(name, isa) CPU_OP_JOIN(name, isa)
#define CPU_OP(name) CPU_OP_EXPAND(name, CPU_ISA)

extern const device_ops CPU_OP(ops);

status CPU_OP(norm_forward)(device_stream *s, const norm_forward_args *args);
status CPU_OP(norm_backward)(device_stream *s, const norm_backward_args *args);
status CPU_OP(rotary)(device_stream *s, const rotary_args *args);
size_t CPU_OP(attention_workspace)(const device *d, size_t batch, size_t tokens, size_t heads,
                                   size_t head_dim, dtype type);
status CPU_OP(attention_forward)(device_stream *s, const attention_forward_args *args);
status CPU_OP(attention_backward)(device_stream *s, const attention_backward_args *args);
status CPU_OP(gelu_forward)(device_stream *s, const gelu_forward_args *args);
status CPU_OP(gelu_backward)(device_stream *s, const gelu_backward_args *args);
status CPU_OP(bias_backward)(device_stream *s, const bias_backward_args *args);
status CPU_OP(dropout)(device_stream *s, const dropout_args *args);
status CPU_OP(add)(device_stream *s, const add_args *args);
status CPU_OP(cast)(device_stream *s, const cast_args *args);
status CPU_OP(embedding_forward)(device_stream *s, const embedding_forward_args *args);
status CPU_OP(embedding_backward)(device_stream *s, const embedding_backward_args *args);
status CPU_OP(cross_entropy)(device_stream *s, const cross_entropy_args *args);
status CPU_OP(cross_entropy_stats)(device_stream *s, const cross_entropy_stats_args *args);
status CPU_OP(cross_entropy_merge)(device_stream *s, const cross_entropy_merge_args *args);
status CPU_OP(sum_squares)(device_stream *s, double *sum_host, const float *x, size_t count);
status CPU_OP(adamw)(device_stream *s, const adamw_args *args);

#endif
