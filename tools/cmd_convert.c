// trifold convert: Hugging Face folders to checkpoints and back.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/hf_convert.h"
#include "cmd.h"
#include "cmd_config.h"

static void print_help(void)
{
    puts("usage: trifold convert --from hf DIR --to checkpoint DIR [--vocab-size N]\n"
         "       trifold convert --from checkpoint DIR --to hf DIR [--dtype fp32|bf16|fp16]\n"
         "                       [--make-vocab-size-divisible-by N]\n\n"
         "  --vocab-size N    the true vocabulary; rows past it are padding and are left out\n"
         "  --dtype TYPE      of the tensors written; fp32 where it is not given\n"
         "  --make-vocab-size-divisible-by N\n"
         "                    add zero rows up to a multiple\n\n"
         "The checkpoint written is global_step0 without optimizer state; load: starts training\n"
         "from it at iteration 0.");
}

typedef struct convert_options {
    const char *from_kind, *from_dir, *to_kind, *to_dir;
    hf_import_options import;
    hf_export_options export;
} convert_options;

static status parse_place(int argc, char **argv, int *i, const char **kind, const char **dir)
{
    if (*i + 2 >= argc)
        return fail(STATUS_ERR_CONFIG, "%s needs a kind (hf or checkpoint) and a folder", argv[*i]);
    *kind = argv[*i + 1];
    *dir = argv[*i + 2];
    *i += 3;
    if (strcmp(*kind, "hf") != 0 && strcmp(*kind, "checkpoint") != 0)
        return fail(STATUS_ERR_CONFIG, "\"%s\" is no kind; hf and checkpoint are", *kind);
    return STATUS_OK;
}

static status parse_count(int argc, char **argv, int *i, size_t *count)
{
    const char *value, *name = argv[*i];
    char *end;
    TRY(cmd_option_value(argc, argv, i, &value));
    errno = 0;
    const long long number = strtoll(value, &end, 10);
    if (errno != 0 || *end != '\0' || number <= 0)
        return fail(STATUS_ERR_CONFIG, "%s \"%s\"; it must be a whole number > 0", name, value);
    *count = (size_t)number;
    return STATUS_OK;
}

static status parse_dtype(int argc, char **argv, int *i, dtype *type)
{
    const char *value;
    TRY(cmd_option_value(argc, argv, i, &value));
    for (dtype t = DTYPE_F32; t <= DTYPE_F16; t++) {
        if (!strcmp(value, dtype_str(t))) {
            *type = t;
            return STATUS_OK;
        }
    }
    return fail(STATUS_ERR_CONFIG, "--dtype \"%s\"; it is fp32, bf16 or fp16", value);
}

static status parse_option(int argc, char **argv, int *i, convert_options *o)
{
    if (!strcmp(argv[*i], "--from"))
        return parse_place(argc, argv, i, &o->from_kind, &o->from_dir);
    if (!strcmp(argv[*i], "--to"))
        return parse_place(argc, argv, i, &o->to_kind, &o->to_dir);
    if (!strcmp(argv[*i], "--vocab-size"))
        return parse_count(argc, argv, i, &o->import.vocab);
    if (!strcmp(argv[*i], "--make-vocab-size-divisible-by"))
        return parse_count(argc, argv, i, &o->export.vocab_multiple);
    if (!strcmp(argv[*i], "--dtype"))
        return parse_dtype(argc, argv, i, &o->export.type);
    return fail(STATUS_ERR_CONFIG, "unknown option \"%s\"; trifold convert --help lists them",
                argv[*i]);
}

status cmd_convert(int argc, char **argv)
{
    convert_options o = {.export = {.type = DTYPE_F32}};
    for (int i = 1; i < argc;) {
        if (!strcmp(argv[i], "--help")) {
            print_help();
            return STATUS_OK;
        }
        TRY(parse_option(argc, argv, &i, &o));
    }
    if (!o.from_kind || !o.to_kind || !strcmp(o.from_kind, o.to_kind))
        return fail(STATUS_ERR_CONFIG,
                    "convert goes --from hf DIR --to checkpoint DIR, or the other way");
    const bool importing = !strcmp(o.from_kind, "hf");
    TRY(importing ? hf_import(o.from_dir, o.to_dir, &o.import)
                  : hf_export(o.from_dir, o.to_dir, &o.export));
    printf("wrote %s%s\n", o.to_dir, importing ? "/global_step0" : "");
    return STATUS_OK;
}
