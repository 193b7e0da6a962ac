/* Inside the module: config.json of GPTNeoX and tensor names. */
#ifndef TRIFOLD_CHECKPOINT_HF_CONFIG_H
#define TRIFOLD_CHECKPOINT_HF_CONFIG_H

#include "base/dtype.h"
#include "model/model_shape.h"

enum {
    HF_NAME_MAX = 2 * TENSOR_NAME_MAX,
};

/* The shape that the file HF_DIR/config.json describes. */
status hf_config_read(const char *path, model_shape *shape);

/* JSON text of config.json with a vocabulary of `vocab` rows, for free(). */
status hf_config_format(const model_shape *shape, size_t vocab, dtype type, char **text);

/* Hugging Face's name of the tensor `name` of the tensor table. */
void hf_tensor_name(char hf[HF_NAME_MAX], const char *name);

#endif
