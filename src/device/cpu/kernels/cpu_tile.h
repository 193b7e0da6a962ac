/* The small matrix product inside attention: C (m, n) [+]= A (m, k) B (k, n), all fp32.
 *
 * B and C are rows of vectors: their row strides are multiples of VF_LANES and n is one. A is read
 * an element at a time, so it may have any strides: a transposed A costs nothing. A block of C,
 * TILE_ROWS x TILE_VECTORS vectors, stays in registers over the whole of k. */
#ifndef TRIFOLD_DEVICE_CPU_TILE_H
#define TRIFOLD_DEVICE_CPU_TILE_H

#include "base/sizes.h"
#include "device/cpu/kernels/cpu_simd.h"

enum {
    // Attention's blocks of 64 divide by both. 16 or 8 sums hide the latency of the products; more
    // would not fit into 16 registers, and with 32 leave rows over.
    TILE_ROWS = VF_LANES == 16 ? 8 : 4,
    TILE_VECTORS = 2,
};

typedef struct tile_product {
    float *c;
    const float *a, *b;
    size_t m, n, k;
    size_t a_row, a_col; /* strides of A */
    size_t b_row, c_row;
    bool accumulate;
} tile_product;

// A block of `rows` x `vectors`, both constant.
VF_INLINE void tile_block(const tile_product *p, size_t row, size_t col, const size_t rows,
                          const size_t vectors)
{
    const float *a = p->a + row * p->a_row;
    const float *b = p->b + col;
    float *c = p->c + row * p->c_row + col;
    vf sums[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 8
    for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (size_t j = 0; j < vectors; j++)
            sums[i][j] = p->accumulate ? vf_load_f32(c + i * p->c_row + j * VF_LANES) : vf_set(0);
    for (size_t k = 0; k < p->k; k++) {
        vf right[TILE_VECTORS];
#pragma GCC unroll 8
        for (size_t j = 0; j < vectors; j++)
            right[j] = vf_load_f32(b + k * p->b_row + j * VF_LANES);
#pragma GCC unroll 8
        for (size_t i = 0; i < rows; i++) {
            const vf left = vf_set(a[i * p->a_row + k * p->a_col]);
#pragma GCC unroll 8
            for (size_t j = 0; j < vectors; j++)
                sums[i][j] += left * right[j];
        }
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (size_t j = 0; j < vectors; j++)
            vf_store_f32(c + i * p->c_row + j * VF_LANES, sums[i][j]);
}

// A column of blocks of constant width; the last rows one at a time.
VF_INLINE void tile_column(const tile_product *p, size_t col, const size_t vectors)
{
    size_t row = 0;
    for (; row + TILE_ROWS <= p->m; row += TILE_ROWS)
        tile_block(p, row, col, TILE_ROWS, vectors);
    for (; row + 2 <= p->m; row += 2)
        tile_block(p, row, col, 2, vectors);
    for (; row < p->m; row++)
        tile_block(p, row, col, 1, vectors);
}

VF_INLINE void tile_multiply(const tile_product *p)
{
    size_t col = 0;
    for (; col + TILE_VECTORS * VF_LANES <= p->n; col += TILE_VECTORS * VF_LANES)
        tile_column(p, col, TILE_VECTORS);
    for (; col < p->n; col += VF_LANES)
        tile_column(p, col, 1);
}

#endif
