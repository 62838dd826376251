// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bundles for the tests of the runtime: host objects from a few lines of C, records made by hand, packed by
// kiln-tool bundle-write.
#ifndef KILN_TESTS_RUNTIME_FIXTURE_H
#define KILN_TESTS_RUNTIME_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/expr.h"
#include "base/record.h"
#include "cache/bundle/manifest.h"
#include "runtime/kiln.h"
#include "tests/harness.h"

typedef struct fixture {
  kiln_buffer manifest; // owned
  uint32_t kernels;
} fixture;

#define HOST_KERNEL(symbol) \
  "int " symbol "(const void *args, const unsigned id[3], const unsigned grid[3], void *scratch)"

/// y[i] = x[i] + 1 for 64 elements a program; (x: *f32, y: *f32, n: i32). Each sum goes through the program's scratch
/// memory, all 256 bytes of it.
static const char add_one_source[] = "struct a { const float *x; float *y; int n; };\n" HOST_KERNEL(
    "add_one") " {\n"
               "  const struct a *a = args; float *sum = scratch; (void)grid;\n"
               "  for (unsigned i = 0; i < 64 && id[0] * 64 + i < (unsigned)a->n; i++)\n"
               "    sum[i] = a->x[id[0] * 64 + i] + 1;\n"
               "  for (unsigned i = 0; i < 64 && id[0] * 64 + i < (unsigned)a->n; i++)\n"
               "    a->y[id[0] * 64 + i] = sum[i];\n"
               "  return 0;\n}\n";

/// A host object made of C, malloc'ed.
static inline uint8_t *fixture_object(const char *source, size_t *out_size) {
  const char *folder = kiln_test_folder();
  char path[512];
  snprintf(path, sizeof path, "%s/kernel.c", folder);
  kiln_test_write(path, source, strlen(source));
  char *out;
  if (kiln_test_run(
          &out,
          "gcc -shared -nostdlib -fPIC -O1 -fno-stack-protector -Wl,-z,now,-z,noexecstack -o %s/kernel.so %s",
          folder, path))
    FAIL("gcc: %s", out);
  free(out);
  snprintf(path, sizeof path, "%s/kernel.so", folder);
  return (uint8_t *)kiln_test_read(path, out_size);
}

static inline kiln_param_record pointer_param(const char *name, kiln_scalar scalar) {
  return (kiln_param_record){.name = name, .scalar = (uint8_t)scalar, .pointer = 1, .access = 3};
}
static inline kiln_param_record scalar_param(const char *name, kiln_scalar scalar) {
  return (kiln_param_record){.name = name, .scalar = (uint8_t)scalar};
}

/// Expressions as bytes; static storage of the caller through the macro.
#define SPAN(...) ((kiln_span){(const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})})
#define P(i) KILN_EXPR_PARAM, (i)
#define C(v) KILN_EXPR_CONST, (uint8_t)((v) << 1)                                       /* 0..63 */
#define C2(v) KILN_EXPR_CONST, (uint8_t)(((v) << 1 & 0x7f) | 0x80), (uint8_t)((v) >> 6) /* 64..8191 */

static inline void fixture_begin(fixture *f) {
  memset(f, 0, sizeof *f);
  kiln_manifest_begin(&f->manifest);
}

static inline uint32_t fixture_kernel(fixture *f, kiln_interface *in) {
  kiln_buffer record = {0};
  if (!in->symbol) in->symbol = in->name;
  kiln_layout_params(in);
  kiln_interface_encode(in, &record);
  kiln_manifest_kernel(&f->manifest, in->name, record.bytes, record.size);
  kiln_buffer_deinit(&record);
  return f->kernels++;
}

static inline void fixture_code(fixture *f, uint32_t kernel, uint32_t config, uint32_t variant,
                                kiln_format format, const char *target, const char *symbol, const void *code,
                                size_t size) {
  kiln_buffer info = {0};
  kiln_code_info_encode(&(kiln_code_info){.format = (uint8_t)format,
                                          .target = target,
                                          .symbol = symbol,
                                          .block_threads = 128,
                                          .wave = 1,
                                          .scratch_bytes = 256,
                                          .producer = "test"},
                        &info);
  kiln_manifest_code(&f->manifest, kernel, config, variant, target, info.bytes, info.size, code, size);
  kiln_buffer_deinit(&info);
}

/// Ends the manifest and writes the bundle to `path`; `options` go to kiln-tool bundle-write.
static inline void fixture_write(fixture *f, const char *path, const char *options) {
  char manifest[512], *out;
  kiln_manifest_end(&f->manifest);
  snprintf(manifest, sizeof manifest, "%s/manifest", kiln_test_folder());
  kiln_test_write(manifest, f->manifest.bytes, f->manifest.size);
  if (kiln_test_run(&out, "%s/bin/kiln-tool bundle-write --quiet %s -o %s %s", kiln_test_build(), options,
                    path, manifest))
    FAIL("kiln-tool bundle-write: %s", out);
  free(out);
  kiln_buffer_deinit(&f->manifest);
}

/// The interface of add_one: one config, one variant, grid cdiv(n, 64).
#define ADD_ONE_INTERFACE(kernel_name)                                                          \
  (kiln_interface) {                                                                            \
    .name = kernel_name, .symbol = "add_one",                                                   \
    .params = (kiln_param_record[]){pointer_param("x", KILN_F32), pointer_param("y", KILN_F32), \
                                    scalar_param("n", KILN_I32)},                               \
    .param_count = 3, .config_count = 1, .variant_count = 1,                                    \
    .configs =                                                                                  \
        (kiln_config_record[]){                                                                 \
            {.text = "BLOCK=64", .warps = 1, .grid = {SPAN(P(2), C2(64), KILN_EXPR_CDIV)}}},    \
    .variants = (kiln_variant_record[]){{.text = ""}},                                          \
  }

/// A bundle with `add_one` for the host at `path`.
static inline void fixture_add_one(const char *path, const char *options) {
  fixture f;
  size_t size;
  uint8_t *object = fixture_object(add_one_source, &size);
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, &ADD_ONE_INTERFACE("add_one"));
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "add_one", object, size);
  fixture_write(&f, path, options);
  free(object);
}

/// A new Ed25519 key pair in the files `name` and `name.pub`; the bytes in `out_public` when it is not NULL.
static inline void fixture_keys(const char *name, uint8_t out_public[32]) {
  char *out, *text, path[520];
  unlink(kiln_test_path(name));
  snprintf(path, sizeof path, "%s.pub", kiln_test_path(name));
  unlink(path);
  if (kiln_test_run(&out, "%s/bin/kiln cache keygen %s", kiln_test_build(), kiln_test_path(name)))
    FAIL("kiln cache keygen: %s", out);
  free(out);
  text = kiln_test_read(path, NULL);
  CHECK(text && strrchr(text, ' '));
  for (unsigned i = 0; out_public && i < 32; i++) {
    char digits[3] = {strrchr(text, ' ')[1 + 2 * i], strrchr(text, ' ')[2 + 2 * i], 0};
    out_public[i] = (uint8_t)strtoul(digits, NULL, 16);
  }
  free(text);
}

/// Opens library and device or ends the test.
static inline void fixture_open(const char *path, const char *device_name, kiln_library **library,
                                kiln_device **device) {
  kiln_error err;
  CHECK_OK(kiln_open_file(path, library, &err), err);
  kiln_status status = kiln_device_open(*library, device_name, device, &err);
  if (status == KILN_STATUS_NO_DEVICE) SKIP("%s", err.text);
  if (status != KILN_OK) FAIL("%s: %s", device_name, err.text);
}

#endif
