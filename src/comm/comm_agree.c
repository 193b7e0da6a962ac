#include "comm/comm_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum {
    MESSAGE_MAX = 2048, /* of the error record, with the NUL */
};

static status gather_all(comm *c, void *buffer, size_t each, dtype type, size_t *counts)
{
    comm_request request;
    for (int r = 0; r < c->world_size; r++)
        counts[r] = each;
    TRY(comm_allgather_begin(c->world, COMM_CONTROL, buffer, counts, type, &request));
    return comm_wait(&request);
}

// Exchange the messages and record that of rank `first`.
static status adopt(comm *c, status code, int first, char *messages, size_t *counts)
{
    char *own = messages + (size_t)c->world_rank * MESSAGE_MAX;
    snprintf(own, MESSAGE_MAX, "%s", error_message());
    TRY(gather_all(c, messages, MESSAGE_MAX, DTYPE_U8, counts));
    char *chosen = messages + (size_t)first * MESSAGE_MAX;
    bool same = true;
    for (int r = 0; r < c->world_size; r++)
        same = same && strcmp(messages + (size_t)r * MESSAGE_MAX, chosen) == 0;
    error_clear();
    const char *text = chosen[0] ? chosen : status_str(code);
    if (same)
        return fail(code, "%s", text);
    return fail(code, "rank %d: %s", first, text);
}

static status agree(comm *c, status local, int32_t *codes, size_t *counts, char **messages)
{
    codes[c->world_rank] = local;
    TRY(gather_all(c, codes, 1, DTYPE_I32, counts));
    for (int r = 0; r < c->world_size; r++) {
        if (codes[r] == STATUS_OK)
            continue;
        TRY(memory_alloc((size_t)c->world_size, MESSAGE_MAX, "messages of the ranks",
                         (void **)messages));
        return adopt(c, (status)codes[r], r, *messages, counts);
    }
    return STATUS_OK;
}

status comm_agree(comm *c, status local)
{
    if (c->world_size == 1)
        return local;
    int32_t *codes = NULL;
    size_t *counts = NULL;
    char *messages = NULL;
    size_t size = (size_t)c->world_size;
    status result = memory_alloc(size, sizeof *codes, "outcomes of the ranks", (void **)&codes);
    if (result == STATUS_OK)
        result = memory_alloc(size, sizeof *counts, "outcomes of the ranks", (void **)&counts);
    if (result == STATUS_OK)
        result = agree(c, local, codes, counts, &messages);
    memory_free(codes);
    memory_free(counts);
    memory_free(messages);
    return result;
}
