// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests `kiln report` on what no build makes, names with anything in them and a bundle without code, and in a
// browser. The pages of bundles that builds make are in tests/text/commands/bundle_page*.test.
#include "tests/runtime/fixture.h"

/// Writes the report of a bundle of the test's folder and reads it; malloc'ed.
static char *report(const char *bundle, const char *page) {
  const char *path = kiln_test_path(page);
  free(kiln_test_run_to(0, "%s/bin/kiln report %s -o %s", kiln_test_build(), kiln_test_path(bundle), path));
  char *text = kiln_test_read(path, NULL);
  CHECK(text);
  return text;
}

// ----------------------------------------------------------------------------------------- checker

typedef struct open_tag {
  const char *name;
  size_t length;
} open_tag;

static void bad(const char *page, const char *at, const char *what) __attribute__((noreturn));
static void bad(const char *page, const char *at, const char *what) {
  FAIL("at byte %td: %s: %.60s", at - page, what, at);
}

static const char *check_entity(const char *page, const char *at) {
  static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
    if (!strncmp(at, known[i], strlen(known[i]))) return at + strlen(known[i]);
  bad(page, at, "'&' begins no entity");
}

/// The attributes of a tag: NAME="VALUE" without raw < or &. Returns the '>' or the '/' before it.
static const char *check_attributes(const char *page, const char *at) {
  while (*at == ' ') {
    size_t length = strspn(++at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-");
    if (!length || at[length] != '=' || at[length + 1] != '"') bad(page, at, "expected NAME=\"VALUE\"");
    for (at += length + 2; *at != '"';) {
      if (!*at || *at == '<') bad(page, at, "an attribute does not end");
      at = *at == '&' ? check_entity(page, at) : at + 1;
    }
    at++;
  }
  if (*at != '>' && !(at[0] == '/' && at[1] == '>')) bad(page, at, "expected the end of a tag");
  return at;
}

/// Every tag is closed in order, every & is an entity, no control character is inside.
static void check_page(const char *page) {
  open_tag stack[32];
  unsigned depth = 0;
  CHECK(!strncmp(page, "<!DOCTYPE html>\n", 16));
  for (const char *at = page + 16; *at;) {
    if ((unsigned char)*at < 0x20 && *at != '\n') bad(page, at, "a control character");
    if (*at == '&') at = check_entity(page, at);
    else if (*at != '<') at++;
    else {
      bool is_end = at[1] == '/';
      const char *name = at + 1 + is_end;
      size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");
      if (!length) bad(page, at, "'<' begins no tag");
      at = is_end ? name + length : check_attributes(page, name + length);
      bool is_empty = *at == '/';
      if (is_end &&
          (!depth || stack[depth - 1].length != length || memcmp(stack[depth - 1].name, name, length)))
        bad(page, name, "closes another tag");
      if (is_end) depth--;
      if (!is_end && !is_empty) {
        if (depth == 32) bad(page, name, "nested too deeply");
        stack[depth++] = (open_tag){name, length};
      }
      at += is_empty;
      if (*at++ != '>') bad(page, name, "expected '>'");
    }
  }
  CHECK_INT(depth, 0);
}

// ------------------------------------------------------------------------------------------- tests

static void gpu_code(fixture *f, uint32_t kernel, const char *target, kiln_format format, uint32_t registers,
                     uint32_t spilled, const char *code) {
  kiln_buffer info = {0};
  kiln_code_info_encode(&(kiln_code_info){.format = (uint8_t)format,
                                          .target = target,
                                          .symbol = "k",
                                          .block_threads = 256,
                                          .shared_bytes = 34816,
                                          .registers = registers,
                                          .spill_bytes = spilled,
                                          .wave = 32,
                                          .producer = "test"},
                        &info);
  kiln_manifest_code(&f->manifest, kernel, 0, 0, target, info.bytes, info.size, code, strlen(code));
  kiln_buffer_deinit(&info);
}

TEST(report, hostile_names_are_text) {
  static const char *const names[] = {"<script>alert(1)</script>",
                                      "</title></svg><img src=x onerror=alert(1)>",
                                      "a\" onload=\"b' c&d",
                                      "\x01\x02\x1b[31m",
                                      "\xff\xfe\xc0\x80",
                                      "\xe2\x82",
                                      "--><![CDATA[",
                                      "gr\xc3\xbc\xc3\x9f \xe6\xa0\xb8 \xf0\x9f\x94\xa5",
                                      "&amp;"};
  fixture f;
  fixture_begin(&f);
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
    uint32_t kernel = fixture_kernel(&f, &ADD_ONE_INTERFACE(names[i]));
    gpu_code(&f, kernel, "sm_90", KILN_FORMAT_CUBIN, 10 + i, 4 + i, names[i]);
    kiln_manifest_note(&f.manifest, names[i], names[sizeof names / sizeof *names - 1 - i]);
  }
  fixture_write(&f, kiln_test_path("hostile.kb"), "");
  free(kiln_test_run_to(0, "mv %s/hostile.kb '%s/&lt;x.kb'", kiln_test_folder(), kiln_test_folder()));
  char *out = kiln_test_run_to(0, "%s/bin/kiln report '%s/&lt;x.kb'", kiln_test_build(), kiln_test_folder());
  check_page(out);
  CHECK_PART(out, "<h1>&amp;lt;x.kb</h1>");
  CHECK_PART(out, "&lt;script&gt;alert(1)&lt;/script&gt;</th>");
  CHECK_PART(out, "a&quot; onload=&quot;b&#39; c&amp;d</th>");
  CHECK_PART(out, ">&amp;amp;</th>");
  CHECK_PART(out, ">gr\xc3\xbc\xc3\x9f \xe6\xa0\xb8 \xf0\x9f\x94\xa5</th>");
  CHECK_PART(out, ">\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd[31m</th>");
  CHECK_PART(out, ">\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd</th>");
  CHECK_NO_PART(out, "<script");
  CHECK_NO_PART(out, "<img");
  CHECK_NO_PART(out, "\xff");
  free(out);
}

TEST(report, a_bundle_without_code) {
  fixture f;
  fixture_begin(&f);
  fixture_write(&f, kiln_test_path("none.kb"), "");
  char *page = report("none.kb", "none.html");
  check_page(page);
  CHECK_PART(page, "The bundle has no code.");
  CHECK_PART(page, "The bundle has no notes.");
  free(page);
}

// Numbers in a PNG are big-endian.
static uint32_t big32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void write_bundle(const char *name) {
  fixture f;
  fixture_begin(&f);
  uint32_t add = fixture_kernel(&f, &ADD_ONE_INTERFACE("add[T=f32]"));
  gpu_code(&f, add, "sm_90a", KILN_FORMAT_CUBIN, 1168, 0, "seven b");
  gpu_code(&f, add, "gfx942", KILN_FORMAT_HSACO, 96, 1236, "code of thirty bytes, as it is.");
  fixture_write(&f, kiln_test_path(name), "");
}

TEST(report, a_browser_draws_it) {
  kiln_test_need("chromium");
  write_bundle("a.kb");
  free(report("a.kb", "a.html"));
  free(kiln_test_run_to(
      0,
      "cd %s && echo '<p>' >empty.html && for page in a empty; do "
      "timeout 90 chromium --headless --no-sandbox --disable-gpu --user-data-dir=$PWD/profile "
      "--window-size=1000,1400 --screenshot=$PWD/$page.png file://$PWD/$page.html 2>>log || "
      "exit; done",
      kiln_test_folder()));
  size_t size, empty_size;
  uint8_t *png = (uint8_t *)kiln_test_read(kiln_test_path("a.png"), &size),
          *empty = (uint8_t *)kiln_test_read(kiln_test_path("empty.png"), &empty_size);
  CHECK(png && empty && size > 24);
  CHECK(!memcmp(png, "\x89PNG\r\n\x1a\n", 8));
  CHECK_INT(big32(png + 16), 1000);
  CHECK_INT(big32(png + 20), 1400);
  if (size < 4 * empty_size)
    FAIL("the picture of the page has %zu bytes, that of an empty one %zu", size, empty_size);
  free(png);
  free(empty);
}
