/* The entry of a fuzzer, called with one input after another; never fails, or the process does. */
#ifndef TRIFOLD_TESTS_FUZZ_FUZZ_H
#define TRIFOLD_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
