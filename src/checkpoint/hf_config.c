#include "checkpoint/hf_config.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static status get_size(const char *path, const json_t *root, const char *key, size_t *value)
{
    const json_t *found = json_object_get(root, key);
    if (!json_is_integer(found) || json_integer_value(found) <= 0)
        return fail(STATUS_ERR_FORMAT, "%s: \"%s\" must be a whole number > 0", path, key);
    *value = (size_t)json_integer_value(found);
    return STATUS_OK;
}

static double get_number(const json_t *root, const char *key, double otherwise)
{
    const json_t *found = json_object_get(root, key);
    return json_is_number(found) ? json_number_value(found) : otherwise;
}

static bool get_bool(const json_t *root, const char *key, bool otherwise)
{
    const json_t *found = json_object_get(root, key);
    return json_is_boolean(found) ? json_is_true(found) : otherwise;
}

static status read_activation(const char *path, const json_t *root, gelu_kind *kind)
{
    const json_t *found = json_object_get(root, "hidden_act");
    const char *name = found ? json_string_value(found) : "gelu";
    if (name && !strcmp(name, "gelu"))
        *kind = GELU_ERF;
    else if (name && (!strcmp(name, "gelu_new") || !strcmp(name, "gelu_fast") ||
                      !strcmp(name, "gelu_pytorch_tanh")))
        *kind = GELU_TANH;
    else
        return fail(STATUS_ERR_UNSUPPORTED,
                    "%s: hidden_act \"%s\" is not supported; gelu, gelu_new, gelu_fast and "
                    "gelu_pytorch_tanh are",
                    path, name ? name : "");
    return STATUS_OK;
}

// Newer files keep the rotary settings in rope_parameters, older ones beside the rest. Absent ones
// take transformers' defaults, which are not GPT-NeoX's.
static status read_rotary(const char *path, const json_t *root, model_shape *shape)
{
    const json_t *rope = json_object_get(root, "rope_parameters");
    const json_t *type = json_object_get(rope, "rope_type");
    const json_t *scaling = json_object_get(root, "rope_scaling");
    if ((type && (!json_is_string(type) || strcmp(json_string_value(type), "default") != 0)) ||
        json_is_object(scaling))
        return fail(STATUS_ERR_UNSUPPORTED,
                    "%s: scaled rotary embedding is not supported; rope_type default is", path);
    const double share =
        get_number(rope, "partial_rotary_factor", get_number(root, "rotary_pct", 0.25));
    if (!(share > 0 && share <= 1))
        return fail(STATUS_ERR_FORMAT,
                    "%s: rotary embedding of a share %g of each head; more than 0, and at most 1 "
                    "would be right",
                    path, share);
    shape->rotary_base = get_number(rope, "rope_theta", get_number(root, "rotary_emb_base", 10000));
    shape->position = POSITION_ROTARY;
    shape->rotary_dims = (size_t)((double)(shape->hidden / shape->n_heads) * share);
    return STATUS_OK;
}

static status read_shape(const char *path, const json_t *root, model_shape *shape)
{
    const char *kind = json_string_value(json_object_get(root, "model_type"));
    if (!kind || strcmp(kind, "gpt_neox") != 0)
        return fail(STATUS_ERR_UNSUPPORTED, "%s: model_type is \"%s\"; gpt_neox is supported", path,
                    kind ? kind : "");
    TRY(get_size(path, root, "num_hidden_layers", &shape->n_layers));
    TRY(get_size(path, root, "hidden_size", &shape->hidden));
    TRY(get_size(path, root, "num_attention_heads", &shape->n_heads));
    TRY(get_size(path, root, "intermediate_size", &shape->ffn));
    TRY(get_size(path, root, "vocab_size", &shape->vocab));
    TRY(get_size(path, root, "max_position_embeddings", &shape->max_positions));
    TRY(read_activation(path, root, &shape->gelu));
    TRY(read_rotary(path, root, shape));
    shape->norm = NORM_LAYERNORM;
    shape->norm_epsilon = (float)get_number(root, "layer_norm_eps", 1e-5);
    shape->parallel_residual = get_bool(root, "use_parallel_residual", true);
    shape->tied = get_bool(root, "tie_word_embeddings", false);
    shape->attention_bias = get_bool(root, "attention_bias", true);
    shape->mlp_bias = true;
    return model_shape_check(shape);
}

status hf_config_read(const char *path, model_shape *shape)
{
    json_error_t error;
    memset(shape, 0, sizeof *shape);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return fail(STATUS_ERR_FORMAT, "%s:%d:%d: %s", path, error.line, error.column, error.text);
    const status result = read_shape(path, root, shape);
    json_decref(root);
    return result;
}

status hf_config_format(const model_shape *s, size_t vocab, dtype type, char **text)
{
    const char *const types[] = {
        [DTYPE_F32] = "float32", [DTYPE_BF16] = "bfloat16", [DTYPE_F16] = "float16"};
    if (s->norm != NORM_LAYERNORM || s->position != POSITION_ROTARY || !s->mlp_bias)
        return fail(STATUS_ERR_UNSUPPORTED,
                    "Hugging Face's GPTNeoX has LayerNorm, rotary positions "
                    "and MLP biases; this model has not");
    const double share = (double)s->rotary_dims / (double)(s->hidden / s->n_heads);
    json_t *root = json_pack(
        "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:{s:f, s:f, s:s}, s:f, s:b, s:b, "
        "s:b, s:s, s:s, s:f, s:f, s:b}",
        "architectures", "GPTNeoXForCausalLM", "model_type", "gpt_neox", "num_hidden_layers",
        (json_int_t)s->n_layers, "hidden_size", (json_int_t)s->hidden, "num_attention_heads",
        (json_int_t)s->n_heads, "intermediate_size", (json_int_t)s->ffn, "vocab_size",
        (json_int_t)vocab, "max_position_embeddings", (json_int_t)s->max_positions, "rotary_pct",
        share, "rotary_emb_base", s->rotary_base, "rope_parameters", "partial_rotary_factor", share,
        "rope_theta", s->rotary_base, "rope_type", "default", "layer_norm_eps",
        (double)s->norm_epsilon, "use_parallel_residual", (int)s->parallel_residual,
        "tie_word_embeddings", (int)s->tied, "attention_bias", (int)s->attention_bias, "hidden_act",
        s->gelu == GELU_ERF ? "gelu" : "gelu_new", "torch_dtype", types[type], "attention_dropout",
        0.0, "hidden_dropout", 0.0, "use_cache", 1);
    *text =
        root ? json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    return *text ? STATUS_OK : fail(STATUS_ERR_MEMORY, "config.json: out of memory");
}

// "layers.3.mlp.linear1.weight" -> "gpt_neox.layers.3.mlp.dense_h_to_4h.weight", and so on.
void hf_tensor_name(char hf[HF_NAME_MAX], const char *name)
{
    static const struct {
        const char *ours, *theirs;
    } parts[] = {
        {"word_embeddings.weight", "gpt_neox.embed_in.weight"},
        {"final_linear.weight", "embed_out.weight"},
        {"norm.weight", "gpt_neox.final_layer_norm.weight"},
        {"norm.bias", "gpt_neox.final_layer_norm.bias"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!strcmp(name, parts[i].ours)) {
            snprintf(hf, HF_NAME_MAX, "%s", parts[i].theirs);
            return;
        }
    }
    const char *linear1 = strstr(name, "mlp.linear1.");
    const char *linear2 = strstr(name, "mlp.linear2.");
    const char *cut = linear1 ? linear1 : linear2;
    if (!cut) {
        snprintf(hf, HF_NAME_MAX, "gpt_neox.%s", name);
        return;
    }
    snprintf(hf, HF_NAME_MAX, "gpt_neox.%.*smlp.%s.%s", (int)(cut - name), name,
             linear1 ? "dense_h_to_4h" : "dense_4h_to_h", cut + strlen("mlp.linear1."));
}
