// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stands for XLA: calls a function as a program on one of several GPUs does, with an array and a result.
#include "python/extension/xla_ffi.h"

#include <stdio.h>

static char text[1200];
static int32_t ordinal;
static void *stream;

static xla_error *create_error(xla_error_arguments *a) {
  snprintf(text, sizeof text, "%s", a->message);
  return (xla_error *)text;
}
static xla_error *get_stream(xla_stream_arguments *a) { return a->stream = stream, NULL; }
static xla_error *get_ordinal(xla_ordinal_arguments *a) { return a->ordinal = ordinal, NULL; }

typedef xla_error *function(xla_frame *frame);

/// "" or the error's text. `call` is what kiln._core._xla_call made.
__attribute__((visibility("default"))) const char *
frame_launch(function *launch, int64_t call, int32_t device, void *on, void *x, void *y, int64_t n);
const char *frame_launch(function *launch, int64_t call, int32_t device, void *on, void *x, void *y,
                         int64_t n) {
  xla_api api = {.size = sizeof api,
                 .error_create = create_error,
                 .stream_get = get_stream,
                 .device_ordinal_get = get_ordinal};
  xla_buffer buffers[] = {{.size = sizeof *buffers, .data = x, .rank = 1, .extents = &n},
                          {.size = sizeof *buffers, .data = y, .rank = 1, .extents = &n}};
  xla_scalar scalar = {XLA_S64, &call};
  xla_text name = {"gpu", 3};
  xla_frame frame = {
      .size = sizeof frame,
      .api = &api,
      .stage = XLA_STAGE_EXECUTE,
      .arguments = {.count = 1, .at = (xla_buffer *[]){&buffers[0]}},
      .results = {.count = 1, .at = (xla_buffer *[]){&buffers[1]}},
      .attributes = {.count = 1,
                     .kinds = (int[]){XLA_ATTRIBUTE_SCALAR},
                     .names = (xla_text *[]){&name},
                     .at = (void *[]){&scalar}},
  };
  ordinal = device, stream = on, *text = 0;
  return launch(&frame) ? text : "";
}
