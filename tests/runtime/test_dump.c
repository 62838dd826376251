// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that the worked dump in docs/bundle.md is a bundle: it opens, has what the page says, and is what
// the writer makes today. KILN_TEST_BLESS=1 rewrites it.
#include "base/bundle_format.h"
#include "tests/runtime/fixture.h"

static const char page[] = "docs/bundle.md", fence[] = "```dump\n";

static uint8_t *write_small(size_t *size) {
  fixture f;
  kiln_param_record params[] = {pointer_param("x", KILN_F32), scalar_param("n", KILN_I32)};
  kiln_interface in = {.name = "add",
                       .symbol = "kiln_add",
                       .params = params,
                       .param_count = 2,
                       .config_count = 1,
                       .variant_count = 1,
                       .configs = (kiln_config_record[]){{.text = "BLOCK=64",
                                                          .warps = 4,
                                                          .grid = {SPAN(P(1), C2(64), KILN_EXPR_CDIV)}}},
                       .variants = (kiln_variant_record[]){{.text = ""}}};
  fixture_begin(&f);
  fixture_code(&f, fixture_kernel(&f, &in), 0, 0, KILN_FORMAT_PTX, "sm_90", "kiln_add",
               ".version 8.0 // tiny", 20);
  kiln_manifest_note(&f.manifest, "language", "1");
  fixture_write(&f, kiln_test_path("small.kbundle"), "");
  return (uint8_t *)kiln_test_read(kiln_test_path("small.kbundle"), size);
}

static void print_dump(const uint8_t *bytes, size_t size, kiln_buffer *out) {
  for (size_t at = 0; at < size; at += 16) {
    kiln_buffer_format(out, "%04zx ", at);
    for (size_t i = at; i < at + 16; i++) {
      if (i < size) kiln_buffer_format(out, " %02x", bytes[i]);
      else kiln_buffer_format(out, "   ");
    }
    kiln_buffer_format(out, "  ");
    for (size_t i = at; i < at + 16 && i < size; i++)
      kiln_buffer_u8(out, bytes[i] >= 32 && bytes[i] < 127 && bytes[i] != '`' ? bytes[i] : '.');
    kiln_buffer_u8(out, '\n');
  }
}

// The bytes of the dump on the page.
static uint8_t *read_dump(const char *text, size_t *out_size) {
  const char *at = strstr(text, fence);
  CHECK(at != NULL);
  at += strlen(fence);
  uint8_t *bytes = malloc(strlen(at));
  for (*out_size = 0; *at != '`'; at = strchr(at, '\n') + 1) {
    CHECK(strchr(at, '\n') && strlen(at) > 54);
    for (int i = 0; i < 16 && at[6 + 3 * i] != ' '; i++)
      bytes[(*out_size)++] = (uint8_t)strtoul((char[]){at[6 + 3 * i], at[7 + 3 * i], 0}, NULL, 16);
  }
  return bytes;
}

static void bless(const char *text, const uint8_t *bytes, size_t size) {
  const char *begin = strstr(text, fence) + strlen(fence), *end = strchr(begin, '`');
  kiln_buffer out = {0};
  kiln_buffer_bytes(&out, text, (size_t)(begin - text));
  print_dump(bytes, size, &out);
  kiln_buffer_bytes(&out, end, strlen(end));
  kiln_test_write(page, out.bytes, out.size);
  kiln_buffer_deinit(&out);
}

// Versions of libarchive write the container around the members in their own ways (Debian 13's is of another
// size): then the bundle of today has to have the same kernels, codes and notes, else every byte.
static void check_written(const uint8_t *shown, size_t shown_size, const uint8_t *bytes, size_t size) {
  char *out;
  for (size_t i = 0; i < size && shown_size == size; i++)
    if (shown[i] != bytes[i])
      FAIL("byte 0x%zx is %02x on the page, the writer makes %02x", i, shown[i], bytes[i]);
  kiln_test_write(kiln_test_path("page.kbundle"), shown, shown_size);
  if (kiln_test_run(&out, "cd %s && %s/bin/kiln-tool diff page.kbundle small.kbundle", kiln_test_folder(),
                    kiln_test_build_path()))
    FAIL("the bundle of the page, and what the writer makes:\n%s", out);
  CHECK_TEXT(out, "");
  free(out);
}

TEST(dump, the_page_shows_a_bundle) {
  size_t size, shown_size, text_size;
  uint8_t *bytes = write_small(&size);
  char *text = kiln_test_read(page, &text_size);
  CHECK(text != NULL);
  if (getenv("KILN_TEST_BLESS")) {
    bless(text, bytes, size);
    free(text);
    text = kiln_test_read(page, &text_size);
  }
  uint8_t *shown = read_dump(text, &shown_size);
  check_written(shown, shown_size, bytes, size);

  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_param param;
  kiln_error err;
  CHECK_OK(kiln_open_memory(shown, shown_size, &l, &err), err);
  CHECK_OK(kiln_device_open(l, "null:sm_90", &d, &err), err);
  CHECK_OK(kiln_kernel_get(d, "add", NULL, &k, &err), err);
  CHECK_INT(kiln_param_count(k), 2);
  CHECK_OK(kiln_param_at(k, 0, &param), err);
  CHECK_TEXT(param.type, "*f32");
  CHECK_OK(kiln_preload(k, &err), err);
  // The places that the page names.
  CHECK_INT(kiln_le64(shown + 0x3c + KILN_BH_REGION), 0x1c0 - 0x3c);
  CHECK(!memcmp(shown + 0x3c, KILN_BUNDLE_MAGIC, 8));
  CHECK_INT(0x3c + KILN_BUNDLE_TOP, 0x1a4);
  kiln_device_close(d);
  kiln_close(l);
  free(shown);
  free(bytes);
  free(text);
}
