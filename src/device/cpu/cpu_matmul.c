// device_matmul() on the CPU: the plan of a product and its accumulating twin.
//
// Products of 16-bit types run in fp32 on widened operands, unless the processor has matrix tiles
// (AMX). fp16 has no fast product in oneDNN 2.6. For bf16 AVX-512 has vdpbf16ps, but on the Intel
// processors measured it runs at half the rate of fp32 (165 against 330 GFLOP/s on two cores), and
// widening costs far less than it gains. Sums are fp32 either way; products of bf16 are exact in
// it.
#include <string.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "device/cpu/cpu_dnnl.h"
#include "device/cpu/cpu_internal.h"

typedef struct cpu_matmul_plan {
    matmul base;
    matmul_spec spec;
    cpu_product *product;    // C =
    cpu_product *accumulate; // C +=; NULL with bias or residual
} cpu_matmul_plan;

static bool is_widened(const matmul_spec *s)
{
    return s->in == DTYPE_F16 || (s->in == DTYPE_BF16 && !cpu_dnnl_has_tiles());
}

static cpu_product_spec product_spec(const matmul_spec *s, bool accumulate)
{
    const bool half = is_widened(s);
    return (cpu_product_spec){.m = s->m,
                              .n = s->n,
                              .k = s->k,
                              .a_row = s->transpose_a ? 1 : s->k,
                              .a_col = s->transpose_a ? s->m : 1,
                              .b_row = s->transpose_b ? 1 : s->n,
                              .b_col = s->transpose_b ? s->k : 1,
                              .in = half ? DTYPE_F32 : s->in,
                              .out = half ? DTYPE_F32 : s->out,
                              .bias = s->bias,
                              .residual = s->residual,
                              .accumulate = accumulate};
}

status cpu_matmul_create(device *d, const matmul_spec *spec, matmul **out)
{
    if (spec->m == 0 || spec->n == 0 || spec->k == 0)
        return fail(STATUS_ERR_DEVICE, "matrix product of %zu x %zu x %zu; sizes must be > 0",
                    spec->m, spec->n, spec->k);
    void *memory;
    TRY(memory_alloc(1, sizeof(cpu_matmul_plan), "matrix product", &memory));
    cpu_matmul_plan *plan = memory;
    plan->base.ops = d->ops;
    plan->spec = *spec;
    const cpu_product_spec plain = product_spec(spec, false);
    const cpu_product_spec adding = product_spec(spec, true);
    status result;
    TRY_OUT(result, cpu_product_create(&plain, &plan->product));
    if (!spec->bias && !spec->residual)
        TRY_OUT(result, cpu_product_create(&adding, &plan->accumulate));
    *out = &plan->base;
    plan = NULL;
out:
    cpu_matmul_destroy(plan ? &plan->base : NULL);
    return result;
}

void cpu_matmul_destroy(matmul *plan)
{
    if (!plan)
        return;
    cpu_matmul_plan *p = (cpu_matmul_plan *)plan;
    cpu_product_destroy(p->product);
    cpu_product_destroy(p->accumulate);
    memory_free(p);
}

// The fp32 images of 16-bit operands, one after the other in scratch.
typedef struct half_scratch {
    unsigned char *next;
    dtype type;
} half_scratch;

static void *reserve(half_scratch *h, size_t count)
{
    void *place = h->next;
    h->next += size_round_up(count * sizeof(float), 64);
    return place;
}

static status widen(device_stream *s, half_scratch *h, const void *src, size_t count,
                    const void **out)
{
    if (!src)
        return STATUS_OK;
    void *wide = reserve(h, count);
    *out = wide;
    return s->ops->cast(
        s,
        &(cast_args){
            .dst = wide, .src = src, .count = count, .dst_type = DTYPE_F32, .src_type = h->type});
}

// C itself may be fp32, then it needs no image.
static status run_half(device_stream *s, const cpu_matmul_plan *p, const cpu_product *product,
                       const matmul_args *args)
{
    const matmul_spec *spec = &p->spec;
    const size_t c_count = spec->m * spec->n;
    const bool narrow = spec->out != DTYPE_F32;
    const size_t floats = spec->m * spec->k + spec->k * spec->n + spec->n + 2 * c_count;
    void *memory;
    TRY(cpu_stream_scratch(s, floats * sizeof(float) + 5 * 64 + cpu_product_scratch(product),
                           &memory));
    half_scratch h = {memory, spec->in};
    cpu_product_args wide = {.c = args->c, .residual = args->residual};
    TRY(widen(s, &h, args->a, spec->m * spec->k, &wide.a));
    TRY(widen(s, &h, args->b, spec->k * spec->n, &wide.b));
    TRY(widen(s, &h, args->bias, spec->n, &wide.bias));
    const void *c_image = args->c;
    if (narrow) {
        TRY(widen(s, &h, args->residual, c_count, &wide.residual));
        if (args->accumulate)
            TRY(widen(s, &h, args->c, c_count, &c_image));
        else
            c_image = reserve(&h, c_count);
        wide.c = (void *)(uintptr_t)c_image;
    }
    wide.scratch = h.next;
    TRY(cpu_product_run(product, &wide));
    if (!narrow)
        return STATUS_OK;
    return s->ops->cast(s, &(cast_args){.dst = args->c,
                                        .src = wide.c,
                                        .count = c_count,
                                        .dst_type = spec->out,
                                        .src_type = DTYPE_F32});
}

status cpu_matmul(device_stream *s, const matmul *plan, const matmul_args *args)
{
    const cpu_matmul_plan *p = (const cpu_matmul_plan *)plan;
    const cpu_product *product = args->accumulate ? p->accumulate : p->product;
    if (is_widened(&p->spec))
        return run_half(s, p, product, args);
    cpu_product_args run = {
        .c = args->c, .a = args->a, .b = args->b, .bias = args->bias, .residual = args->residual};
    TRY(cpu_stream_scratch(s, cpu_product_scratch(product), &run.scratch));
    return cpu_product_run(product, &run);
}
