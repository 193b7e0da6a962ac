// Causal self-attention without the T x T matrix.
//
// A head's q, k, v are brought to fp32 once, k and v also transposed, into a thread's own buffers.
// Queries and keys are then taken in blocks of BLOCK rows; only blocks on or below the diagonal are
// computed. Forward keeps a running maximum and sum of each row (Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018); backward makes the probabilities again from
// the saved log-sum-exp (Dao et al., "FlashAttention", 2022):
//
//   P = exp(q k^T / sqrt D - lse)        dv = P^T do             delta = rowsum(do o)
//   dP = do v^T                          dS = P (dP - delta)     dq = dS k / sqrt D, dk = dS^T q /
//   sqrt D
//
// One thread works on one head of one sample: no sums are shared, so results do not depend on the
// number of threads.
#include <math.h>

#include "base/philox.h"
#include "device/cpu/kernels/cpu_kernels.h"
#include "device/cpu/kernels/cpu_simd.h"
#include "device/cpu/kernels/cpu_split.h"
#include "device/cpu/kernels/cpu_tile.h"

enum {
    BLOCK = 64, // queries or keys at a time; a multiple of every VF_LANES
};

// Where one head of one sample lies.
typedef struct head_place {
    size_t tokens, heads, head_dim;
    size_t sample, head;
    size_t mask_row; // of the head's first row among all ranks' probabilities
} head_place;

// Element of q (part 0), k (1) or v (2) of token t.
VF_INLINE size_t qkv_at(const head_place *h, size_t t, size_t part)
{
    return (((h->sample * h->tokens + t) * h->heads + h->head) * 3 + part) * h->head_dim;
}

VF_INLINE size_t out_at(const head_place *h, size_t t)
{
    return ((h->sample * h->tokens + t) * h->heads + h->head) * h->head_dim;
}

VF_INLINE size_t row_at(const head_place *h, size_t t)
{
    return (h->sample * h->heads + h->head) * h->tokens + t;
}

// A thread's buffers. Rows are padded with zeros: T to whole blocks, D to whole vectors.
typedef struct head_buffers {
    size_t padded_tokens, padded_dim;
    float *q, *k, *v;    // (Tp, Dp)
    float *kt;           // (Dp, Tp)
    float *scores;       // (BLOCK, BLOCK): S, then P
    float *most;         // (BLOCK): forward
    float *sum;          // (BLOCK, VF_LANES): forward, a part in each lane
    float *acc;          // (BLOCK, Dp): forward
    float *vt;           // (Dp, Tp): from here on backward only
    float *dout;         // (Tp, Dp)
    float *dq, *dk, *dv; // (Tp, Dp); dk and dv use their first BLOCK rows
    float *dscores;      // (BLOCK, BLOCK)
    float *delta;        // (Tp)
} head_buffers;

static size_t padded_tokens(size_t tokens)
{
    return size_round_up(tokens, BLOCK);
}

static size_t padded_dim(size_t head_dim)
{
    return size_round_up(head_dim, VF_LANES);
}

static float *take(float **next, size_t count)
{
    float *place = *next;
    *next += size_round_up(count, 16);
    return place;
}

static size_t buffer_floats(size_t tokens, size_t head_dim, bool backward)
{
    const size_t matrix = padded_tokens(tokens) * padded_dim(head_dim);
    const size_t common = 4 * matrix + BLOCK * (BLOCK + 1 + VF_LANES + padded_dim(head_dim));
    const size_t more =
        3 * matrix + 2 * BLOCK * padded_dim(head_dim) + BLOCK * BLOCK + padded_tokens(tokens);
    return size_round_up(common + (backward ? more : 0), 16);
}

static head_buffers place_buffers(float *memory, size_t tokens, size_t head_dim, bool backward)
{
    head_buffers b = {.padded_tokens = padded_tokens(tokens), .padded_dim = padded_dim(head_dim)};
    const size_t matrix = b.padded_tokens * b.padded_dim;
    const size_t strip = BLOCK * b.padded_dim;
    b.q = take(&memory, matrix);
    b.k = take(&memory, matrix);
    b.v = take(&memory, matrix);
    b.kt = take(&memory, matrix);
    b.scores = take(&memory, BLOCK * BLOCK);
    b.most = take(&memory, BLOCK);
    b.sum = take(&memory, BLOCK * VF_LANES);
    b.acc = take(&memory, strip);
    if (!backward)
        return b;
    b.vt = take(&memory, matrix);
    b.dout = take(&memory, matrix);
    b.dq = take(&memory, matrix);
    b.dk = take(&memory, strip);
    b.dv = take(&memory, strip);
    b.dscores = take(&memory, BLOCK * BLOCK);
    b.delta = take(&memory, b.padded_tokens);
    return b;
}

// Rows of D elements at `at(h, t)` to zero-padded fp32 rows, each times `scale`.
VF_INLINE void load_row(float *to, const void *from, size_t first, size_t dim, size_t padded,
                        float scale, dtype type)
{
    for (size_t d = 0; d < padded; d += VF_LANES) {
        const vf v = d < dim ? vf_load_upto(from, first + d, first + dim, type) : vf_set(0);
        vf_store_f32(to + d, v * scale);
    }
}

static void zero_padding(float *rows, const head_place *h, const head_buffers *b)
{
    memset(rows + h->tokens * b->padded_dim, 0,
           (b->padded_tokens - h->tokens) * b->padded_dim * sizeof(float));
}

// q, k and v of a token lie side by side. q is scaled.
static void load_qkv(const head_buffers *b, const void *qkv, const head_place *h, dtype type)
{
    const float scale = 1.0f / sqrtf((float)h->head_dim);
    const size_t dim = h->head_dim, padded = b->padded_dim;
    for (size_t t = 0; t < h->tokens; t++) {
        const size_t first = qkv_at(h, t, 0), row = t * padded;
        CPU_BY_TYPE(type, T, {
            load_row(b->q + row, qkv, first, dim, padded, scale, T);
            load_row(b->k + row, qkv, first + dim, dim, padded, 1.0f, T);
            load_row(b->v + row, qkv, first + 2 * dim, dim, padded, 1.0f, T);
        });
    }
    zero_padding(b->q, h, b);
    zero_padding(b->k, h, b);
    zero_padding(b->v, h, b);
}

static void load_out(float *to, const void *out, const head_place *h, const head_buffers *b,
                     dtype type)
{
    for (size_t t = 0; t < h->tokens; t++)
        CPU_BY_TYPE(type, T,
                    load_row(to + t * b->padded_dim, out, out_at(h, t), h->head_dim, b->padded_dim,
                             1.0f, T));
    zero_padding(to, h, b);
}

// (Tp, Dp) to (Dp, Tp), in squares that stay in the first cache.
static void transpose(float *to, const float *from, const head_buffers *b)
{
    const size_t rows = b->padded_tokens, cols = b->padded_dim;
    for (size_t r = 0; r < rows; r += 16)
        for (size_t c = 0; c < cols; c++)
            for (size_t i = 0; i < 16; i++)
                to[c * rows + r + i] = from[(r + i) * cols + c];
}

// S = q k^T of the blocks that begin at `row` and `key`; q carries the scale.
static void block_scores(const head_buffers *b, size_t row, size_t key)
{
    tile_multiply(&(tile_product){.c = b->scores,
                                  .a = b->q + row * b->padded_dim,
                                  .b = b->kt + key,
                                  .m = BLOCK,
                                  .n = BLOCK,
                                  .k = b->padded_dim,
                                  .a_row = b->padded_dim,
                                  .a_col = 1,
                                  .b_row = b->padded_tokens,
                                  .c_row = BLOCK});
}

// Keys after a query count as minus infinity. Padding keys lie after every real query.
static void mask_diagonal(float *scores)
{
    for (size_t i = 0; i < BLOCK; i++)
        for (size_t j = i + 1; j < BLOCK; j++)
            scores[i * BLOCK + j] = -INFINITY;
}

// The dropout factors of probability row (h, i), keys [key, key + BLOCK), onto `row`.
static void drop_row(float *row, const head_place *h, const dropout_spec *d, size_t i, size_t key)
{
    const uint64_t first = d->offset + (uint64_t)((h->mask_row + i) * h->tokens + key);
    const float keep = 1.0f / (1.0f - d->probability);
    for (size_t j = 0; j < BLOCK; j++)
        row[j] *= philox_uniform(d->seed, d->stream, first + j) >= d->probability ? keep : 0;
}

// ---- Forward ----

// The rows' maxima with the scores of this block, and by what factor the sums so far fade. All rows
// at once: one by one each would wait for its own exponential and guess whether it has to fade.
static void fold_maxima(const head_buffers *b, float *fades)
{
    float tops[BLOCK];
    for (size_t i = 0; i < BLOCK; i++) {
        const float *row = b->scores + i * BLOCK;
        vf top = vf_load_f32(row);
        for (size_t j = VF_LANES; j < BLOCK; j += VF_LANES)
            top = vf_max(vf_load_f32(row + j), top);
        tops[i] = vf_max_lane(top);
    }
    for (size_t i = 0; i < BLOCK; i += VF_LANES) {
        const vf before = vf_load_f32(b->most + i);
        const vf most = vf_max(vf_load_f32(tops + i), before);
        vf_store_f32(b->most + i, most);
        vf_store_f32(fades + i, vf_select(before == most, vf_set(1), vf_exp(before - most)));
    }
}

// Fold the scores into the running maxima and sums: S becomes exp(S - maximum).
static void fold_scores(const head_buffers *b)
{
    float fades[BLOCK];
    fold_maxima(b, fades);
    for (size_t i = 0; i < BLOCK; i++) {
        float *row = b->scores + i * BLOCK, *acc = b->acc + i * b->padded_dim;
        const float shift = isfinite(b->most[i]) ? b->most[i] : 0;
        vf sum = vf_load_f32(b->sum + i * VF_LANES) * fades[i];
        for (size_t j = 0; j < BLOCK; j += VF_LANES) {
            const vf p = vf_exp(vf_load_f32(row + j) - shift);
            vf_store_f32(row + j, p);
            sum += p;
        }
        vf_store_f32(b->sum + i * VF_LANES, sum);
        for (size_t d = 0; d < b->padded_dim; d += VF_LANES)
            vf_store_f32(acc + d, vf_load_f32(acc + d) * fades[i]);
    }
}

static void forward_block(const head_buffers *b, const head_place *h, const dropout_spec *dropout,
                          size_t row, size_t key)
{
    block_scores(b, row, key);
    if (key == row)
        mask_diagonal(b->scores);
    fold_scores(b);
    if (dropout->probability > 0)
        for (size_t i = 0; i < BLOCK; i++)
            drop_row(b->scores + i * BLOCK, h, dropout, row + i, key);
    tile_multiply(&(tile_product){.c = b->acc,
                                  .a = b->scores,
                                  .b = b->v + key * b->padded_dim,
                                  .m = BLOCK,
                                  .n = b->padded_dim,
                                  .k = BLOCK,
                                  .a_row = BLOCK,
                                  .a_col = 1,
                                  .b_row = b->padded_dim,
                                  .c_row = b->padded_dim,
                                  .accumulate = true});
}

VF_INLINE void store_rows(const attention_forward_args *a, const head_buffers *b,
                          const head_place *h, size_t row, dtype type)
{
    const size_t end = size_min(row + BLOCK, h->tokens);
    for (size_t t = row; t < end; t++) {
        const size_t i = t - row;
        const float sum = vf_sum(vf_load_f32(b->sum + i * VF_LANES));
        const float inverse = 1.0f / sum;
        a->lse[row_at(h, t)] = b->most[i] + logf(sum);
        const size_t first = out_at(h, t);
        for (size_t d = 0; d < h->head_dim; d += VF_LANES)
            vf_store_upto(a->out, first + d, first + h->head_dim,
                          vf_load_f32(b->acc + i * b->padded_dim + d) * inverse, type);
    }
}

static void forward_head(const attention_forward_args *a, const head_buffers *b,
                         const head_place *h)
{
    load_qkv(b, a->qkv, h, a->type);
    transpose(b->kt, b->k, b);
    for (size_t row = 0; row < h->tokens; row += BLOCK) {
        for (size_t i = 0; i < BLOCK; i++)
            b->most[i] = -INFINITY;
        memset(b->sum, 0, BLOCK * VF_LANES * sizeof(float));
        memset(b->acc, 0, BLOCK * b->padded_dim * sizeof(float));
        for (size_t key = 0; key <= row; key += BLOCK)
            forward_block(b, h, &a->dropout, row, key);
        CPU_BY_TYPE(a->type, T, store_rows(a, b, h, row, T));
    }
}

static head_place place_of(size_t index, size_t tokens, size_t heads, size_t head_dim,
                           size_t whole_heads, size_t first_head)
{
    const size_t sample = index / heads, head = index % heads;
    return (head_place){.tokens = tokens,
                        .heads = heads,
                        .head_dim = head_dim,
                        .sample = sample,
                        .head = head,
                        .mask_row = (sample * whole_heads + first_head + head) * tokens};
}

status CPU_OP(attention_forward)(device_stream *s, const attention_forward_args *args)
{
    const size_t tokens = args->tokens, dim = args->head_dim, heads = args->heads;
    const size_t floats = buffer_floats(tokens, dim, false);
    const size_t count = args->batch * heads;
    void *memory;
    TRY(cpu_stream_scratch(s, floats * (size_t)cpu_stream_threads(s) * sizeof(float), &memory));
#pragma omp parallel num_threads(cpu_split_threads(s, count *tokens *tokens, count))
    {
        float *own = (float *)memory + floats * (size_t)omp_get_thread_num();
        const head_buffers b = place_buffers(own, tokens, dim, false);
#pragma omp for schedule(dynamic, 1)
        for (size_t i = 0; i < count; i++) {
            const head_place h =
                place_of(i, tokens, heads, dim, args->whole_heads, args->first_head);
            forward_head(args, &b, &h);
        }
    }
    return STATUS_OK;
}

// ---- Backward ----

// P from S, and dS from dP, of one row; dropout, where on, scales both by the same factors:
// with the factors F, o = (P F) v, so dP = F (do v^T) and dv takes P F.
VF_INLINE void row_gradient(const head_buffers *b, const attention_backward_args *a,
                            const head_place *h, size_t row, size_t i, size_t key)
{
    float *p_row = b->scores + i * BLOCK;
    float *ds_row = b->dscores + i * BLOCK;
    const size_t t = row + i;
    const float lse = t < h->tokens ? a->lse[row_at(h, t)] : INFINITY;
    const float delta = b->delta[t];
    const bool dropping = a->dropout.probability > 0;
    float p_dropped[BLOCK];
    for (size_t j = 0; j < BLOCK; j += VF_LANES)
        vf_store_f32(p_row + j, vf_exp(vf_load_f32(p_row + j) - lse));
    if (dropping) {
        memcpy(p_dropped, p_row, sizeof p_dropped);
        drop_row(p_dropped, h, &a->dropout, t, key);
        drop_row(ds_row, h, &a->dropout, t, key);
    }
    for (size_t j = 0; j < BLOCK; j += VF_LANES) {
        const vf p = vf_load_f32(p_row + j);
        vf_store_f32(ds_row + j, p * (vf_load_f32(ds_row + j) - delta));
    }
    if (dropping)
        memcpy(p_row, p_dropped, sizeof p_dropped);
}

static void backward_block(const head_buffers *b, const attention_backward_args *a,
                           const head_place *h, size_t row, size_t key)
{
    const size_t dim = b->padded_dim;
    block_scores(b, row, key);
    if (key == row)
        mask_diagonal(b->scores);
    tile_multiply(&(tile_product){.c = b->dscores,
                                  .a = b->dout + row * dim,
                                  .b = b->vt + key,
                                  .m = BLOCK,
                                  .n = BLOCK,
                                  .k = dim,
                                  .a_row = dim,
                                  .a_col = 1,
                                  .b_row = b->padded_tokens,
                                  .c_row = BLOCK});
    for (size_t i = 0; i < BLOCK; i++)
        row_gradient(b, a, h, row, i, key);
    tile_product p = {
        .m = BLOCK, .n = dim, .k = BLOCK, .b_row = dim, .c_row = dim, .accumulate = true};
    p.c = b->dq + row * dim; // dS k
    p.a = b->dscores;
    p.a_row = BLOCK;
    p.a_col = 1;
    p.b = b->k + key * dim;
    tile_multiply(&p);
    p.c = b->dk; // dS^T q
    p.a_row = 1;
    p.a_col = BLOCK;
    p.b = b->q + row * dim;
    tile_multiply(&p);
    p.c = b->dv; // P^T do
    p.a = b->scores;
    p.b = b->dout + row * dim;
    tile_multiply(&p);
}

VF_INLINE void store_gradient(void *dqkv, const float *from, const head_buffers *b,
                              const head_place *h, size_t begin, size_t end, size_t part,
                              float scale, dtype type)
{
    for (size_t t = begin; t < end; t++) {
        const size_t first = qkv_at(h, t, part);
        for (size_t d = 0; d < h->head_dim; d += VF_LANES)
            vf_store_upto(dqkv, first + d, first + h->head_dim,
                          vf_load_f32(from + (t - begin) * b->padded_dim + d) * scale, type);
    }
}

static void load_backward(const attention_backward_args *a, const head_buffers *b,
                          const head_place *h)
{
    load_qkv(b, a->qkv, h, a->type);
    transpose(b->kt, b->k, b);
    transpose(b->vt, b->v, b);
    load_out(b->dout, a->dout, h, b, a->type);
    load_out(b->dq, a->out, h, b, a->type); // o, until delta is known
    for (size_t t = 0; t < b->padded_tokens; t++) {
        vf sum = vf_set(0);
        for (size_t d = 0; d < b->padded_dim; d += VF_LANES)
            sum += vf_load_f32(b->dq + t * b->padded_dim + d) *
                   vf_load_f32(b->dout + t * b->padded_dim + d);
        b->delta[t] = vf_sum(sum);
    }
    memset(b->dq, 0, b->padded_tokens * b->padded_dim * sizeof(float));
}

static void backward_head(const attention_backward_args *a, const head_buffers *b,
                          const head_place *h)
{
    const size_t strip = BLOCK * b->padded_dim * sizeof(float);
    load_backward(a, b, h);
    for (size_t key = 0; key < h->tokens; key += BLOCK) {
        const size_t end = size_min(key + BLOCK, h->tokens);
        memset(b->dk, 0, strip);
        memset(b->dv, 0, strip);
        for (size_t row = key; row < h->tokens; row += BLOCK)
            backward_block(b, a, h, row, key);
        // q carried 1 / sqrt D into dk; dq still lacks it.
        CPU_BY_TYPE(a->type, T, store_gradient(a->dqkv, b->dk, b, h, key, end, 1, 1.0f, T));
        CPU_BY_TYPE(a->type, T, store_gradient(a->dqkv, b->dv, b, h, key, end, 2, 1.0f, T));
    }
    const float scale = 1.0f / sqrtf((float)h->head_dim);
    CPU_BY_TYPE(a->type, T, store_gradient(a->dqkv, b->dq, b, h, 0, h->tokens, 0, scale, T));
}

size_t CPU_OP(attention_workspace)(const device *d, size_t batch, size_t tokens, size_t heads,
                                   size_t head_dim, dtype type)
{
    (void)batch;
    (void)heads;
    (void)type;
    return buffer_floats(tokens, head_dim, true) * (size_t)cpu_threads(d) * sizeof(float);
}

status CPU_OP(attention_backward)(device_stream *s, const attention_backward_args *args)
{
    const size_t tokens = args->tokens, dim = args->head_dim, heads = args->heads;
    const size_t floats = buffer_floats(tokens, dim, true);
    const size_t count = args->batch * heads;
#pragma omp parallel num_threads(cpu_split_threads(s, count *tokens *tokens, count))
    {
        float *own = (float *)args->workspace + floats * (size_t)omp_get_thread_num();
        const head_buffers b = place_buffers(own, tokens, dim, true);
#pragma omp for schedule(dynamic, 1)
        for (size_t i = 0; i < count; i++) {
            const head_place h =
                place_of(i, tokens, heads, dim, args->whole_heads, args->first_head);
            backward_head(args, &b, &h);
        }
    }
    return STATUS_OK;
}
