/* Inside the module: names of files and the JSON of the state. */
#ifndef TRIFOLD_CHECKPOINT_CHECKPOINT_INTERNAL_H
#define TRIFOLD_CHECKPOINT_CHECKPOINT_INTERNAL_H

#include "checkpoint/checkpoint.h"

enum {
    CHECKPOINT_PATH_MAX = 4096,
    CHECKPOINT_VERSION = 1,
};

#define CHECKPOINT_MODEL "model.safetensors"
#define CHECKPOINT_OPTIMIZER "optimizer.safetensors"
#define CHECKPOINT_STATE "state.json"
#define CHECKPOINT_MANIFEST "manifest.json"

/* "FOLDER/NAME" into `path`; an error where it is too long. */
status checkpoint_path(char path[CHECKPOINT_PATH_MAX], const char *folder, const char *name);

/* Whether the folder has a manifest that can be read. */
bool checkpoint_is_complete(const char *folder);

/* The step of a folder name "global_stepN", or -1. */
int64_t checkpoint_step_of(const char *name);

/* JSON text of the state, for free(). */
status checkpoint_state_format(const checkpoint_state *state, char **text);

/* The state of the JSON text in the file `path`. */
status checkpoint_state_parse(const char *path, checkpoint_state *state);

/* The name of a tensor in model.safetensors or optimizer.safetensors. */
void checkpoint_tensor_name(char name[2 * TENSOR_NAME_MAX], checkpoint_part part,
                            const char *tensor);

#endif
