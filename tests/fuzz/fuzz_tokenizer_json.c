// tokenizer.json: what opens must encode and decode a text that touches all its steps.
#include "fuzz.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/tokenizer.h"

static char path[64];

static void must(bool held)
{
    if (!held)
        abort();
}

static void remove_file(void)
{
    unlink(path);
}

static void write_file(const uint8_t *data, size_t size)
{
    if (!path[0]) {
        snprintf(path, sizeof path, "%s/trifold-fuzz-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        const int fd = mkstemp(path);
        must(fd >= 0);
        close(fd);
        atexit(remove_file);
    }
    const int fd = open(path, O_WRONLY | O_TRUNC);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
}

static void use(const tokenizer *t, tokenizer_encoder *e, bool parse_special)
{
    static const char text[] = " In the beginning\r\n God's 12345 \xc3\xa9 e\xcc\x81 \xef\xac\x81 "
                               "<|endoftext|>  ab\xff\xe5\x9c\xb0 AbC\t";
    token_list ids = {0};
    char *back = NULL;
    size_t bytes;
    // An expression may take too many steps, which is an error like others.
    const status result = tokenizer_encode(e, text, sizeof text - 1, parse_special, &ids);
    must((result == STATUS_OK) == (error_message()[0] == '\0'));
    for (size_t i = 0; result == STATUS_OK && i < ids.count; i++)
        must(ids.ids[i] >= 0 && (size_t)ids.ids[i] < tokenizer_vocab_size(t));
    must(tokenizer_decode(t, ids.ids, ids.count, &back, &bytes) == STATUS_OK);
    must(strlen(back) <= bytes);
    free(back);
    token_list_fini(&ids);
    error_clear();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tokenizer *t = NULL;
    tokenizer_encoder *e = NULL;
    write_file(data, size);
    const tokenizer_options o = {TOKENIZER_HF, path, NULL};
    const status result = tokenizer_open(&o, &t);
    must((result == STATUS_OK) == (error_message()[0] == '\0'));
    must(strchr(error_message(), '\n') == NULL);
    error_clear();
    if (result != STATUS_OK)
        return 0;
    must(tokenizer_eod(t) < (int32_t)tokenizer_vocab_size(t));
    must(tokenizer_encoder_create(t, &e) == STATUS_OK);
    use(t, e, false);
    use(t, e, true);
    tokenizer_encoder_destroy(e);
    tokenizer_close(t);
    return 0;
}
