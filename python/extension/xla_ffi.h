// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What XLA's foreign function interface, version 0.1 and newer, hands to a function in C, as far as it is
// used here. Each structure begins with its size, so that newer ones are read as older ones.
#ifndef KILN_PYTHON_XLA_FFI_H
#define KILN_PYTHON_XLA_FFI_H

#include <stddef.h>
#include <stdint.h>

enum { XLA_METADATA_EXTENSION = 1, XLA_STAGE_EXECUTE = 3, XLA_ATTRIBUTE_SCALAR = 3, XLA_S64 = 5 };
enum { XLA_INVALID_ARGUMENT = 3, XLA_INTERNAL = 13 };

typedef struct xla_extension {
  size_t size;
  int type;
  struct xla_extension *next;
} xla_extension;

typedef struct xla_version {
  size_t size;
  xla_extension *extensions;
  int major, minor;
} xla_version;

typedef struct xla_metadata {
  size_t size;
  xla_version version;
  uint32_t traits;
} xla_metadata;

typedef struct xla_metadata_extension {
  xla_extension base;
  xla_metadata *metadata;
} xla_metadata_extension;

typedef struct xla_buffer {
  size_t size;
  xla_extension *extensions;
  int type;
  void *data;
  int64_t rank, *extents;
} xla_buffer;

/// Arguments or results.
typedef struct xla_buffers {
  size_t size;
  xla_extension *extensions;
  int64_t count;
  int *kinds;
  xla_buffer **at;
} xla_buffers;

typedef struct xla_text {
  const char *text;
  size_t size;
} xla_text;

typedef struct xla_scalar {
  int type;
  void *value;
} xla_scalar;

typedef struct xla_attributes {
  size_t size;
  xla_extension *extensions;
  int64_t count;
  int *kinds;
  xla_text **names;
  void **at;
} xla_attributes;

/// Arguments of the functions below, as far as they are used.
typedef struct xla_error_arguments {
  size_t size;
  xla_extension *extensions;
  const char *message;
  int code;
} xla_error_arguments;

typedef struct xla_stream_arguments {
  size_t size;
  xla_extension *extensions;
  void *context, *stream;
} xla_stream_arguments;

typedef struct xla_ordinal_arguments {
  size_t size;
  xla_extension *extensions;
  void *context;
  int32_t ordinal;
} xla_ordinal_arguments;

typedef struct xla_error xla_error;

typedef struct xla_api {
  size_t size;
  xla_extension *extensions;
  xla_version version;
  const void *internal;
  xla_error *(*error_create)(xla_error_arguments *arguments);
  void *unused[3]; // the other functions of errors, registering handlers
  xla_error *(*stream_get)(xla_stream_arguments *arguments);
  void *unused_too[12];
  xla_error *(*device_ordinal_get)(xla_ordinal_arguments *arguments);
} xla_api;

typedef struct xla_frame {
  size_t size;
  xla_extension *extensions;
  const xla_api *api;
  void *context;
  int stage;
  xla_buffers arguments, results;
  xla_attributes attributes;
} xla_frame;

#endif
