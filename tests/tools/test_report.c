// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests `kiln report`: the page names everything, is well formed whatever the names are, loads nothing from
// outside, and a browser draws it.
#include "tests/runtime/fixture.h"

/// Writes the report of a bundle of the test's folder and reads it; malloc'ed.
static char *report(const char *bundle, const char *page) {
  char *out, path[512];
  snprintf(path, sizeof path, "%s", fixture_path(page));
  if (kiln_test_run(&out, "%s/bin/kiln report %s -o %s", kiln_test_build(), fixture_path(bundle), path))
    FAIL("%s", out);
  free(out);
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

/// Every tag is closed in order, every & is an entity, no control character is inside. Returns the count of
/// elements.
static unsigned check_page(const char *page) {
  open_tag stack[32];
  unsigned depth = 0, elements = 0;
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
      else elements++;
      if (!is_end && !is_empty) {
        if (depth == 32) bad(page, name, "nested too deeply");
        stack[depth++] = (open_tag){name, length};
      }
      at += is_empty;
      if (*at++ != '>') bad(page, name, "expected '>'");
    }
  }
  CHECK_INT(depth, 0);
  return elements;
}

static void has(const char *page, const char *text) {
  if (!strstr(page, text)) FAIL("the page is without\n%s", text);
}
static void has_not(const char *page, const char *text) {
  if (strstr(page, text)) FAIL("the page has\n%.200s", strstr(page, text));
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

static void write_bundle(const char *name) {
  fixture f;
  fixture_begin(&f);
  uint32_t add = fixture_kernel(&f, &ADD_ONE_INTERFACE("add[T=f32]")),
           scale = fixture_kernel(&f, &ADD_ONE_INTERFACE("scale"));
  gpu_code(&f, add, "sm_90a", KILN_FORMAT_CUBIN, 1168, 0, "seven b");
  gpu_code(&f, add, "gfx942", KILN_FORMAT_HSACO, 96, 1236, "code of thirty bytes, as it is.");
  gpu_code(&f, scale, "gfx942", KILN_FORMAT_HSACO, 48, 0, "another one");
  gpu_code(&f, scale, "sm_80", KILN_FORMAT_PTX, 0, 0, "// PTX");
  kiln_manifest_note(&f.manifest, "compiler", "kiln 0.1 & LLVM");
  fixture_write(&f, fixture_path(name), "");
}

TEST(report, names_every_kernel_and_target_with_its_numbers) {
  write_bundle("a.kb");
  char *page = report("a.kb", "a.html");
  CHECK(check_page(page) > 100);
  static const char *const texts[] = {
      "<h1>a.kb</h1>",
      "<dt>Kernels</dt><dd>2</dd>",
      "<dt>Codes</dt><dd>4</dd>",
      "<dt>Targets</dt><dd>3</dd>",
      "<dt>Codes, raw bytes</dt><dd>55</dd>",
      "<dt>Signature</dt><dd>none</dd>",
      "<tr><th "
      "rowspan=\"2\">add[T=f32]</th><th>gfx942</th><td>1</td><td>31</td><td>31</td><td>1.0x</td><td>96</"
      "td><td>1,236</td><td>34,816</td><td>256</td></tr>",
      "<tr><th>sm_90a</th><td>1</td><td>7</td><td>7</td><td>1.0x</td><td>1,168</td><td>0</td><td>34,816</"
      "td><td>256</td></tr>",
      "<tr><th rowspan=\"2\">scale</th><th>gfx942</th>",
      "<tr><th>sm_80</th><td>1</td><td>6</td><td>6</td><td>1.0x</td><td>\xe2\x80\x93</td>",
      "Sum; greatest</th><td>4</td><td>55</td><td>55</td><td>1.0x</td><td>1,168</td><td>1,236</td>",
      "<th>compiler</th><td>kiln 0.1 &amp; LLVM</td>",
      "aria-label=\"Bytes by target\"",
      "aria-label=\"Registers by kernel\"",
      "aria-label=\"Spills by kernel\""};
  for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) has(page, texts[i]);
  // The longest bar is as wide as the chart; another one has its part of that.
  has(page, "width=\"500\" height=\"14\"/>\n<text class=\"v\" x=\"826\" y=\"19\">1,168</text>");
  has(page, "width=\"21\" height=\"14\"/>\n<text class=\"v\" x=\"347\" y=\"43\">48</text>");
  free(page);
}

TEST(report, needs_nothing_from_outside) {
  write_bundle("a.kb");
  char *page = report("a.kb", "a.html");
  static const char *const outside[] = {"://",     "src=",  "href",    "url(",   "@import",
                                        "<script", "<link", "<iframe", "<object"};
  for (unsigned i = 0; i < sizeof outside / sizeof *outside; i++) has_not(page, outside[i]);
  has(page, "default-src &#39;none&#39;");
  free(page);
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
  fixture_write(&f, fixture_path("hostile.kb"), "");
  char *out;
  if (kiln_test_run(&out, "mv %s/hostile.kb \"%s/&lt;x.kb\"", kiln_test_folder(), kiln_test_folder()))
    FAIL("%s", out);
  free(out);
  if (kiln_test_run(&out, "%s/bin/kiln report \"%s/&lt;x.kb\"", kiln_test_build(), kiln_test_folder()))
    FAIL("%s", out);
  check_page(out);
  has(out, "<h1>&amp;lt;x.kb</h1>");
  has(out, "&lt;script&gt;alert(1)&lt;/script&gt;</th>");
  has(out, "a&quot; onload=&quot;b&#39; c&amp;d</th>");
  has(out, ">&amp;amp;</th>");
  has(out, ">gr\xc3\xbc\xc3\x9f \xe6\xa0\xb8 \xf0\x9f\x94\xa5</th>");
  has(out, ">\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd[31m</th>");
  has(out, ">\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd</th>");
  has_not(out, "<script");
  has_not(out, "<img");
  has_not(out, "\xff");
  free(out);
}

TEST(report, same_bundle_same_bytes) {
  write_bundle("a.kb");
  char *first = report("a.kb", "1.html"), *out;
  if (kiln_test_run(&out,
                    "mkdir %s/moved && cp %s %s/moved/a.kb && cd %s/moved && TZ=Asia/Tokyo "
                    "LC_ALL=de_DE.UTF-8 %s/bin/kiln report a.kb",
                    kiln_test_folder(), fixture_path("a.kb"), kiln_test_folder(), kiln_test_folder(),
                    kiln_test_build_path()))
    FAIL("%s", out);
  CHECK_TEXT(out, first);
  free(first);
  free(out);
}

TEST(report, many_kernels_and_none) {
  fixture f;
  char name[40];
  fixture_begin(&f);
  for (unsigned i = 0; i < 100; i++) {
    snprintf(name, sizeof name, "kernel_%03u", i);
    gpu_code(&f, fixture_kernel(&f, &ADD_ONE_INTERFACE(name)), "sm_90", KILN_FORMAT_CUBIN, 100 + i, 0, name);
  }
  fixture_write(&f, fixture_path("many.kb"), "");
  char *page = report("many.kb", "many.html");
  check_page(page);
  has(page, "(the 40 greatest of 100; the table has all)");
  for (unsigned i = 0; i < 100; i++) {
    snprintf(name, sizeof name, ">kernel_%03u</th>", i);
    has(page, name);
  }
  has(page, "<title>kernel_060</title>");
  has_not(page, "<title>kernel_059</title>");
  has(page, "No code states a spill.");
  has(page, "The bundle has no notes.");
  free(page);
  fixture_begin(&f);
  fixture_write(&f, fixture_path("none.kb"), "");
  page = report("none.kb", "none.html");
  check_page(page);
  has(page, "The bundle has no code.");
  free(page);
}

TEST(report, refuses_what_is_no_bundle) {
  char *out;
  CHECK_INT(
      kiln_test_run(&out, "%s/bin/kiln report README.md -o %s", kiln_test_build(), fixture_path("x.html")),
      1);
  free(out);
  CHECK_INT(kiln_test_run(NULL, "test -e %s", fixture_path("x.html")), 1);
  CHECK_INT(kiln_test_run(NULL, "%s/bin/kiln report", kiln_test_build()), 2);
}

// Numbers in a PNG are big-endian.
static uint32_t big32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

TEST(report, a_browser_draws_it) {
  if (kiln_test_run(NULL, "command -v chromium >/dev/null")) SKIP("chromium is not installed");
  write_bundle("a.kb");
  free(report("a.kb", "a.html"));
  const char *folder = kiln_test_folder();
  char *out;
  if (kiln_test_run(&out,
                    "cd %s && timeout 90 chromium --headless --no-sandbox --disable-gpu "
                    "--user-data-dir=%s/profile --window-size=1000,1400 "
                    "--screenshot=%s/a.png file://%s/a.html 2>%s/log; echo '<p>' >empty.html; timeout 90 "
                    "chromium --headless --no-sandbox --disable-gpu "
                    "--user-data-dir=%s/profile --window-size=1000,1400 --screenshot=%s/empty.png "
                    "file://%s/empty.html 2>>%s/log",
                    folder, folder, folder, folder, folder, folder, folder, folder, folder))
    FAIL("%s", out);
  free(out);
  size_t size, empty_size;
  uint8_t *png = (uint8_t *)kiln_test_read(fixture_path("a.png"), &size),
          *empty = (uint8_t *)kiln_test_read(fixture_path("empty.png"), &empty_size);
  CHECK(png && empty && size > 24);
  CHECK(!memcmp(png, "\x89PNG\r\n\x1a\n", 8));
  CHECK_INT(big32(png + 16), 1000);
  CHECK_INT(big32(png + 20), 1400);
  if (size < 4 * empty_size)
    FAIL("the picture of the page has %zu bytes, that of an empty one %zu", size, empty_size);
  free(png);
  free(empty);
}
