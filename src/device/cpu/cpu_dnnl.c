#include "device/cpu/cpu_dnnl.h"

#include <stdint.h>
#include <stdio.h>

#include <dnnl.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "device/cpu/cpu_internal.h"

enum {
    MAX_OPERANDS = 6, // C, A, B, bias, residual, scratch
};

struct cpu_product {
    cpu_product_spec spec;
    bool is_plain; // run by dnnl_sgemm(); nothing below is there then
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[MAX_OPERANDS]; // in the order of operand_slot
    int n_args;
    int bias_arg, residual_arg; // places in args; -1: none
    size_t scratch_bytes;
};

static status check(dnnl_status_t code, const char *what)
{
    if (code == dnnl_success)
        return STATUS_OK;
    return fail(STATUS_ERR_DEVICE, "oneDNN: %s failed with status %d", what, (int)code);
}

const char *cpu_dnnl_version(void)
{
    static char text[32];
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

bool cpu_dnnl_has_tiles(void)
{
#if defined(__x86_64__)
    // Later sets contain the earlier ones' bits.
    const unsigned tiles = (unsigned)dnnl_cpu_isa_avx512_core_amx;
    return ((unsigned)dnnl_get_effective_cpu_isa() & tiles) == tiles;
#else
    return false;
#endif
}

static dnnl_data_type_t data_type(dtype type)
{
    return type == DTYPE_BF16 ? dnnl_bf16 : dnnl_f32;
}

// Version 3 made descriptors opaque and creates them on the heap; here both are one handle.
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t matrix_desc;

static dnnl_status_t desc_create(matrix_desc *d, const dnnl_dims_t dims, dnnl_data_type_t type,
                                 const dnnl_dims_t strides)
{
    return dnnl_memory_desc_create_with_strides(d, 2, dims, type, strides);
}

static void desc_destroy(matrix_desc *d)
{
    if (*d)
        dnnl_memory_desc_destroy(*d);
}

static dnnl_status_t append_add(dnnl_post_ops_t ops, const matrix_desc *d)
{
    return dnnl_post_ops_append_binary(ops, dnnl_binary_add, *d);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

static dnnl_status_t matmul_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                 const matrix_desc *a, const matrix_desc *b,
                                 const matrix_desc *bias, const matrix_desc *c,
                                 dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(pd, engine, *a, *b, bias ? *bias : NULL, *c, attr);
}
#else
typedef dnnl_memory_desc_t matrix_desc;

static dnnl_status_t desc_create(matrix_desc *d, const dnnl_dims_t dims, dnnl_data_type_t type,
                                 const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(d, 2, dims, type, strides);
}

static void desc_destroy(matrix_desc *d)
{
    (void)d; // a plain struct in this version
}

static dnnl_status_t append_add(dnnl_post_ops_t ops, const matrix_desc *d)
{
    return dnnl_post_ops_append_binary(ops, dnnl_binary_add, d);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}

static dnnl_status_t matmul_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                 const matrix_desc *a, const matrix_desc *b,
                                 const matrix_desc *bias, const matrix_desc *c,
                                 dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t desc;
    dnnl_status_t code = dnnl_matmul_desc_init(&desc, a, b, bias, c);
    return code == dnnl_success ? dnnl_primitive_desc_create(pd, &desc, attr, engine, NULL) : code;
}
#endif

// Descriptors of one product, alive while it is created.
typedef struct product_descs {
    matrix_desc a, b, bias, c;
    dnnl_post_ops_t post_ops;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t primitive;
} product_descs;

static status describe_operands(const cpu_product_spec *s, product_descs *d)
{
    const int64_t m = (int64_t)s->m, n = (int64_t)s->n, k = (int64_t)s->k;
    const dnnl_dims_t a = {m, k}, a_strides = {(int64_t)s->a_row, (int64_t)s->a_col};
    const dnnl_dims_t b = {k, n}, b_strides = {(int64_t)s->b_row, (int64_t)s->b_col};
    const dnnl_dims_t c = {m, n}, c_strides = {n, 1};
    const dnnl_dims_t bias = {1, n};
    TRY(check(desc_create(&d->a, a, data_type(s->in), a_strides), "describing A"));
    TRY(check(desc_create(&d->b, b, data_type(s->in), b_strides), "describing B"));
    TRY(check(desc_create(&d->bias, bias, data_type(s->in), c_strides), "describing the bias"));
    return check(desc_create(&d->c, c, data_type(s->out), c_strides), "describing C");
}

static status describe_attributes(const cpu_product_spec *s, product_descs *d)
{
    TRY(check(dnnl_primitive_attr_create(&d->attr), "creating attributes"));
    TRY(check(dnnl_primitive_attr_set_scratchpad_mode(d->attr, dnnl_scratchpad_mode_user),
              "setting the scratchpad"));
    TRY(check(dnnl_post_ops_create(&d->post_ops), "creating post-operations"));
    if (s->residual)
        TRY(check(append_add(d->post_ops, &d->c), "adding the residual"));
    if (s->accumulate)
        TRY(check(append_sum(d->post_ops), "adding to C"));
    return check(dnnl_primitive_attr_set_post_ops(d->attr, d->post_ops), "setting post-operations");
}

static void destroy_descs(product_descs *d)
{
    if (d->primitive)
        dnnl_primitive_desc_destroy(d->primitive);
    if (d->attr)
        dnnl_primitive_attr_destroy(d->attr);
    if (d->post_ops)
        dnnl_post_ops_destroy(d->post_ops);
    desc_destroy(&d->a);
    desc_destroy(&d->b);
    desc_destroy(&d->bias);
    desc_destroy(&d->c);
}

// An operand without memory yet: its place is set at each run.
static status add_operand(cpu_product *p, int arg, dnnl_query_t query, int index,
                          const product_descs *d)
{
    dnnl_memory_t memory;
    TRY(check(dnnl_memory_create(&memory, dnnl_primitive_desc_query_md(d->primitive, query, index),
                                 p->engine, DNNL_MEMORY_NONE),
              "creating an operand"));
    p->args[p->n_args++] = (dnnl_exec_arg_t){arg, memory};
    return STATUS_OK;
}

static status add_operands(const cpu_product_spec *s, cpu_product *p, const product_descs *d)
{
    TRY(add_operand(p, DNNL_ARG_DST, dnnl_query_dst_md, 0, d));
    TRY(add_operand(p, DNNL_ARG_SRC, dnnl_query_src_md, 0, d));
    TRY(add_operand(p, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0, d));
    TRY(add_operand(p, DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md, 0, d));
    p->scratch_bytes = dnnl_memory_desc_get_size(
        dnnl_primitive_desc_query_md(d->primitive, dnnl_query_scratchpad_md, 0));
    p->bias_arg = p->residual_arg = -1;
    if (s->bias) {
        p->bias_arg = p->n_args;
        TRY(add_operand(p, DNNL_ARG_BIAS, dnnl_query_weights_md, 1, d));
    }
    if (s->residual) {
        p->residual_arg = p->n_args;
        TRY(add_operand(p, DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, dnnl_query_dst_md, 0,
                        d));
    }
    return STATUS_OK;
}

static status create_primitive(const cpu_product_spec *s, cpu_product *p, product_descs *d)
{
    TRY(check(dnnl_engine_create(&p->engine, dnnl_cpu, 0), "creating the engine"));
    TRY(check(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags),
              "creating the stream"));
    TRY(describe_operands(s, d));
    TRY(describe_attributes(s, d));
    TRY(check(matmul_desc(&d->primitive, p->engine, &d->a, &d->b, s->bias ? &d->bias : NULL, &d->c,
                          d->attr),
              "describing a matrix product"));
    TRY(check(dnnl_primitive_create(&p->primitive, d->primitive), "creating a matrix product"));
    return add_operands(s, p, d);
}

// The matmul primitive is as fast as sgemm for most fp32 shapes, but copies no operand: at row
// strides where caches collide (3072 columns) it was seen at half of sgemm's rate. What sgemm
// cannot do are the epilogues. Its fast form is for x86 only.
static bool is_plain(const cpu_product_spec *s)
{
#if defined(__x86_64__)
    return s->in == DTYPE_F32 && s->out == DTYPE_F32 && !s->bias && !s->residual;
#else
    (void)s;
    return false;
#endif
}

// Strides as sgemm wants them: which way a matrix lies, and the distance of its rows or columns. A
// matrix of one row or column may lie either way, its distance counts for nothing but is checked.
static status run_plain(const cpu_product_spec *s, const cpu_product_args *args)
{
    const bool a_rows = s->a_col == 1, b_rows = s->b_col == 1;
    const size_t lda = a_rows ? size_max(s->a_row, s->k) : size_max(s->a_col, s->m);
    const size_t ldb = b_rows ? size_max(s->b_row, s->n) : size_max(s->b_col, s->k);
    return check(dnnl_sgemm(a_rows ? 'N' : 'T', b_rows ? 'N' : 'T', (int64_t)s->m, (int64_t)s->n,
                            (int64_t)s->k, 1.0f, args->a, (int64_t)lda, args->b, (int64_t)ldb,
                            s->accumulate ? 1.0f : 0.0f, args->c, (int64_t)s->n),
                 "a matrix product");
}

status cpu_product_create(const cpu_product_spec *spec, cpu_product **out)
{
    void *memory;
    TRY(memory_alloc(1, sizeof(cpu_product), "matrix product", &memory));
    cpu_product *p = memory;
    p->spec = *spec;
    p->is_plain = is_plain(spec);
    if (p->is_plain) {
        *out = p;
        return STATUS_OK;
    }
    product_descs descs = {0};
    status result = create_primitive(spec, p, &descs);
    destroy_descs(&descs);
    if (result == STATUS_OK)
        *out = p;
    else
        cpu_product_destroy(p);
    return result;
}

void cpu_product_destroy(cpu_product *product)
{
    if (!product)
        return;
    for (int i = 0; i < product->n_args; i++)
        dnnl_memory_destroy(product->args[i].memory);
    if (product->primitive)
        dnnl_primitive_destroy(product->primitive);
    if (product->stream)
        dnnl_stream_destroy(product->stream);
    if (product->engine)
        dnnl_engine_destroy(product->engine);
    memory_free(product);
}

size_t cpu_product_scratch(const cpu_product *product)
{
    return product->scratch_bytes;
}

static status place(const cpu_product *p, int arg, const void *memory)
{
    void *handle = (void *)(uintptr_t)memory; // inputs are not written
    return check(dnnl_memory_set_data_handle(p->args[arg].memory, handle), "placing an operand");
}

status cpu_product_run(const cpu_product *product, const cpu_product_args *args)
{
    if (product->is_plain)
        return run_plain(&product->spec, args);
    TRY(place(product, 0, args->c));
    TRY(place(product, 1, args->a));
    TRY(place(product, 2, args->b));
    TRY(place(product, 3, args->scratch));
    if (product->bias_arg >= 0)
        TRY(place(product, product->bias_arg, args->bias));
    if (product->residual_arg >= 0)
        TRY(place(product, product->residual_arg, args->residual));
    TRY(check(
        dnnl_primitive_execute(product->primitive, product->stream, product->n_args, product->args),
        "a matrix product"));
    return check(dnnl_stream_wait(product->stream), "waiting for a matrix product");
}
