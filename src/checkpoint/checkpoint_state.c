// The state of a run as JSON: one table says which member has which name.
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "checkpoint/checkpoint_internal.h"

typedef enum member_kind {
    MEMBER_INT,
    MEMBER_SIZE,
    MEMBER_DOUBLE,
    MEMBER_FLOAT,
    MEMBER_BOOL,
    MEMBER_ENUM, // written as its name
    MEMBER_TEXT, // an array of TEXT_MAX
} member_kind;

enum {
    TEXT_MAX = 32,
    NAMES_MAX = 3,
};

typedef struct member {
    const char *name;
    member_kind kind;
    size_t offset;
    const char *names[NAMES_MAX]; // of an enum's values
} member;

#define SHAPE(name, kind, field)                             \
    {                                                        \
        name, kind, offsetof(checkpoint_state, shape.field), \
        {                                                    \
            0                                                \
        }                                                    \
    }
#define STATE(name, kind, field)                       \
    {                                                  \
        name, kind, offsetof(checkpoint_state, field), \
        {                                              \
            0                                          \
        }                                              \
    }
#define CHOICE(name, field, ...)                                    \
    {                                                               \
        name, MEMBER_ENUM, offsetof(checkpoint_state, shape.field), \
        {                                                           \
            __VA_ARGS__                                             \
        }                                                           \
    }

static const member members[] = {
    SHAPE("num-layers", MEMBER_SIZE, n_layers),
    SHAPE("hidden-size", MEMBER_SIZE, hidden),
    SHAPE("num-attention-heads", MEMBER_SIZE, n_heads),
    SHAPE("intermediate-size", MEMBER_SIZE, ffn),
    SHAPE("vocab-size", MEMBER_SIZE, vocab),
    SHAPE("max-position-embeddings", MEMBER_SIZE, max_positions),
    CHOICE("pos-emb", position, "rotary", "learned", "none"),
    SHAPE("rotary-dims", MEMBER_SIZE, rotary_dims),
    SHAPE("rotary-emb-base", MEMBER_DOUBLE, rotary_base),
    CHOICE("norm", norm, "layernorm", "rmsnorm"),
    SHAPE("norm-epsilon", MEMBER_FLOAT, norm_epsilon),
    CHOICE("gelu", gelu, "erf", "tanh"),
    SHAPE("gpt-j-residual", MEMBER_BOOL, parallel_residual),
    SHAPE("tied", MEMBER_BOOL, tied),
    SHAPE("use-bias-in-attn-linear", MEMBER_BOOL, attention_bias),
    SHAPE("use-bias-in-mlp", MEMBER_BOOL, mlp_bias),
    STATE("iteration", MEMBER_INT, iteration),
    STATE("updates", MEMBER_INT, updates),
    STATE("seed", MEMBER_INT, seed),
    STATE("loss-scale", MEMBER_DOUBLE, loss_scale),
    STATE("loss-scale-good", MEMBER_INT, scale_good),
    STATE("loss-scale-credit", MEMBER_INT, scale_credit),
    STATE("skipped", MEMBER_INT, skipped),
    STATE("has-optimizer", MEMBER_BOOL, has_optimizer),
    STATE("lr", MEMBER_DOUBLE, lr),
    STATE("min-lr", MEMBER_DOUBLE, min_lr),
    STATE("warmup", MEMBER_DOUBLE, warmup),
    STATE("lr-decay-iters", MEMBER_INT, decay_iters),
    STATE("lr-decay-style", MEMBER_TEXT, decay_style),
    STATE("train-batch-size", MEMBER_INT, global_batch),
};

static const size_t member_count = sizeof members / sizeof members[0];

// Enum members have the size of int here, as gcc and clang make them; the assertion keeps it so.
_Static_assert(sizeof(norm_kind) == sizeof(int) && sizeof(gelu_kind) == sizeof(int) &&
                   sizeof(position_kind) == sizeof(int),
               "enums are read and written as int");

static json_t *member_json(const member *m, const checkpoint_state *state)
{
    const void *field = (const unsigned char *)state + m->offset;
    switch (m->kind) {
    case MEMBER_INT:
        return json_integer((json_int_t) * (const int64_t *)field);
    case MEMBER_SIZE:
        return json_integer((json_int_t) * (const size_t *)field);
    case MEMBER_DOUBLE:
        return json_real(*(const double *)field);
    case MEMBER_FLOAT:
        return json_real((double)*(const float *)field);
    case MEMBER_BOOL:
        return json_boolean(*(const bool *)field);
    case MEMBER_ENUM:
        return json_string(m->names[*(const int *)field]);
    case MEMBER_TEXT:
        return json_string(field);
    }
    return NULL;
}

status checkpoint_state_format(const checkpoint_state *state, char **text)
{
    json_t *root = json_object();
    json_object_set_new(root, "version", json_integer(CHECKPOINT_VERSION));
    for (size_t i = 0; i < member_count; i++) {
        // JSON has no infinity and no NaN: a member left out could never be read back.
        if (json_object_set_new(root, members[i].name, member_json(&members[i], state)) == 0)
            continue;
        json_decref(root);
        return fail(STATUS_ERR_NUMERICS,
                    "checkpoint state: \"%s\" cannot be written; a finite "
                    "value would be right",
                    members[i].name);
    }
    *text = json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17));
    json_decref(root);
    if (!*text)
        return fail(STATUS_ERR_MEMORY, "checkpoint state: out of memory");
    return STATUS_OK;
}

static bool set_enum(const member *m, const json_t *value, void *field)
{
    const char *text = json_string_value(value);
    for (int i = 0; text && i < NAMES_MAX && m->names[i]; i++) {
        if (!strcmp(text, m->names[i])) {
            *(int *)field = i;
            return true;
        }
    }
    return false;
}

static bool set_member(const member *m, const json_t *value, checkpoint_state *state)
{
    void *field = (unsigned char *)state + m->offset;
    const char *text = json_string_value(value);
    switch (m->kind) {
    case MEMBER_INT:
        *(int64_t *)field = json_integer_value(value);
        return json_is_integer(value) && json_integer_value(value) >= 0;
    case MEMBER_SIZE:
        *(size_t *)field = (size_t)json_integer_value(value);
        return json_is_integer(value) && json_integer_value(value) >= 0;
    case MEMBER_DOUBLE:
        *(double *)field = json_number_value(value);
        return json_is_number(value);
    case MEMBER_FLOAT:
        *(float *)field = (float)json_number_value(value);
        return json_is_number(value) && isfinite(*(const float *)field);
    case MEMBER_BOOL:
        *(bool *)field = json_is_true(value);
        return json_is_boolean(value);
    case MEMBER_ENUM:
        return set_enum(m, value, field);
    case MEMBER_TEXT:
        if (!text || strlen(text) >= TEXT_MAX)
            return false;
        memcpy(field, text, strlen(text) + 1);
        return true;
    }
    return false;
}

static status parse_members(const char *path, const json_t *root, checkpoint_state *state)
{
    const json_int_t version = json_integer_value(json_object_get(root, "version"));
    if (version != CHECKPOINT_VERSION)
        return fail(STATUS_ERR_FORMAT, "%s: has version %lld; this program reads version %d", path,
                    (long long)version, CHECKPOINT_VERSION);
    for (size_t i = 0; i < member_count; i++) {
        const json_t *value = json_object_get(root, members[i].name);
        if (!value || !set_member(&members[i], value, state))
            return fail(STATUS_ERR_FORMAT, "%s: \"%s\" is %s; the file is damaged", path,
                        members[i].name, value ? "of a wrong kind" : "missing");
    }
    return STATUS_OK;
}

status checkpoint_state_parse(const char *path, checkpoint_state *state)
{
    json_error_t error;
    memset(state, 0, sizeof *state);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return fail(STATUS_ERR_FORMAT, "%s:%d:%d: %s", path, error.line, error.column, error.text);
    status result = parse_members(path, root, state);
    json_decref(root);
    if (result == STATUS_OK && model_shape_check(&state->shape) != STATUS_OK)
        result = STATUS_ERR_FORMAT;
    return result;
}

// Members that may differ between a checkpoint and the model it fills.
static bool is_free_member(const member *m, const model_shape *wanted)
{
    return !strcmp(m->name, "gelu") ||
           (!strcmp(m->name, "max-position-embeddings") && wanted->position != POSITION_LEARNED);
}

static void value_text(const member *m, const checkpoint_state *state, char *text, size_t bytes)
{
    json_t *value = member_json(m, state);
    char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    snprintf(text, bytes, "%s", dump ? dump : "?");
    free(dump);
    json_decref(value);
}

status checkpoint_shape_check(const model_shape *file, const model_shape *wanted, const char *path)
{
    const checkpoint_state theirs = {.shape = *file}, ours = {.shape = *wanted};
    const size_t shape_end = offsetof(checkpoint_state, shape) + sizeof(model_shape);
    for (size_t i = 0; i < member_count; i++) {
        char a[64], b[64];
        if (members[i].offset >= shape_end)
            continue;
        value_text(&members[i], &theirs, a, sizeof a);
        value_text(&members[i], &ours, b, sizeof b);
        if (!strcmp(a, b))
            continue;
        if (!is_free_member(&members[i], wanted))
            return fail(STATUS_ERR_CONFIG,
                        "%s: is of another model: %s is %s there, %s in the configuration", path,
                        members[i].name, a, b);
        log_info("note: %s: %s is %s there; %s is used, as configured", path, members[i].name, a,
                 b);
    }
    return STATUS_OK;
}
