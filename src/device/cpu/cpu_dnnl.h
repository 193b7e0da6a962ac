/* Matrix products by oneDNN. The one place that knows the library and the difference between its
 * versions 2.6 (Debian 12) and 3. */
#ifndef TRIFOLD_DEVICE_CPU_DNNL_H
#define TRIFOLD_DEVICE_CPU_DNNL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/dtype.h"
#include "base/status.h"

/* C (m, n) = A (m, k) B (k, n) [+ bias (n)] [+ residual (m, n)] [+ C]; elements lie at row and
 * column strides. fp32 or bf16 in, fp32 or the same out. */
typedef struct cpu_product_spec {
    size_t m, n, k;
    size_t a_row, a_col; /* strides of A, in elements; one of the two is 1 */
    size_t b_row, b_col;
    dtype in, out;
    bool bias;       /* of type `in` */
    bool residual;   /* of type `out`, rows of n elements */
    bool accumulate; /* add to C */
} cpu_product_spec;

typedef struct cpu_product cpu_product;

status cpu_product_create(const cpu_product_spec *spec, cpu_product **out);
void cpu_product_destroy(cpu_product *product);

/* Bytes of scratch that a run needs. */
size_t cpu_product_scratch(const cpu_product *product);

typedef struct cpu_product_args {
    void *c;
    const void *a, *b, *bias, *residual;
    void *scratch;
} cpu_product_args;

/* Not for two threads at once on the same product. */
status cpu_product_run(const cpu_product *product, const cpu_product_args *args);

/* Whether bf16 products run on matrix tiles here (AMX). */
bool cpu_dnnl_has_tiles(void);

#endif
