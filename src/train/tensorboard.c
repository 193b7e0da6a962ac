#include "train/tensorboard.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "train/line_file.h"

// Field numbers and wire types of the messages.
enum {
    EVENT_WALL_TIME = 1,    // double
    EVENT_STEP = 2,         // int64
    EVENT_FILE_VERSION = 3, // string
    EVENT_SUMMARY = 5,      // Summary
    EVENT_SESSION_LOG = 7,  // SessionLog
    SUMMARY_VALUE = 1,      // Summary.Value, repeated
    VALUE_TAG = 1,          // string
    VALUE_SIMPLE = 2,       // float
    SESSION_LOG_STATUS = 1, // enum
    SESSION_LOG_START = 1,

    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5,
};

enum {
    VALUE_MAX_BYTES = TENSORBOARD_MAX_TAG + 16,
    MESSAGE_MAX_BYTES = TENSORBOARD_MAX_SCALARS * VALUE_MAX_BYTES + 64,
};

typedef struct message {
    uint8_t bytes[MESSAGE_MAX_BYTES];
    size_t used;
} message;

struct tensorboard {
    char *path;
    FILE *stream;
    message event;   // being built
    message summary; // the same, of its summary
};

uint32_t crc32c(const void *data, size_t bytes)
{
    const uint8_t *at = data;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0x82f63b78u & (0u - (crc & 1u)));
    }
    return ~crc;
}

uint32_t tfrecord_checksum(const void *data, size_t bytes)
{
    const uint32_t crc = crc32c(data, bytes);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static void put_byte(message *m, uint8_t byte)
{
    assert(m->used < sizeof m->bytes);
    m->bytes[m->used++] = byte;
}

static void put_little_endian(message *m, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        put_byte(m, (uint8_t)(value >> (8 * i)));
}

static void put_varint(message *m, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_byte(m, (uint8_t)(value | 0x80));
    put_byte(m, (uint8_t)value);
}

static void put_key(message *m, unsigned field, unsigned wire)
{
    put_varint(m, field << 3 | wire);
}

static void put_bytes(message *m, unsigned field, const void *data, size_t bytes)
{
    put_key(m, field, WIRE_BYTES);
    put_varint(m, bytes);
    assert(m->used + bytes <= sizeof m->bytes);
    memcpy(m->bytes + m->used, data, bytes);
    m->used += bytes;
}

static void put_value(message *m, const tensorboard_scalar *scalar)
{
    message value = {.used = 0};
    const float number = (float)scalar->value;
    uint32_t bits;
    assert(strlen(scalar->tag) <= TENSORBOARD_MAX_TAG);
    memcpy(&bits, &number, sizeof bits);
    put_bytes(&value, VALUE_TAG, scalar->tag, strlen(scalar->tag));
    put_key(&value, VALUE_SIMPLE, WIRE_FIXED32);
    put_little_endian(&value, bits, 4);
    put_bytes(m, SUMMARY_VALUE, value.bytes, value.used);
}

static void begin_event(message *event)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const double seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    event->used = 0;
    put_key(event, EVENT_WALL_TIME, WIRE_FIXED64);
    put_little_endian(event, bits, 8);
}

static void put_step(message *event, int64_t step)
{
    put_key(event, EVENT_STEP, WIRE_VARINT);
    put_varint(event, (uint64_t)step);
}

static status write_record(tensorboard *t, const message *payload)
{
    message head = {.used = 0}, tail = {.used = 0};
    put_little_endian(&head, payload->used, 8);
    put_little_endian(&head, tfrecord_checksum(head.bytes, head.used), 4);
    put_little_endian(&tail, tfrecord_checksum(payload->bytes, payload->used), 4);
    if (fwrite(head.bytes, 1, head.used, t->stream) != head.used ||
        fwrite(payload->bytes, 1, payload->used, t->stream) != payload->used ||
        fwrite(tail.bytes, 1, tail.used, t->stream) != tail.used || fflush(t->stream) != 0)
        return fail_errno(STATUS_ERR_IO, "%s: cannot write", t->path);
    return STATUS_OK;
}

// The version comes first. Then the mark of a restart, at which TensorBoard drops what earlier
// files hold from that step on.
static status write_start(tensorboard *t, int64_t iteration)
{
    static const char version[] = "brain.Event:2";
    message log = {.used = 0};
    begin_event(&t->event);
    put_bytes(&t->event, EVENT_FILE_VERSION, version, strlen(version));
    TRY(write_record(t, &t->event));
    begin_event(&t->event);
    put_step(&t->event, iteration + 1);
    put_key(&log, SESSION_LOG_STATUS, WIRE_VARINT);
    put_varint(&log, SESSION_LOG_START);
    put_bytes(&t->event, EVENT_SESSION_LOG, log.bytes, log.used);
    return write_record(t, &t->event);
}

// TensorBoard reads the files of a folder in the order of their names, so the time comes first; the
// last number tells files of one second and process apart.
static status open_file(tensorboard *t, const char *folder)
{
    char host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    for (int attempt = 0; attempt < 100; attempt++) {
        free(t->path);
        t->path = NULL;
        if (asprintf(&t->path, "%s/events.out.tfevents.%010lld.%s.%ld.%d", folder,
                     (long long)time(NULL), host, (long)getpid(), attempt) < 0) {
            t->path = NULL;
            return fail(STATUS_ERR_MEMORY, "no memory for the name of an event file");
        }
        t->stream = fopen(t->path, "wbx");
        if (t->stream)
            return STATUS_OK;
        if (access(t->path, F_OK) != 0)
            break;
    }
    return fail_errno(STATUS_ERR_IO, "%s: cannot create", t->path);
}

status tensorboard_create(const char *folder, int64_t iteration, tensorboard **out)
{
    void *memory;
    TRY(folder_create(folder));
    TRY(memory_alloc(1, sizeof(tensorboard), "the TensorBoard writer", &memory));
    tensorboard *t = memory;
    status result;
    TRY_OUT(result, open_file(t, folder));
    TRY_OUT(result, write_start(t, iteration));
    *out = t;
    t = NULL;
out:
    tensorboard_destroy(t);
    return result;
}

status tensorboard_write(tensorboard *t, int64_t step, const tensorboard_scalar *scalars,
                         size_t count)
{
    assert(count <= TENSORBOARD_MAX_SCALARS);
    t->summary.used = 0;
    for (size_t i = 0; i < count; i++)
        put_value(&t->summary, &scalars[i]);
    begin_event(&t->event);
    put_step(&t->event, step);
    put_bytes(&t->event, EVENT_SUMMARY, t->summary.bytes, t->summary.used);
    return write_record(t, &t->event);
}

void tensorboard_destroy(tensorboard *t)
{
    if (!t)
        return;
    if (t->stream)
        fclose(t->stream);
    free(t->path);
    memory_free(t);
}
