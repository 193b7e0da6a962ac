// trifold prep: text to a set of tokens.
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd.h"
#include "cmd_config.h"
#include "data/prep.h"

enum {
    INPUTS_MAX = 4096,
    LOG_SECONDS = 10, // between lines of progress where they cannot be written over
};

typedef struct arguments {
    const char *inputs[INPUTS_MAX];
    const char *keys[PREP_KEYS_MAX];
    char *key_list; // malloc; what `keys` point into
    const char *tokenizer;
    tokenizer_options files;
    prep_options prep;
} arguments;

static void print_help(void)
{
    puts(
        "usage: trifold prep --input FILE... --output PREFIX --tokenizer KIND [options]\n\n"
        "Writes the tokens of text files to PREFIX.bin and PREFIX.idx.\n\n"
        "  --input FILE...   text, or JSON lines (.jsonl, .ndjson, .json); - is standard input\n"
        "  --output PREFIX   where to; what stands there is replaced at the end\n"
        "  --tokenizer KIND  CharLevelTokenizer, HFTokenizer or GPT2BPETokenizer\n"
        "  --vocab FILE      tokenizer.json of HFTokenizer, vocab.json of GPT2BPETokenizer\n"
        "  --merges FILE     merges.txt of GPT2BPETokenizer\n"
        "  --append-eod      end each document with <|endoftext|> (0 at the character level)\n"
        "  --parse-special   the text of a special token in a document, as <|endoftext|>, is that\n"
        "                    token; without it, it is plain text\n"
        "  --split WHERE     how a text file is cut into documents:\n"
        "                      none        it is one document (where it is not given)\n"
        "                      paragraphs  at blank lines, which are dropped\n"
        "                      lines       each line, without its end, is one\n"
        "  --format FORMAT   text or jsonl, whatever the names of the files say\n"
        "  --json-keys K,... keys of the texts in JSON lines, \"text\" where it is not given; of\n"
        "                    several, each gives a set PREFIX_K\n"
        "  --workers N       threads that encode; as many as there are cores\n\n"
        "A document without tokens is skipped. A line that is not JSON or lacks a key is an\n"
        "error; blank lines are not. The split of a training run, as 969,30,1, counts documents:\n"
        "a single one gives no validation part.");
}

static status split_keys(arguments *a, const char *value)
{
    free(a->key_list);
    a->key_list = strdup(value);
    if (!a->key_list)
        return fail(STATUS_ERR_MEMORY, "no memory for the keys");
    a->prep.key_count = 0;
    char *rest = a->key_list;
    for (char *key; (key = strsep(&rest, ","));) {
        if (!key[0])
            return fail(STATUS_ERR_CONFIG, "--json-keys \"%s\" has an empty key", value);
        if (a->prep.key_count == PREP_KEYS_MAX)
            return fail(STATUS_ERR_CONFIG, "--json-keys has more than %d keys", PREP_KEYS_MAX);
        a->keys[a->prep.key_count++] = key;
    }
    a->prep.keys = a->keys;
    return STATUS_OK;
}

static status choose(const char *option, const char *value, const char *const *names, int *choice)
{
    for (*choice = 0; names[*choice]; (*choice)++)
        if (!strcmp(names[*choice], value))
            return STATUS_OK;
    return fail(STATUS_ERR_CONFIG, "%s \"%s\"; it is %s, %s%s%s", option, value, names[0], names[1],
                names[2] ? " or " : "", names[2] ? names[2] : "");
}

static status parse_workers(const char *value, int *workers)
{
    char *end;
    errno = 0;
    const long n = strtol(value, &end, 10);
    if (errno || end == value || *end || n < 1 || n > PREP_WORKERS_MAX)
        return fail(STATUS_ERR_CONFIG, "--workers \"%s\"; 1 to %d would be right", value,
                    PREP_WORKERS_MAX);
    *workers = (int)n;
    return STATUS_OK;
}

static status take_inputs(arguments *a, int argc, char **argv, int *index)
{
    const size_t before = a->prep.input_count;
    for ((*index)++; *index < argc && (argv[*index][0] != '-' || !argv[*index][1]); (*index)++) {
        if (a->prep.input_count == INPUTS_MAX)
            return fail(STATUS_ERR_CONFIG, "more than %d inputs", INPUTS_MAX);
        a->inputs[a->prep.input_count++] = argv[*index];
    }
    return a->prep.input_count > before ? STATUS_OK
                                        : fail(STATUS_ERR_CONFIG, "--input needs a file");
}

// An option with a value.
static status take_value(arguments *a, const char *option, const char *value)
{
    static const char *const splits[] = {"none", "paragraphs", "lines", NULL};
    static const char *const formats[] = {"text", "jsonl", NULL};
    int choice;
    if (!strcmp(option, "--output"))
        a->prep.output = value;
    else if (!strcmp(option, "--tokenizer"))
        a->tokenizer = value;
    else if (!strcmp(option, "--vocab"))
        a->files.vocab_file = value;
    else if (!strcmp(option, "--merges"))
        a->files.merges_file = value;
    else if (!strcmp(option, "--json-keys"))
        return split_keys(a, value);
    else if (!strcmp(option, "--workers"))
        return parse_workers(value, &a->prep.workers);
    else if (!strcmp(option, "--split")) {
        TRY(choose(option, value, splits, &choice));
        a->prep.split = (prep_split)choice;
    } else if (!strcmp(option, "--format")) {
        TRY(choose(option, value, formats, &choice));
        a->prep.format = choice == 0 ? PREP_TEXT : PREP_JSON_LINES;
    } else {
        return fail(STATUS_ERR_CONFIG, "unknown option \"%s\"; trifold prep --help lists them",
                    option);
    }
    return STATUS_OK;
}

static bool takes_no_value(arguments *a, const char *option)
{
    if (!strcmp(option, "--append-eod"))
        return a->prep.append_eod = true;
    if (!strcmp(option, "--parse-special"))
        return a->prep.parse_special = true;
    return false;
}

static status parse(arguments *a, int argc, char **argv)
{
    for (int i = 1; i < argc;) {
        const char *value, *option = argv[i];
        if (!strcmp(option, "--input")) {
            TRY(take_inputs(a, argc, argv, &i));
            continue;
        }
        if (takes_no_value(a, option)) {
            i++;
            continue;
        }
        if (option[0] != '-')
            return fail(STATUS_ERR_CONFIG, "\"%s\" belongs to no option; files follow --input",
                        option);
        TRY(cmd_option_value(argc, argv, &i, &value));
        TRY(take_value(a, option, value));
    }
    a->prep.inputs = a->inputs;
    if (a->prep.input_count == 0)
        return fail(STATUS_ERR_CONFIG, "no input; name files with --input");
    if (!a->prep.output)
        return fail(STATUS_ERR_CONFIG, "no output; name its prefix with --output");
    if (!a->tokenizer)
        return fail(STATUS_ERR_CONFIG, "no tokenizer; name its kind with --tokenizer");
    return tokenizer_kind_parse(a->tokenizer, &a->files.kind);
}

static void show_progress(const prep_progress *p, void *context)
{
    double *logged = context;
    char left[64] = "";
    const double rate = (double)p->bytes_read / p->seconds;
    if (p->bytes_total > p->bytes_read && rate > 0)
        snprintf(left, sizeof left, " of %.1f, %.0f s left", (double)p->bytes_total / 1e6,
                 (double)(p->bytes_total - p->bytes_read) / rate);
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\rprep: %.1f MB%s, %.1f MB/s  ", (double)p->bytes_read / 1e6, left,
                rate / 1e6);
        *logged = p->seconds;
    } else if (*logged == 0 || p->seconds >= *logged + LOG_SECONDS) {
        log_info("prep: %.1f MB%s, %.1f MB/s", (double)p->bytes_read / 1e6, left, rate / 1e6);
        *logged = p->seconds;
    }
}

static const char *dtype_name(indexed_dtype dtype)
{
    return dtype == INDEXED_U16 ? "uint16" : "int32";
}

static void print_reports(const arguments *a, const prep_report *reports)
{
    for (size_t k = 0; k < a->prep.key_count; k++) {
        const prep_report *r = &reports[k];
        const bool several = a->prep.key_count > 1;
        printf("output %s%s%s\n", a->prep.output, several ? "_" : "",
               several ? a->prep.keys[k] : "");
        printf("documents %lld\nskipped %lld\ntokens %lld\neod %lld\nbytes %lld\ndtype %s\n",
               (long long)r->documents, (long long)r->skipped, (long long)r->tokens,
               (long long)r->eod, (long long)r->bytes, dtype_name(r->dtype));
    }
}

static status run(arguments *a)
{
    tokenizer *t = NULL;
    prep_report reports[PREP_KEYS_MAX];
    double logged = 0;
    a->prep.progress = show_progress;
    a->prep.context = &logged;
    TRY(tokenizer_open(&a->files, &t));
    const status result = prep_run(t, &a->prep, reports);
    tokenizer_close(t);
    if (logged > 0 && isatty(STDERR_FILENO))
        fputc('\n', stderr);
    if (result == STATUS_OK)
        print_reports(a, reports);
    return result;
}

static int count_cores(void)
{
    cpu_set_t cores;
    const int count = sched_getaffinity(0, sizeof cores, &cores) ? 1 : CPU_COUNT(&cores);
    return count < PREP_WORKERS_MAX ? count : PREP_WORKERS_MAX;
}

status cmd_prep(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help")) {
            print_help();
            return STATUS_OK;
        }
    arguments *a = calloc(1, sizeof *a);
    if (!a)
        return fail(STATUS_ERR_MEMORY, "no memory for the arguments");
    a->prep = prep_options_defaults();
    a->prep.workers = count_cores();
    status result = parse(a, argc, argv);
    if (result == STATUS_OK)
        result = run(a);
    free(a->key_list);
    free(a);
    return result;
}
