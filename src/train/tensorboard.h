/* A writer of TensorBoard event files: scalars only.
 *
 * An event file is a sequence of TFRecords, each the length of its payload, a checksum of that, the
 * payload and a checksum of it; the payload is a protocol buffer of the type Event. Formats:
 * tensorflow/core/lib/io/record_writer.h, tensorflow/core/{util/event,framework/summary}.proto. */
#ifndef TRIFOLD_TRAIN_TENSORBOARD_H
#define TRIFOLD_TRAIN_TENSORBOARD_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct tensorboard tensorboard;

typedef struct tensorboard_scalar {
    const char *tag;
    double value; /* written as a float */
} tensorboard_scalar;

enum {
    TENSORBOARD_MAX_SCALARS = 64, /* a call */
    TENSORBOARD_MAX_TAG = 48,     /* bytes */
};

/* Begin a new event file in `folder`, which is created as needed. TensorBoard reads all files of a
 * folder as one run: of earlier files it forgets what came after `iteration`. */
status tensorboard_create(const char *folder, int64_t iteration, tensorboard **out);

/* Write the scalars of one step as one event. */
status tensorboard_write(tensorboard *t, int64_t step, const tensorboard_scalar *scalars,
                         size_t count);

void tensorboard_destroy(tensorboard *t);

/* CRC-32C (Castagnoli; RFC 3720, appendix B.4). */
uint32_t crc32c(const void *data, size_t bytes);

/* The checksum in a TFRecord: rotated right by 15 bits, plus a constant. */
uint32_t tfrecord_checksum(const void *data, size_t bytes);

#endif
