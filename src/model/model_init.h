/* Initial weights. Each value is drawn from the seed, its tensor's name and its index in the whole
 * tensor, so that it depends on nothing else: not on the grid, nor on what was drawn before. */
#ifndef TRIFOLD_MODEL_MODEL_INIT_H
#define TRIFOLD_MODEL_MODEL_INIT_H

#include <stdint.h>

#include "parallel/tensor_table.h"

/* This rank's part of the tensor into `host`, (rows, cols). */
void model_init_tensor(const tensor_info *info, uint64_t seed, float *host);

#endif
