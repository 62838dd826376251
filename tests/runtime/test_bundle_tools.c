// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the bundle commands of kiln-tool on a small bundle: what they print, and that what they write is a
// bundle again.
#include <stdarg.h>

#include "tests/runtime/fixture.h"

static char *tool(int want, const char *format, ...) __attribute__((format(printf, 2, 3)));
static char *tool(int want, const char *format, ...) {
  char words[2000], *out;
  va_list args;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  int status =
      kiln_test_run(&out, "cd %s && %s/bin/kiln-tool %s", kiln_test_folder(), kiln_test_build_path(), words);
  if (status != want) FAIL("kiln-tool %s: exit %d, expected %d\n%s", words, status, want, out);
  return out;
}

static void expect(int want, const char *arguments, const char *text) {
  char *out = tool(want, "%s", arguments);
  if (!strstr(out, text)) FAIL("kiln-tool %s printed\n%swithout\n%s", arguments, out, text);
  free(out);
}

// add_one for the host, gfx942 and sm_80; scale for gfx942.
static void write_bundle(const char *name) {
  fixture f;
  size_t size;
  uint8_t *object = fixture_object(add_one_source, &size);
  fixture_begin(&f);
  uint32_t add = fixture_kernel(&f, &ADD_ONE_INTERFACE("add_one")),
           scale = fixture_kernel(&f, &ADD_ONE_INTERFACE("scale[T=f32]"));
  fixture_code(&f, add, 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "add_one", object, size);
  fixture_code(&f, add, 0, 0, KILN_FORMAT_PTX, "sm_80", "add_one", "// PTX of add_one\n", 18);
  fixture_code(&f, add, 0, 0, KILN_FORMAT_HSACO, "gfx942", "add_one", "add for gfx942", 14);
  fixture_code(&f, scale, 0, 0, KILN_FORMAT_HSACO, "gfx942", "scale", "scale for gfx942", 16);
  kiln_manifest_note(&f.manifest, "compiler", "kiln 0.1");
  fixture_write(&f, fixture_path(name), "");
  free(object);
}

TEST(bundle_tools, what_is_in_it) {
  write_bundle("a.kb");
  expect(0, "inspect a.kb", "2 kernels, 4 codes, 3 targets");
  expect(0, "inspect a.kb", "note compiler: kiln 0.1");
  expect(0, "inspect -k add a.kb", "config 0: BLOCK=64  grid (cdiv(n, 64), 1, 1)");
  expect(0, "inspect -k add a.kb", "    n: i32  at 16, 4 bytes");
  expect(0, "stat --by=kernel a.kb",
         "scale[T=f32]                                    1           16           16");
  expect(0, "stat --by=section a.kb", "kernels                                         2           64");
  expect(2, "stat --by=colour a.kb", "found 'colour'");
  expect(0, "verify a.kb", "all as written");
  expect(0, "disasm -t sm_80 a.kb add_one", "// PTX of add_one");
  expect(1, "disasm -t sm_75 a.kb add_one", "no code of 'add_one' for sm_75");
  expect(2, "inspect", "expected one bundle, found 0 words");
  expect(1, "inspect absent.kb", "KILN-E0003");
}

// Code for the host goes through llvm-objdump: add_one's own instructions are there.
TEST(bundle_tools, disasm_of_machine_code) {
  write_bundle("a.kb");
  if (kiln_test_run(NULL, "command -v llvm-objdump-22 || command -v llvm-objdump"))
    SKIP("llvm-objdump is not installed");
  expect(0, "disasm -t x86-64-v2 a.kb add_one", "// x86-64-v2 config 0 variant 0");
  expect(0, "disasm -t x86-64-v2 a.kb add_one", "<add_one>:");
  expect(0, "disasm -t x86-64-v2 a.kb add_one", "addss");
  expect(1, "disasm -t gfx942 a.kb add_one", "the disassembler failed");
  expect(2, "disasm a.kb", "expected BUNDLE and KERNEL, found 1 words");
}

TEST(bundle_tools, verify_asks_for_the_key) {
  char sign[600];
  fixture_keys("ours", NULL);
  fixture_keys("other", NULL);
  snprintf(sign, sizeof sign, "--sign %s", fixture_path("ours"));
  fixture_add_one(fixture_path("signed.kb"), sign);
  fixture_add_one(fixture_path("plain.kb"), "");
  expect(0, "verify --key=ours.pub signed.kb", "signed by ");
  expect(0, "verify plain.kb", "all as written");
  expect(1, "verify --key=ours.pub plain.kb", "not signed");
  expect(1, "verify --key=other.pub signed.kb", "signed with another key");
  expect(1, "verify --key=ours signed.kb", "kiln-public-key");
}

TEST(bundle_tools, sign_gives_what_the_writer_signs) {
  char sign[600], *out;
  fixture_keys("ours", NULL);
  fixture_keys("other", NULL);
  snprintf(sign, sizeof sign, "--sign %s", fixture_path("ours"));
  fixture_add_one(fixture_path("signed.kb"), sign);
  fixture_add_one(fixture_path("plain.kb"), "");
  expect(0, "sign --key=other -o again.kb plain.kb", "");
  expect(0, "verify --key=other.pub again.kb", "signed by ");
  expect(0, "sign --key=ours again.kb", ""); // in place of the other's
  if (kiln_test_run(&out, "cmp %s %s && bsdtar -tf %s", fixture_path("again.kb"), fixture_path("signed.kb"),
                    fixture_path("again.kb")))
    FAIL("%s", out);
  free(out);
  if (kiln_test_run(&out, "unzip -tq %s", fixture_path("again.kb")))
    FAIL("the archive's sums do not fit: %s", out);
  free(out);
  expect(2, "sign plain.kb", "--key is missing");
  expect(1, "sign --key=ours.pub plain.kb", "expected mode 0600");
}

TEST(bundle_tools, damage_is_not_signed) {
  size_t size;
  fixture_keys("ours", NULL);
  fixture_add_one(fixture_path("plain.kb"), "");
  char *bytes = kiln_test_read(fixture_path("plain.kb"), &size);
  for (size_t at = 0; at < size;
       at += 1 + size / 97) { // every one of these bytes counts for the reader or for the archive
    bytes[at] ^= 0x20;
    kiln_test_write(fixture_path("bad.kb"), bytes, size);
    bytes[at] ^= 0x20;
    char *before = kiln_test_read(fixture_path("bad.kb"), NULL), *out;
    int status = kiln_test_run(&out, "%s/bin/kiln sign --key=%s %s", kiln_test_build(), fixture_path("ours"),
                               fixture_path("bad.kb"));
    size_t now;
    char *after = kiln_test_read(fixture_path("bad.kb"), &now);
    if (status != 0 && status != 1) FAIL("byte %zu changed: exit code %d: %s", at, status, out);
    if (status == 1 && (now != size || memcmp(before, after, size)))
      FAIL("byte %zu changed: a refused bundle was written", at);
    free(before), free(after), free(out);
  }
  free(bytes);
}

/// Runs the command and has Python read what it prints as JSON `d` and find `condition` true.
static void expect_json(int want, const char *arguments, const char *condition) {
  char *out = tool(want, "%s", arguments), *said;
  kiln_test_write(fixture_path("out.json"), out, strlen(out));
  if (kiln_test_run(NULL, "/usr/bin/python3 -c ''")) SKIP("python3 is not installed");
  if (kiln_test_run(
          &said,
          "/usr/bin/python3 -c \"import json; d = json.load(open('%s', encoding='utf-8')); assert %s, d\"",
          fixture_path("out.json"), condition))
    FAIL("kiln-tool %s printed\n%s\n%s", arguments, out, said);
  free(said);
  free(out);
}

TEST(bundle_tools, json_says_what_the_text_says) {
  write_bundle("a.kb");
  free(tool(0, "split --arch=gfx942 -o g.kb a.kb"));
  expect_json(0, "inspect --json a.kb",
              "d['format'] == '1.1' and d['signed_by'] is None and d['notes'] == {'compiler': 'kiln 0.1'}");
  expect_json(0, "inspect --json a.kb",
              "d['targets'] == ['gfx942', 'sm_80', 'x86-64-v2'] and [len(k['codes']) for k in d['kernels']] "
              "== [3, 1]");
  expect_json(0, "inspect --json a.kb",
              "[(p['name'], p['type'], p['pointer'], p['offset']) for p in d['kernels'][0]['params']] == "
              "[('x', 'f32', 1, 0), ('y', 'f32', 1, 8), ('n', 'i32', 0, 16)]");
  expect_json(0, "inspect --json a.kb",
              "d['kernels'][0]['configs'] == [{'text': 'BLOCK=64', 'grid': ['cdiv(n, 64)', '1', '1']}] and "
              "d['kernels'][0]['variants'] == ['']");
  expect_json(0, "inspect --json -k scale -t gfx942 a.kb",
              "[(c['target'], c['raw'], c['block_threads'], c['producer']) for k in d['kernels'] for c in "
              "k['codes']] == [('gfx942', 16, 128, 'test')]");
  expect_json(0, "stat --json --by=kernel a.kb",
              "[(r['name'], r['count']) for r in d['rows']] == [('add_one', 3), ('scale[T=f32]', 1)] and "
              "d['rows'][1]['raw'] == 16");
  expect_json(0, "stat --json a.kb",
              "d['by'] == 'arch' and d['file'] == d['codes'] + d['dictionaries'] + d['index_and_container'] "
              "and sum(r['count'] for r in d['rows']) == 4");
  expect_json(0, "stat --json --by=section a.kb",
              "[r['name'] for r in d['rows']] == sorted('kernels names codes blobs targets members notes "
              "records'.split())");
  expect_json(0, "diff --json a.kb a.kb", "d['same'] == 4 and d['differences'] == []");
  expect_json(1, "diff --json a.kb g.kb",
              "d['only_first'] == 2 and d['same'] == 2 and [(x['what'], x['how'], x['name'], "
              "x['code']['target']) for x in d['differences']] == "
              "[('code', 'only_first', 'add_one', 'sm_80'), ('code', 'only_first', 'add_one', 'x86-64-v2')]");
  expect_json(0, "explain --json -d null:sm_90 a.kb add_one",
              "sorted((c['target'], c['rank']) for c in d['candidates']) == [('gfx942', 255), ('sm_80', 5), "
              "('x86-64-v2', 255)]");
  expect_json(
      0, "explain --json -d null:sm_90 a.kb add_one",
      "all(bool(c['rule']) == (c['rank'] == 255) for c in d['candidates']) and d['device'] == 'sm_90'");
  expect_json(0, "explain --json -d null:gfx942 a.kb",
              "d['kernels'] == d['exact'] == 2 and d['missing'] == 0 and d['first_missing'] is None");
  expect_json(0, "explain --json -d null:sm_75 a.kb",
              "d['missing'] == 2 and d['first_missing'] == 'add_one'");
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
  fixture_write(&f, fixture_path("h.kb"), "");
  expect_json(0, "inspect --json h.kb",
              "{k['name'] for k in d['kernels']} == {'a' + chr(34) + 'b' + chr(92) + 'c', chr(1) + chr(31) + "
              "chr(127), chr(0xfffd) * 6, "
              "'gr' + chr(252) + chr(223) + ' ' + chr(0x1f525)} and len(d['notes']) == 4");
  expect_json(0, "stat --json --by=kernel h.kb", "len(d['rows']) == 4");
  expect_json(0, "explain --json -d null:gfx942 h.kb", "d['kernels'] == d['exact'] == 4");
}

// One bad bundle does not hide the next.
TEST(bundle_tools, verify_looks_at_every_bundle) {
  write_bundle("a.kb");
  size_t size;
  char *bytes = kiln_test_read(fixture_path("a.kb"), &size);
  kiln_test_write(fixture_path("cut.kb"), bytes, size / 2);
  free(bytes);
  expect(1, "verify cut.kb a.kb", "a.kb: 1 pages, ");
  expect_json(1, "verify --json cut.kb absent.kb a.kb",
              "[(b['good'], b.get('code')) for b in d] == [(False, 'KILN-E0008'), (False, 'KILN-E0003'), "
              "(True, None)]");
  expect_json(0, "verify --json a.kb", "d[0]['bundle'] == 'a.kb' and d[0]['signed_by'] is None");
}

TEST(bundle_tools, explain_says_why) {
  write_bundle("a.kb");
  expect(0, "explain -d null:sm_90 a.kb add_one", "sm_80: fits (PTX)");
  expect(0, "explain -d null:gfx1100 a.kb 'scale[T=f32]'", "processor differs: code gfx942, device gfx1100");
  expect(0, "explain -d null:gfx942 a.kb", "2 kernels: 2 exact");
  expect(1, "explain -d null:gfx942 a.kb nothing", "a.kb has no kernel 'nothing' (`kiln inspect` lists");
  expect(1, "explain -d null:gfx942 a.kb add_on", "a.kb has no kernel 'add_on'; did you mean 'add_one'?");
  expect(1, "explain -d null:gfx942 a.kb scale", "a.kb has no kernel 'scale'; did you mean 'scale[T=f32]'?");
  expect(1, "run a.kb add_onne", "a.kb has no kernel 'add_onne'; did you mean 'add_one'?");
  expect(1, "disasm a.kb ad_one", "no code of 'ad_one'; did you mean 'add_one'?");
  expect(1, "inspect -k ad_one a.kb", "contains 'ad_one'; did you mean 'add_one'?");
  expect(1, "prune --drop-kernel add_oen -o p.kb a.kb", "a kernel 'add_oen'; did you mean 'add_one'?");
}

TEST(bundle_tools, run_prints_saves_and_compares) {
  write_bundle("a.kb");
  expect(0, "run a.kb add_one -a x=iota:100 -a y=zeros:100 -a n=100 -p y:4 --save y=y.bin --explain",
         "y = 1 2 3 4 ... (100 elements)");
  expect(0, "run a.kb add_one -a x=iota:100 -a y=fill:100:7 -a n=100 --compare y=y.bin", "");
  expect(1, "run a.kb add_one -a x=ones:100 -a y=zeros:100 -a n=100 --compare y=y.bin",
         "'y': 99 of 100 elements differ; element 0 is 2, expected 1");
  expect(1, "run a.kb add_one -a x=ones:100 -a y=zeros:100", "argument 'n' (i32) is missing");
  expect(1, "run a.kb add_one -a z=1", "with one of (x: *f32, y: *f32, n: i32)");
  expect(1, "run a.kb add_one -a n=3000000000000", "is not a value of type i32");
  expect(1, "run a.kb add_one -a x=ones", "is not zeros:N");
  static const char call[] = "run a.kb add_one -a x=ones:100 -a y=zeros:100 -a n=100";
  static const struct {
    int code;
    const char *option, *text;
  } wrong[] = {{1, "-p z", "'z': expected NAME[:COUNT] with one of (x: *f32, y: *f32, n: i32)"},
               {1, "-p y:all", "'y:all': expected NAME[:COUNT], found 'all'"},
               {1, "-p y:-1", "found '-1'"},
               {1, "-p n", "argument 'n' (i32) is no buffer"},
               {1, "--save y", "'y': expected NAME=FILE with one of"},
               {2, "--tolerance=some", "--tolerance: expected a number of at least 0, found 'some'"},
               {2, "--tolerance=-1", "found '-1'"},
               {2, "--tolerance=nan", "found 'nan'"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char command[200];
    snprintf(command, sizeof command, "%s %s", call, wrong[i].option);
    expect(wrong[i].code, command, wrong[i].text);
  }
}

TEST(bundle_tools, split_and_merge_give_the_bundle_back) {
  write_bundle("a.kb");
  free(tool(0, "split --arch=gfx942 -o g.kb a.kb"));
  free(tool(0, "split --arch=sm_80 --arch=x86-64-v2 -o r.kb a.kb"));
  expect(0, "inspect g.kb", "2 kernels, 2 codes, 1 targets");
  expect(0, "inspect r.kb", "1 kernels, 2 codes, 2 targets");
  free(tool(0, "merge -o m.kb r.kb g.kb"));
  expect_json(0, "diff --json a.kb m.kb",
              "[d[k] for k in ('same', 'changed', 'only_first', 'only_second')] == [4, 0, 0, 0]");
  expect(1, "diff a.kb g.kb", "- add_one  sm_80 config 0 variant 0");
  char *out;
  if (kiln_test_run(&out, "cmp %s/a.kb %s/m.kb", kiln_test_folder(), kiln_test_folder())) FAIL("%s", out);
  free(out);
  expect(2, "split -o x.kb a.kb", "--arch is missing");
  expect(2, "split --arch=gfx942 a.kb", "--out is missing");
  expect(2, "merge -o x.kb", "expected bundles, found 0 words");
  expect_json(0, "split --json --arch=gfx942 -o s.kb a.kb",
              "d['codes'] >= 1 and d['bytes'] > 0 and 'dropped_targets' not in d");
  free(tool(0, "merge -o n.kb --dictionary=none a.kb"));
  free(tool(0, "merge -o d.kb --dictionary=small a.kb"));
  expect_json(0, "stat --json --by=section n.kb", "d['rows']");
  expect(2, "merge -o x.kb --dictionary=huge a.kb",
         "--dictionary: expected auto, none, small or large, found 'huge'");
  expect(2, "merge -o x.kb --level=20 a.kb", "--level: expected 1 to 19, found 20");
  expect(1, "merge -o x.kb a.kb absent.kb", "KILN-E0003");
  expect(1, "split --arch=gfx942 --arch=sm_75 -o e.kb a.kb", "a.kb has no code for sm_75");
  CHECK_INT(kiln_test_run(NULL, "test -e %s", fixture_path("e.kb")), 1);
}

TEST(bundle_tools, prune_keeps_to_the_size) {
  write_bundle("a.kb");
  expect(0, "prune --drop-kernel='scale[T=f32]' -o p.kb a.kb", "1 kernels, 3 codes");
  expect(0, "prune --drop-target=gfx942 --drop-target=x86-64-v2 --max-size=1000000 -o p.kb a.kb",
         "2 kernels, 4 codes");
  expect(0, "prune --drop-target=gfx942 --drop-target=x86-64-v2 -o p.kb a.kb", "1 kernels, 1 codes");
  expect(1, "prune --drop-target=gfx942 --max-size=10 -o p.kb a.kb", "--max-size allows 10");
  expect_json(
      0, "prune --json --drop-target=gfx942 --drop-target=x86-64-v2 --max-size=1000000 -o p.kb a.kb",
      "d['kernels'] == 2 and d['codes'] == 4 and d['dropped_targets'] == [] and d['bundle'] == 'p.kb'");
}

// What is named and is nowhere is a slip of the pen, and nothing is written.
TEST(bundle_tools, what_is_not_there_is_not_dropped) {
  write_bundle("a.kb");
  expect(1, "prune --drop-target=typo -o p.kb a.kb", "a.kb has no code for typo");
  expect(1, "prune --drop-target=gfx942 --drop-target=sm_75 -o p.kb a.kb", "a.kb has no code for sm_75");
  expect(1, "prune --drop-target=typo --max-size=1000000 -o p.kb a.kb", "a.kb has no code for typo");
  expect(1, "prune --drop-kernel=add_won -o p.kb a.kb", "a.kb has no code of a kernel 'add_won'");
  expect(1, "prune --drop-kernel=add_one --drop-kernel='scale[T=f32]' -o p.kb a.kb",
         "p.kb would have no code");
  expect(1, "prune --drop-target=gfx942 --drop-target=sm_80 --drop-target=x86-64-v2 -o p.kb a.kb",
         "p.kb would have no code");
  fixture f;
  fixture_begin(&f);
  fixture_write(&f, fixture_path("empty.kb"), "");
  expect(1, "merge -o p.kb empty.kb empty.kb", "p.kb would have no code");
  CHECK_INT(kiln_test_run(NULL, "test -e %s", fixture_path("p.kb")), 1);
  expect(0, "merge -o p.kb empty.kb a.kb", "2 kernels, 4 codes");
}

// `host` is a name of x86-64-v3, as for `kiln build`.
TEST(bundle_tools, targets_by_the_names_that_builds_take) {
  fixture f;
  size_t size;
  uint8_t *object = fixture_object(add_one_source, &size);
  fixture_begin(&f);
  fixture_code(&f, fixture_kernel(&f, &ADD_ONE_INTERFACE("add_one")), 0, 0, KILN_FORMAT_HOST, "x86-64-v3",
               "add_one", object, size);
  fixture_code(&f, 0, 0, 0, KILN_FORMAT_PTX, "sm_80", "add_one", "// PTX", 6);
  fixture_write(&f, fixture_path("a.kb"), "");
  free(object);
  expect(0, "split --arch=host -o s.kb a.kb", "s.kb: 1 kernels, 1 codes");
  expect(0, "prune --drop-target=host -o s.kb a.kb", "s.kb: 1 kernels, 1 codes");
  expect(0, "inspect -c -t host a.kb", "  x86-64-v3 ");
  expect_json(0, "inspect --json -t host a.kb",
              "[c['target'] for c in d['kernels'][0]['codes']] == ['x86-64-v3']");
  expect(0, "disasm -t host a.kb add_one", "// x86-64-v3 config 0 variant 0");
  expect(1, "disasm -t typo a.kb add_one", "no code of 'add_one' for typo");
  expect(1, "inspect -t typo a.kb", "a.kb has no code for typo");
  expect(1, "inspect --json -t sm_90 a.kb", "a.kb has no code for sm_90");
  expect(1, "inspect -k typo a.kb", "a.kb has no kernel whose name contains 'typo'");
}

// Names with anything in them stay inside the header's strings and comments.
TEST(bundle_tools, header_of_names_with_anything) {
  static const char *const names[] = {"a\"b\\c?\?/", "x\n#error no\n", "y\\", "*/ int z; /*"};
  fixture f;
  char *out, *root = realpath(".", NULL);
  fixture_begin(&f);
  for (uint32_t i = 0; i < 4; i++)
    fixture_code(&f, fixture_kernel(&f, &ADD_ONE_INTERFACE(names[i])), 0, 0, KILN_FORMAT_HSACO, "gfx942", "k",
                 names[i], strlen(names[i]));
  fixture_write(&f, fixture_path("a.kb"), "");
  free(tool(0, "header -o a.h a.kb"));
  if (kiln_test_run(
          &out,
          "cd %s && echo '#include \"a.h\"' >u.c && gcc -std=c11 -Wall -Wextra -pedantic -Werror -I%s "
          "-fsyntax-only u.c",
          kiln_test_folder(), root))
    FAIL("%s", out);
  free(out);
  free(root);
}

TEST(bundle_tools, fix_index_after_repacking) {
  char *out;
  const char *f = kiln_test_folder();
  write_bundle("a.kb");
  // Another order, compressed, with another time.
  if (kiln_test_run(&out,
                    "cd %s && mkdir x && bsdtar -xf a.kb -C x && cd x && bsdtar --format=zip -cf ../re.zip "
                    "code KILN-INDEX",
                    f))
    FAIL("%s", out);
  free(out);
  expect(1, "inspect re.zip", "first member is not KILN-INDEX");
  free(tool(0, "fix-index -o b.kb re.zip"));
  expect_json(0, "diff --json a.kb b.kb", "d['same'] == 4 and d['changed'] == 0");
  // A changed member is found out, not made to look whole.
  if (kiln_test_run(&out,
                    "cd %s/x && printf X | dd of=code/gfx9.bin bs=1 seek=$(($(stat -c %%s code/gfx9.bin) - "
                    "1)) conv=notrunc 2>/dev/null && bsdtar --format=zip -cf ../bad.zip KILN-INDEX code",
                    f))
    FAIL("%s", out);
  free(out);
  expect(1, "fix-index -o c.kb bad.zip", "do not have the check of the index");
}

TEST(bundle_tools, header_compiles_and_launches) {
  static const char program[] =
      "#include <stdio.h>\n#include \"a.h\"\n"
      "int main(void) {\n  kiln_library *l; kiln_device *d; kiln_kernel *k; kiln_error err;\n"
      "  float x[100], y[100];\n  for (int i = 0; i < 100; i++) x[i] = (float)i, y[i] = 0;\n"
      "  if (kiln_open_file(\"a.kb\", &l, &err) || kiln_device_open(l, \"host\", &d, &err) || "
      "a_add_one_get(d, "
      "&k, &err) ||\n"
      "      a_add_one(k, NULL, x, y, 100, &err)) return printf(\"%s\\n\", err.text), 1;\n"
      "  printf(\"%g %g\\n\", (double)y[0], (double)y[99]);\n  kiln_device_close(d);\n  kiln_close(l);\n  "
      "return 0;\n}\n";
  char *out, *root = realpath(".", NULL);
  write_bundle("a.kb");
  free(tool(0, "prune --drop-kernel='scale[T=f32]' -o a.kb a.kb"));
  free(tool(0, "header -o a.h a.kb"));
  kiln_test_write(fixture_path("use.c"), program, sizeof program - 1);
  if (kiln_test_run(&out,
                    "cd %s && c=\"-Wall -Wextra -pedantic -Werror -I%s\" && gcc -std=c11 $c -c use.c -o "
                    "use.o && g++ -std=c++17 $c -x c++ -fsyntax-only use.c && "
                    "if [ -e %s/%s/lib/libkiln.so.0 ]; then gcc " KILN_TEST_COMPILE
                    " use.o %s/%s/lib/libkiln.so.0 "
                    "-Wl,-rpath,%s/%s/lib -o use && ./use; else echo no library; fi",
                    kiln_test_folder(), root, root, kiln_test_build(), root, kiln_test_build(), root,
                    kiln_test_build()))
    FAIL("%s", out);
  if (strstr(out, "no library")) SKIP("libkiln.so.0 is not built");
  CHECK_TEXT(out, "1 100\n");
  free(out);
  free(root);
}
