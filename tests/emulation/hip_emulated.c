// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements a libamdhip64.so whose only device is an emulator, with the calls that libkiln makes: each is
// passed to hip_device.py over two pipes. With it first in LD_LIBRARY_PATH every program that opens `hip:0`
// runs its AMDGPU code there (emulated.sh sets all of it up).
//
//   KILN_EMULATED_DEVICE  the command that is started, hip_device.py
//   KILN_EMULATED_TARGET  the processor the device says it is, as a driver spells it: gfx942:sramecc+:xnack-
//
// A request is eight little-endian u64: operation, then its numbers; bytes follow where it has some, and
// their count is the last number. A reply is two: hipError_t, and a number. The process on the other side
// dies of an access outside of all memory: from then on every call fails.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes" // they are AMD's

enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  NO_DEVICE = 100,
  LAUNCH_FAILURE = 719,
  NUMBERS = 8,
  ARCH_AT = 1160,
  COPY_IN = 1
};
enum { ALLOC = 1, FREE, COPY_TO, COPY_FROM, FILL, LOAD, UNLOAD, FUNCTION, LAUNCH };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int to_device = -1, from_device = -1;

static int write_all(const void *bytes, size_t size) {
  for (const char *p = bytes; size;) {
    ssize_t n = write(to_device, p, size);
    if (n <= 0) return LAUNCH_FAILURE;
    p += n, size -= (size_t)n;
  }
  return SUCCESS;
}

static int read_all(void *bytes, size_t size) {
  for (char *p = bytes; size;) {
    ssize_t n = read(from_device, p, size);
    if (n <= 0) return LAUNCH_FAILURE;
    p += n, size -= (size_t)n;
  }
  return SUCCESS;
}

/// Sends `numbers` and `out` bytes; receives the reply and, when it is a success, `in` bytes.
static int request(const uint64_t numbers[NUMBERS], const void *out, size_t out_size, void *in,
                   size_t in_size, uint64_t *value) {
  uint64_t reply[2] = {LAUNCH_FAILURE, 0};
  pthread_mutex_lock(&lock);
  int result = write_all(numbers, NUMBERS * sizeof *numbers);
  if (!result && out_size) result = write_all(out, out_size);
  if (!result) result = read_all(reply, sizeof reply);
  if (!result) result = (int)reply[0];
  if (!result && in_size) result = read_all(in, in_size);
  pthread_mutex_unlock(&lock);
  if (!result && value) *value = reply[1];
  return result;
}

static int start(const char *command) {
  int there[2], back[2];
  if (pipe(there) || pipe(back)) return NO_DEVICE;
  pid_t child = fork();
  if (child < 0) return NO_DEVICE;
  if (!child) {
    dup2(there[0], 0);
    dup2(back[1], 3);
    for (int fd = 4; fd < 64; fd++) close(fd);
    dup2(2, 1); // what it prints is no reply
    execlp("python3", "python3", command, (char *)NULL);
    _exit(127);
  }
  close(there[0]);
  close(back[1]);
  to_device = there[1];
  from_device = back[0];
  return SUCCESS;
}

EXPORT int hipInit(unsigned flags) {
  const char *command = getenv("KILN_EMULATED_DEVICE");
  (void)flags;
  if (!command || !getenv("KILN_EMULATED_TARGET")) return NO_DEVICE;
  pthread_mutex_lock(&lock);
  int result = to_device >= 0 ? SUCCESS : start(command);
  pthread_mutex_unlock(&lock);
  return result;
}

EXPORT const char *hipGetErrorName(int result) {
  return result == LAUNCH_FAILURE ? "hipErrorLaunchFailure"
         : result == NO_DEVICE    ? "hipErrorNoDevice"
                                  : "hipErrorInvalidValue";
}

EXPORT int hipGetDeviceCount(int *out) { return *out = to_device >= 0, SUCCESS; }
EXPORT int hipSetDevice(int device) { return device ? INVALID_VALUE : SUCCESS; }
EXPORT int hipGetDevice(int *out) { return *out = 0, SUCCESS; }

EXPORT int hipGetDevicePropertiesR0600(void *out, int device) {
  snprintf(out, 256, "emulated, no hardware");
  snprintf((char *)out + ARCH_AT, 64, "%s", getenv("KILN_EMULATED_TARGET"));
  return device ? INVALID_VALUE : SUCCESS;
}

// The size of a code object is where its section headers end: lld writes them last.
static size_t image_size(const uint8_t *image) {
  uint64_t at;
  uint16_t size, count;
  memcpy(&at, image + 0x28, 8);
  memcpy(&size, image + 0x3a, 2);
  memcpy(&count, image + 0x3c, 2);
  return at + (size_t)size * count;
}

EXPORT int hipModuleLoadData(void **out, const void *image) {
  uint64_t module;
  if (memcmp(image, "\177ELF", 4)) return INVALID_VALUE;
  size_t size = image_size(image);
  int result = request((uint64_t[NUMBERS]){LOAD, 0, 0, 0, 0, 0, 0, size}, image, size, NULL, 0, &module);
  if (!result) *out = (void *)(uintptr_t)module;
  return result;
}

EXPORT int hipModuleUnload(void *module) {
  return request((uint64_t[NUMBERS]){UNLOAD, (uintptr_t)module}, NULL, 0, NULL, 0, NULL);
}

EXPORT int hipModuleGetFunction(void **out, void *module, const char *name) {
  uint64_t function;
  int result = request((uint64_t[NUMBERS]){FUNCTION, (uintptr_t)module, 0, 0, 0, 0, 0, strlen(name)}, name,
                       strlen(name), NULL, 0, &function);
  if (!result) *out = (void *)(uintptr_t)function;
  return result;
}

// libkiln gives the arguments as one block, and one axis of threads.
EXPORT int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, void *stream, void **params,
                                 void **extra) {
  (void)stream;
  if (params || by != 1 || bz != 1) return INVALID_VALUE;
  size_t size = extra ? *(size_t *)extra[3] : 0;
  return request((uint64_t[NUMBERS]){LAUNCH, (uintptr_t)function, gx, gy, gz, bx, shared, size},
                 extra ? extra[1] : NULL, size, NULL, 0, NULL);
}

EXPORT int hipMalloc(void **out, size_t size) {
  uint64_t memory;
  int result = request((uint64_t[NUMBERS]){ALLOC, size}, NULL, 0, NULL, 0, &memory);
  *out = result ? NULL : (void *)(uintptr_t)memory;
  return result;
}

EXPORT int hipFree(void *memory) {
  return memory ? request((uint64_t[NUMBERS]){FREE, (uintptr_t)memory}, NULL, 0, NULL, 0, NULL) : SUCCESS;
}

EXPORT int hipMemcpy(void *to, const void *from, size_t size, int kind) {
  if (!size) return SUCCESS;
  if (kind == COPY_IN)
    return request((uint64_t[NUMBERS]){COPY_TO, (uintptr_t)to, 0, 0, 0, 0, 0, size}, from, size, NULL, 0,
                   NULL);
  return request((uint64_t[NUMBERS]){COPY_FROM, (uintptr_t)from, size}, NULL, 0, to, size, NULL);
}

EXPORT int hipMemset(void *memory, int byte, size_t size) {
  return request((uint64_t[NUMBERS]){FILL, (uintptr_t)memory, size, (uint64_t)(byte & 255)}, NULL, 0, NULL, 0,
                 NULL);
}

EXPORT int hipStreamCreate(void **out) { return *out = &lock, SUCCESS; }
EXPORT int hipStreamDestroy(void *stream) { return stream == &lock ? SUCCESS : INVALID_VALUE; }
EXPORT int hipStreamSynchronize(void *stream) { return !stream || stream == &lock ? SUCCESS : INVALID_VALUE; }
