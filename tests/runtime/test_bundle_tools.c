// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the bundle commands on bundles that no build makes: names with anything in them, no code at all, codes
// of a few bytes that are no code. What the commands do with other bundles is in
// tests/text/commands/bundle_*.test, header_*.test and run_arguments.test.
#include "tests/runtime/fixture.h"

#define TOOL "cd %s && %s/bin/kiln-tool %s"

static void expect(int want, const char *arguments, const char *text) {
  char *out = kiln_test_run_to(want, TOOL, kiln_test_folder(), kiln_test_build_path(), arguments);
  CHECK_PART(out, text);
  free(out);
}

// scale for gfx942, whose code is so short that it is not compressed, and is none.
static void write_bundle(const char *name) {
  fixture f;
  fixture_begin(&f);
  uint32_t scale = fixture_kernel(&f, &ADD_ONE_INTERFACE("scale[T=f32]"));
  fixture_code(&f, scale, 0, 0, KILN_FORMAT_HSACO, "gfx942", "scale", "scale for gfx942", 16);
  fixture_write(&f, kiln_test_path(name), "");
}

TEST(bundle_tools, disasm_of_what_is_no_code) {
  write_bundle("a.kb");
  kiln_test_need("llvm-objdump-22 llvm-objdump");
  expect(1, "disasm -t gfx942 a.kb 'scale[T=f32]'", "the disassembler failed");
}

/// Runs the command and has Python read what it prints as JSON `d` and find `condition` true.
static void expect_json(int want, const char *arguments, const char *condition) {
  char *out = kiln_test_run_to(want, TOOL, kiln_test_folder(), kiln_test_build_path(), arguments);
  kiln_test_write(kiln_test_path("out.json"), out, strlen(out));
  free(out);
  kiln_test_need("/usr/bin/python3");
  free(kiln_test_run_to(
      0, "/usr/bin/python3 -c \"import json; d = json.load(open('%s', encoding='utf-8')); assert %s, d\"",
      kiln_test_path("out.json"), condition));
}

// Names are whatever a bundle says; what is not UTF-8 is still JSON.
TEST(bundle_tools, json_of_hostile_names) {
  static const char *const names[] = {"a\"b\\c", "\x01\x1f\x7f", "\xff\xc0\x80\xed\xa0\x80",
                                      "gr\xc3\xbc\xc3\x9f \xf0\x9f\x94\xa5"};
  fixture f;
  fixture_begin(&f);
  for (unsigned i = 0; i < 4; i++) {
    uint32_t kernel = fixture_kernel(&f, &ADD_ONE_INTERFACE(names[i]));
    fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HSACO, "gfx942", "k", names[i], strlen(names[i]));
    kiln_manifest_note(&f.manifest, names[i], names[3 - i]);
  }
  fixture_write(&f, kiln_test_path("h.kb"), "");
  expect_json(0, "inspect --json h.kb",
              "{k['name'] for k in d['kernels']} == {'a' + chr(34) + 'b' + chr(92) + 'c', chr(1) + chr(31) + "
              "chr(127), chr(0xfffd) * 6, "
              "'gr' + chr(252) + chr(223) + ' ' + chr(0x1f525)} and len(d['notes']) == 4");
  expect_json(0, "stat --json --by=kernel h.kb", "len(d['rows']) == 4");
  expect_json(0, "explain --json -d null:gfx942 h.kb", "d['kernels'] == d['exact'] == 4");
}

TEST(bundle_tools, nothing_is_merged_of_bundles_without_code) {
  fixture f;
  write_bundle("a.kb");
  fixture_begin(&f);
  fixture_write(&f, kiln_test_path("empty.kb"), "");
  expect(1, "merge -o p.kb empty.kb empty.kb", "p.kb would have no code");
  CHECK_INT(kiln_test_run(NULL, "test -e %s", kiln_test_path("p.kb")), 1);
  expect(0, "merge -o p.kb empty.kb a.kb", "1 kernel, 1 code");
}

// Names with anything in them stay inside the header's strings and comments.
TEST(bundle_tools, header_of_names_with_anything) {
  static const char *const names[] = {"a\"b\\c?\?/", "x\n#error no\n", "y\\", "*/ int z; /*"};
  fixture f;
  char *root = realpath(".", NULL);
  fixture_begin(&f);
  for (uint32_t i = 0; i < 4; i++)
    fixture_code(&f, fixture_kernel(&f, &ADD_ONE_INTERFACE(names[i])), 0, 0, KILN_FORMAT_HSACO, "gfx942", "k",
                 names[i], strlen(names[i]));
  fixture_write(&f, kiln_test_path("a.kb"), "");
  expect(0, "header -o a.h a.kb", "");
  free(kiln_test_run_to(0,
                        "cd %s && echo '#include \"a.h\"' >u.c && "
                        "gcc -std=c11 -Wall -Wextra -pedantic -Werror -I%s -fsyntax-only u.c",
                        kiln_test_folder(), root));
  free(root);
}

// A member of its size with other bytes is found out, not made to look whole.
TEST(bundle_tools, fix_index_refuses_a_changed_member) {
  write_bundle("a.kb");
  free(kiln_test_run_to(
      0,
      "cd %s && mkdir x && bsdtar -xf a.kb -C x && cd x && printf X | dd of=code/gfx9.bin bs=1 "
      "seek=$(($(stat -c %%s code/gfx9.bin) - 1)) conv=notrunc 2>/dev/null && "
      "bsdtar --format=zip -cf ../bad.zip KILN-INDEX code",
      kiln_test_folder()));
  expect(1, "fix-index -o c.kb bad.zip", "do not have the check of the index");
}
