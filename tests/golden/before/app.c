// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An application of libkiln as it was at commit a904322b: its functions, its structures, what they print
// (README.md). Around each structure that the library fills stands a pattern.
#include <dlfcn.h>
#include <kiln/kiln.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARDED(type, name)         \
  struct {                          \
    uint8_t before[64];             \
    type it;                        \
    uint8_t after[64];              \
  } name;                           \
  memset(&name, 0x5a, sizeof name); \
  memset(&name.it, 0, sizeof name.it)
#define WHOLE(name) whole(name.before, name.after, #name)

static void whole(const uint8_t *before, const uint8_t *after, const char *name) {
  for (int i = 0; i < 64; i++)
    if (before[i] != 0x5a || after[i] != 0x5a) printf("%s: bytes around it are written\n", name);
}

static void say(const char *what, kiln_status status, const kiln_error *err) {
  printf("%s: %d%s%s\n", what, (int)status, status ? " " : "", status && err ? err->text : "");
}

static void choose(kiln_kernel *kernel, const void *block, size_t size) {
  GUARDED(kiln_choice, choice);
  GUARDED(kiln_reason, reason);
  GUARDED(kiln_error, err);
  reason.it.size = sizeof reason.it;
  say("choose", kiln_choose(kernel, block, size, &choice.it, &err.it), &err.it);
  printf("%s, '%s', grid %u %u %u\n", choice.it.config, choice.it.variant, choice.it.grid[0],
         choice.it.grid[1], choice.it.grid[2]);
  say("reason", kiln_choose_reason(kernel, block, size, &reason.it, &err.it), &err.it);
  printf("by %d, entry of %zu bytes\n", (int)reason.it.by, reason.it.entry_size);
  WHOLE(choice), WHOLE(reason), WHOLE(err);
}

static void launch_scale(kiln_device *device) {
  enum { N = 1024 };
  GUARDED(kiln_error, err);
  static float x[N], y[N];
  kiln_kernel *kernel = NULL;
  say("scale", kiln_kernel_get(device, "scale", NULL, &kernel, &err.it), &err.it);
  if (!kernel) return;
  for (size_t i = 0; i < kiln_param_count(kernel); i++) {
    GUARDED(kiln_param, p);
    say("parameter", kiln_param_at(kernel, i, &p.it), NULL);
    printf("%s: %s at %u, %u bytes, %u %u %u\n", p.it.name, p.it.type, p.it.offset, p.it.size, p.it.rank,
           p.it.pointer, p.it.access);
    WHOLE(p);
  }
  printf("block of %zu bytes, ABI %s\n", kiln_block_size(kernel),
         kiln_kernel_abi(kernel) ? "stated" : "missing");
  const float *px = x;
  float *py = y, a = 3;
  int32_t n = N, few = 100;
  const void *args[] = {&px, &py, &n, &a};
  for (int i = 0; i < N; i++) x[i] = (float)i;
  say("preload", kiln_preload(kernel, &err.it), &err.it);
  say("launch", kiln_launch(kernel, NULL, args, 4, &err.it), &err.it);
  printf("%g %g\n", y[1], y[N - 1]);
  struct {
    const float *x;
    float *y;
    int32_t n;
    float a;
  } block = {x, y, N, 5};
  choose(kernel, &block, sizeof block);
  say("packed", kiln_launch_packed(kernel, NULL, &block, sizeof block, &err.it), &err.it);
  printf("%g %g\n", y[1], y[N - 1]);
  block.a = 7;
  memset(y, 0, sizeof y);
  say("grid", kiln_launch_grid(kernel, NULL, (const uint32_t[]){1, 1, 1}, &block, sizeof block, &err.it),
      &err.it);
  printf("%g %g\n", y[1], y[N - 1]);
  kiln_prepared *prepared = NULL;
  say("prepare", kiln_prepare(kernel, args, 4, NULL, &prepared, &err.it), &err.it);
  size_t size = 0;
  printf("prepared block %s\n", kiln_prepared_block(prepared, &size) ? "there" : "missing");
  say("set", kiln_prepared_set(prepared, 2, &few, &err.it), &err.it);
  memset(y, 0, sizeof y);
  say("prepared", kiln_prepared_launch(prepared, NULL, &err.it), &err.it);
  printf("%g %g\n", y[99], y[100]);
  kiln_prepared_free(prepared);
  say("wrong number", kiln_launch(kernel, NULL, args, 3, &err.it), NULL);
  say("signature", kiln_kernel_get(device, "scale", &(kiln_signature){1, "x: *f32"}, &kernel, &err.it), NULL);
  WHOLE(err);
}

static void launch_others(kiln_device *device) {
  GUARDED(kiln_error, err);
  kiln_kernel *kernel = NULL;
  int32_t x[72], y[72] = {0};
  for (int i = 0; i < 72; i++) x[i] = i;
  say("even", kiln_kernel_get(device, "even", NULL, &kernel, &err.it), &err.it);
  if (!kernel) return;
  for (int32_t n = 64; n <= 72; n += 4) {
    const int32_t *px = x;
    int32_t *py = y;
    say("launch", kiln_launch(kernel, NULL, (const void *[]){&px, &py, &n}, 3, &err.it), &err.it);
    printf("%d %d\n", y[0], y[n - 1]);
  }
  say("twice", kiln_kernel_get(device, "twice", NULL, &kernel, &err.it), &err.it);
  float in[20][24], out[20][24] = {{0}};
  for (int i = 0; i < 20 * 24; i++) (&in[0][0])[i] = (float)i;
  struct {
    void *base;
    int64_t extents[2], strides[2];
  } from = {in, {20, 22}, {24, 1}}, to = {out, {20, 22}, {24, 1}};
  int32_t rows = 20, cols = 22;
  say("launch", kiln_launch(kernel, NULL, (const void *[]){&from, &to, &rows, &cols}, 4, &err.it), &err.it);
  printf("%g %g %g\n", out[19][21], out[19][22], out[3][1]);
  printf("returns %s, backward %s\n", kiln_kernel_returns(kernel) ? kiln_kernel_returns(kernel) : "-",
         kiln_kernel_backward(kernel) ? kiln_kernel_backward(kernel) : "-");
  say("nothing", kiln_kernel_get(device, "nothing", NULL, &kernel, &err.it), NULL);
  WHOLE(err);
}

static void use(kiln_library *library, const char *name) {
  GUARDED(kiln_error, err);
  GUARDED(kiln_preflight, flight);
  kiln_device *device = NULL;
  say(name, kiln_device_open(library, name, &device, &err.it), NULL);
  if (!device) return;
  printf("%s %s %s\n", kiln_device_target_name(device) ? "named" : "not named",
         kiln_device_description(device) ? "described" : "not described",
         kiln_device_units(device) || strcmp(name, "host") ? "counted" : "not counted");
  kiln_stream stream = NULL;
  say("stream", kiln_stream_create(device, &stream, &err.it), &err.it);
  kiln_stream_destroy(device, stream);
  say("preflight", kiln_device_preflight(device, &flight.it, &err.it), &err.it);
  printf("%zu kernels, %zu missing\n", flight.it.kernels, flight.it.missing);
  if (!strcmp(name, "host")) {
    launch_scale(device), launch_others(device);
    void *memory = NULL;
    char text[8] = "";
    say("memory", kiln_alloc(device, 8, &memory, &err.it), &err.it);
    say("fill", kiln_fill(device, memory, 'k', 8, &err.it), &err.it);
    say("in", kiln_copy_in(device, memory, "abc", 3, &err.it), &err.it);
    say("out", kiln_copy_out(device, text, memory, 7, &err.it), &err.it);
    printf("%s\n", text);
    kiln_free(device, memory);
    say("sync", kiln_sync(device, NULL, &err.it), &err.it);
  }
  kiln_report *report = NULL;
  say("explain", kiln_explain(device, "even", &report, &err.it), &err.it);
  size_t fitting = 0;
  for (size_t i = 0; i < kiln_report_count(report); i++) {
    GUARDED(kiln_candidate, candidate);
    say("candidate", kiln_report_at(report, i, &candidate.it), NULL);
    fitting += candidate.it.rank != 255;
    WHOLE(candidate);
  }
  printf("%zu candidates, %zu fit, the text is %s\n", kiln_report_count(report), fitting,
         kiln_report_text(report) ? "there" : "missing");
  kiln_report_free(report);
  kiln_device_close(device);
  WHOLE(err), WHOLE(flight);
}

int main(int count, char **words) {
  GUARDED(kiln_error, err);
  kiln_library *library = NULL;
  if (count < 4 || !kiln_version()[0]) return 2;
  kiln_source source = {.path = words[1]};
  kiln_open_options options = {.size = sizeof options, .sources = &source, .source_count = 1};
  say("open", kiln_open(&options, &library, &err.it), &err.it);
  if (!library) return 1;
  for (size_t i = 0; i < kiln_kernel_count(library); i++) printf("kernel %s\n", kiln_kernel_name(library, i));
  say("record", kiln_record_shapes(library, words[2], &err.it), &err.it);
  for (int i = 3; i < count; i++) use(library, words[i]);
  say("shapes", kiln_write_shapes(library, &err.it), &err.it);
  kiln_close(library);
  say("a file that is not there", kiln_open_file("/nonexistent", &library, &err.it), NULL);
  say("what is no bundle", kiln_open_memory("nothing", 7, &library, &err.it), NULL);
  WHOLE(err);
  return 0;
}
