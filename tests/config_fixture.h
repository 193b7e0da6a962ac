/* What the tests of the configuration share: a toy that resolves, and loading text in one call. */
#ifndef TRIFOLD_TESTS_CONFIG_FIXTURE_H
#define TRIFOLD_TESTS_CONFIG_FIXTURE_H

#include "check.h"

#include "config/config.h"

#define TOY_MODEL                                                                      \
    "num_layers: 4\nhidden_size: 64\nnum_attention_heads: 4\nseq_length: 32\n"         \
    "max_position_embeddings: 32\npos_emb: rotary\nvocab_size: 128\ntrain_iters: 20\n" \
    "hidden_dropout: 0\nattention_dropout: 0\n"
#define TOY_OPTIMIZER "optimizer: {type: Adam, params: {lr: 1e-3}}\n"
#define TOY_BATCH "train_micro_batch_size_per_gpu: 2\n"
#define TOY TOY_MODEL TOY_OPTIMIZER TOY_BATCH

static inline config *new_config(void)
{
    config *c = NULL;
    assert_ok(config_create(&c));
    return c;
}

static inline status load(config *c, const char *name, const char *text)
{
    return config_load_text(c, name, text, strlen(text), false);
}

/* A resolved configuration of `text` for `world` ranks; the caller destroys it. */
static inline config *resolved(const char *text, int world)
{
    config *c = new_config();
    assert_ok(load(c, "toy.yml", text));
    assert_ok(config_resolve(c, world));
    return c;
}

/* Reading `text` fails with a message that contains `message`. */
static inline void load_fails(const char *text, const char *message)
{
    config *c = new_config();
    assert_fails(STATUS_ERR_CONFIG, message, load(c, "toy.yml", text));
    config_destroy(c);
}

/* `text` reads well and fails to resolve for `world` ranks with a message that contains
 * `message`. */
static inline void resolve_fails(const char *text, int world, const char *message)
{
    config *c = new_config();
    assert_ok(load(c, "toy.yml", text));
    assert_fails(STATUS_ERR_CONFIG, message, config_resolve(c, world));
    config_destroy(c);
}

/* The same for the toy with one assignment on top. */
static inline void set_resolve_fails(const char *assignment, int world, const char *message)
{
    config *c = new_config();
    assert_ok(load(c, "toy.yml", TOY));
    assert_ok(config_set(c, assignment));
    assert_fails(STATUS_ERR_CONFIG, message, config_resolve(c, world));
    config_destroy(c);
}

#endif
