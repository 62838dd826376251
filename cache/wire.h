// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a build and its helper for remote levels speak over: a socket, with deadlines.
#ifndef KILN_CACHE_WIRE_H
#define KILN_CACHE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Milliseconds of the monotonic clock.
int64_t kiln_wire_now(void);
/// Sends (`out`) or receives `size` bytes before the deadline; false when that fails.
bool kiln_wire_move(int fd, uint8_t *bytes, size_t size, bool out, int64_t deadline);

#endif
