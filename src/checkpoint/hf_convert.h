/* Hugging Face GPTNeoXForCausalLM folders (config.json, safetensors, sharded or not) to Trifold
 * checkpoints and back. The layout of every tensor is the same on both sides; only names differ. */
#ifndef TRIFOLD_CHECKPOINT_HF_CONVERT_H
#define TRIFOLD_CHECKPOINT_HF_CONVERT_H

#include <stddef.h>

#include "base/dtype.h"
#include "base/status.h"

typedef struct hf_import_options {
    size_t vocab; /* true vocabulary: rows past it are padding and are left out; 0: keep all */
} hf_import_options;

/* Write SAVE/global_step0 without optimizer state. What GPTNeoX does not have in common with this
 * model (scaled rotary, other activations) is refused by name. */
status hf_import(const char *hf_dir, const char *save_dir, const hf_import_options *options);

typedef struct hf_export_options {
    dtype type;            /* of the tensors written: fp32, bf16 or fp16 */
    size_t vocab_multiple; /* pad the vocabulary with zero rows to a multiple; 0 or 1: none */
} hf_export_options;

/* Write config.json and model.safetensors from the checkpoint that `load` names (checkpoint_find).
 * RMSNorm, and models without the biases that GPTNeoX always has, are refused. */
status hf_export(const char *load, const char *hf_dir, const hf_export_options *options);

#endif
