#include "data/indexed_format.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/sizes.h"

const char indexed_magic[INDEXED_MAGIC_BYTES + 1] = "MMIDIDX\0\0";

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [INDEXED_U8] = {"uint8", 1},  [INDEXED_I8] = {"int8", 1},    [INDEXED_I16] = {"int16", 2},
    [INDEXED_I32] = {"int32", 4}, [INDEXED_I64] = {"int64", 8},  [6] = {"float", 0},
    [7] = {"float", 0},           [INDEXED_U16] = {"uint16", 2},
};
enum { DTYPE_CODES = sizeof dtypes / sizeof dtypes[0] };

size_t indexed_dtype_bytes(int code)
{
    return code >= 0 && code < DTYPE_CODES ? dtypes[code].bytes : 0;
}

const char *indexed_dtype_str(int code)
{
    const char *name = code >= 0 && code < DTYPE_CODES ? dtypes[code].name : NULL;
    return name ? name : "unknown";
}

indexed_dtype indexed_dtype_for_vocab(int64_t vocab)
{
    return vocab < 65500 ? INDEXED_U16 : INDEXED_I32;
}

status indexed_path(const char *prefix, const char *extension, char **out)
{
    size_t head = strlen(prefix), tail = strlen(extension);
    char *path = malloc(head + tail + 1);
    if (!path)
        return fail(STATUS_ERR_MEMORY, "%s: cannot allocate its name", prefix);
    memcpy(path, prefix, head);
    memcpy(path + head, extension, tail + 1);
    *out = path;
    return STATUS_OK;
}

static uint64_t load_u64(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static status check_magic(const char *name, const uint8_t *data, size_t bytes)
{
    static const char cached[] = "TNTIDX\0";
    if (bytes >= sizeof cached && !memcmp(data, cached, sizeof cached))
        return fail(
            STATUS_ERR_UNSUPPORTED,
            "%s: this is the older \"cached\" format (TNTIDX); prepare the data again as mmap",
            name);
    if (bytes < INDEXED_MAGIC_BYTES || memcmp(data, indexed_magic, INDEXED_MAGIC_BYTES) != 0)
        return fail(
            STATUS_ERR_FORMAT,
            "%s: not an index of a data set; it would start with MMIDIDX and two zero bytes", name);
    if (bytes < INDEXED_HEADER_BYTES)
        return fail(STATUS_ERR_FORMAT, "%s: cut short at %zu bytes; the header alone takes %d",
                    name, bytes, INDEXED_HEADER_BYTES);
    return STATUS_OK;
}

static status check_header(const char *name, const uint8_t *data, size_t bytes, indexed_index *out)
{
    TRY(check_magic(name, data, bytes));
    uint64_t version = load_u64(data + 9);
    int code = data[17];
    if (version != INDEXED_VERSION)
        return fail(STATUS_ERR_FORMAT, "%s: version %" PRIu64 "; only version %d is known", name,
                    version, INDEXED_VERSION);
    if (code == 6 || code == 7)
        return fail(STATUS_ERR_FORMAT,
                    "%s: holds floating-point numbers (type code %d); token ids are integers", name,
                    code);
    if (indexed_dtype_bytes(code) == 0)
        return fail(STATUS_ERR_FORMAT,
                    "%s: unknown type code %d; 1 to 5 and 8 are types of token ids", name, code);
    out->dtype = (indexed_dtype)code;
    out->item_bytes = indexed_dtype_bytes(code);
    out->sequences = load_u64(data + 18);
    out->doc_count = load_u64(data + 26);
    return STATUS_OK;
}

// The three arrays must fill the file exactly, but for the modes of a multimodal set.
static status place_arrays(const char *name, const uint8_t *data, size_t bytes, indexed_index *out)
{
    size_t per_sequence, per_document, need;
    bool fits = size_mul(out->sequences, 12, &per_sequence) &&
                size_mul(out->doc_count, 8, &per_document) &&
                size_add(per_sequence, per_document, &need) &&
                size_add(need, INDEXED_HEADER_BYTES, &need) && need <= bytes;
    if (!fits)
        return fail(STATUS_ERR_FORMAT,
                    "%s: cut short at %zu bytes; %" PRIu64 " sequences and %" PRIu64
                    " index entries need %d + 12 x %" PRIu64 " + 8 x %" PRIu64,
                    name, bytes, out->sequences, out->doc_count, INDEXED_HEADER_BYTES,
                    out->sequences, out->doc_count);
    size_t rest = bytes - need;
    if (rest != 0 && rest != out->sequences)
        return fail(STATUS_ERR_FORMAT,
                    "%s: %zu bytes follow the document index; none, or one for each of %" PRIu64
                    " sequences, would be right",
                    name, rest, out->sequences);
    out->sizes = data + INDEXED_HEADER_BYTES;
    out->pointers = out->sizes + 4 * out->sequences;
    out->doc_index = out->pointers + 8 * out->sequences;
    return STATUS_OK;
}

static status check_sequences(const char *name, uint64_t bin_bytes, indexed_index *index)
{
    // `end` never passes bin_bytes, so that no sum here can wrap.
    uint64_t end = 0;
    index->tokens = 0;
    for (uint64_t i = 0; i < index->sequences; i++) {
        int32_t size = indexed_index_size(index, i);
        int64_t pointer = indexed_index_pointer(index, i);
        if (size < 0)
            return fail(STATUS_ERR_FORMAT, "%s: sequence %" PRIu64 " has size %d; 0 is the least",
                        name, i, size);
        if (pointer < 0 || (uint64_t)pointer % index->item_bytes != 0)
            return fail(STATUS_ERR_FORMAT,
                        "%s: sequence %" PRIu64 " starts at byte %" PRId64
                        "; a multiple of %zu, not negative, would be right",
                        name, i, pointer, index->item_bytes);
        if ((uint64_t)pointer < end)
            return fail(STATUS_ERR_FORMAT,
                        "%s: sequence %" PRIu64 " starts at byte %" PRId64
                        "; the one before it ends at %" PRIu64,
                        name, i, pointer, end);
        uint64_t length = (uint64_t)size * index->item_bytes;
        if ((uint64_t)pointer > bin_bytes || length > bin_bytes - (uint64_t)pointer)
            return fail(STATUS_ERR_FORMAT,
                        "%s: sequence %" PRIu64 " takes %" PRIu64 " bytes from byte %" PRId64
                        "; the .bin has %" PRIu64,
                        name, i, length, pointer, bin_bytes);
        end = (uint64_t)pointer + length;
        index->tokens += (uint64_t)size;
    }
    return STATUS_OK;
}

static status check_documents(const char *name, const indexed_index *index)
{
    if (index->doc_count == 0)
        return fail(STATUS_ERR_FORMAT, "%s: the document index is empty; it has at least a 0",
                    name);
    int64_t before = 0;
    for (uint64_t i = 0; i < index->doc_count; i++) {
        int64_t entry = indexed_index_doc(index, i);
        if (i == 0 && entry != 0)
            return fail(STATUS_ERR_FORMAT,
                        "%s: the document index starts with %" PRId64 "; 0 would be right", name,
                        entry);
        if (entry < before)
            return fail(STATUS_ERR_FORMAT,
                        "%s: entry %" PRIu64 " of the document index is %" PRId64 " after %" PRId64
                        "; entries never fall",
                        name, i, entry, before);
        before = entry;
    }
    if ((uint64_t)before != index->sequences)
        return fail(STATUS_ERR_FORMAT,
                    "%s: the document index ends with %" PRId64 "; %" PRIu64
                    ", the count of sequences, would be right",
                    name, before, index->sequences);
    return STATUS_OK;
}

status indexed_index_parse(const char *name, const void *data, size_t bytes, uint64_t bin_bytes,
                           indexed_index *out)
{
    indexed_index index = {0};
    TRY(check_header(name, data, bytes, &index));
    TRY(place_arrays(name, data, bytes, &index));
    TRY(check_sequences(name, bin_bytes, &index));
    TRY(check_documents(name, &index));
    *out = index;
    return STATUS_OK;
}
