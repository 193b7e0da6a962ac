#include "data/bpe.h"

#include <assert.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "data/bpe_merges.h"

int32_t byte_level_char(uint8_t byte)
{
    if (byte >= 0x21 && byte != 0x7f && (byte < 0x7f || byte > 0xa0) && byte != 0xad)
        return byte;
    // The 68 others in their order: 0x00-0x20, 0x7f-0xa0, 0xad.
    if (byte <= 0x20)
        return 0x100 + byte;
    return byte == 0xad ? 0x143 : 0x121 + (byte - 0x7f);
}

// The byte that a character stands for, or -1.
static int byte_of_char(int32_t code)
{
    if (code < 0 || code > 0x143)
        return -1;
    int byte = code;
    if (code == 0x143)
        byte = 0xad;
    else if (code >= 0x121)
        byte = code - 0x121 + 0x7f;
    else if (code >= 0x100)
        byte = code - 0x100;
    return byte_level_char((uint8_t)byte) == code ? byte : -1;
}

status byte_level_decode(const char *text, size_t bytes, byte_buffer *out)
{
    const uint8_t *at = (const uint8_t *)text;
    const uint8_t *end = at + bytes;
    const size_t before = out->count;
    TRY(byte_buffer_reserve(out, bytes));
    while (at < end) {
        int32_t code;
        at += utf8_next(at, (size_t)(end - at), &code);
        const int byte = byte_of_char(code);
        if (byte < 0) {
            out->count = before;
            return byte_buffer_append(out, text, bytes);
        }
        out->data[out->count++] = (uint8_t)byte;
    }
    return STATUS_OK;
}

status bpe_init(bpe *m, size_t merges_expected)
{
    void *merges;
    size_t slots = 64;
    if (merges_expected > INT32_MAX)
        return fail(STATUS_ERR_FORMAT, "%zu merges; less than 2^31 would be right",
                    merges_expected);
    while (slots < 2 * merges_expected)
        slots *= 2;
    TRY(memory_alloc(slots, sizeof *m->merges, "the merges of a tokenizer", &merges));
    m->merges = merges;
    m->merge_slots = slots;
    for (size_t i = 0; i < slots; i++)
        m->merges[i] = (bpe_merge_slot){BPE_NO_PAIR, BPE_NO_RANK, -1};
    m->unknown_id = -1;
    return STATUS_OK;
}

void bpe_fini(bpe *m)
{
    token_map_fini(&m->vocab);
    memory_free(m->merges);
    m->merges = NULL;
}

status bpe_add_merge(bpe *m, const char *left, size_t left_bytes, const char *right,
                     size_t right_bytes, byte_buffer *scratch, bool *known)
{
    scratch->count = 0;
    TRY(byte_buffer_append(scratch, left, left_bytes));
    TRY(byte_buffer_append(scratch, right, right_bytes));
    const char *whole = (const char *)scratch->data;
    const int32_t left_id = token_map_find(&m->vocab, left, left_bytes);
    const int32_t right_id = token_map_find(&m->vocab, right, right_bytes);
    const int32_t id = token_map_find(&m->vocab, whole, left_bytes + right_bytes);
    *known = left_id >= 0 && right_id >= 0 && id >= 0;
    if (!*known)
        return STATUS_OK;
    assert(2 * m->merge_count < m->merge_slots);
    bpe_merge_slot *slot = (bpe_merge_slot *)bpe_merge_find(m, left_id, right_id);
    *slot = (bpe_merge_slot){bpe_pair(left_id, right_id), (uint32_t)m->merge_count++, id};
    return STATUS_OK;
}

void bpe_finish(bpe *m)
{
    for (int byte = 0; byte < 256; byte++) {
        uint8_t text[4];
        const size_t bytes = utf8_put(byte_level_char((uint8_t)byte), text);
        m->byte_ids[byte] = token_map_find(&m->vocab, (const char *)text, bytes);
    }
}
