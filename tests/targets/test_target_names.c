// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests target names: what is accepted, its canonical form, what LLVM is told, and the words of refusals.
#include <string.h>

#include "targets/targets.h"
#include "tests/harness.h"

static kiln_target parse(const char *text) {
  kiln_target t;
  kiln_error err = {0};
  CHECK_OK(kiln_target_parse(text, &t, &err), err);
  return t;
}

TEST(target_names, every_processor_reads_back) {
  CHECK(kiln_processor_count() > 25);
  for (size_t i = 0; i < kiln_processor_count(); i++) {
    const kiln_processor *p = kiln_processor_at(i);
    char name[KILN_TARGET_NAME], again[KILN_TARGET_NAME];
    kiln_target t = parse(p->name), u = parse(kiln_target_name(&t, name));
    CHECK_TEXT(kiln_target_name(&u, again), name);
    CHECK(memcmp(&t, &u, sizeof t) == 0);
    CHECK(kiln_processor_find(p->name, strlen(p->name)) == p);
    if (strcmp(p->name, "native") != 0) CHECK_TEXT(name, p->name);
  }
  CHECK(kiln_processor_at(kiln_processor_count()) == NULL);
}

TEST(target_names, canonical_forms) {
  static const struct {
    const char *text, *canonical;
  } cases[] = {
      {"host", "x86-64-v3"},
      {"gfx942:xnack-:sramecc+", "gfx942:sramecc+:xnack-"},
      {"gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-"},
      {"gfx1100:wave32", "gfx1100"},
      {"gfx1100:wave64", "gfx1100:wave64"},
      {"gfx906:v4", "gfx906:v4"},
      {"gfx906:v5", "gfx906"},
      {"gfx11-generic:v6", "gfx11-generic"},
      {"gfx1100:wave64:v6", "gfx1100:v6:wave64"},
      {"gfx9-generic:xnack+", "gfx9-generic:xnack+"},
      {"sm_90a", "sm_90a"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char name[KILN_TARGET_NAME];
    kiln_target t = parse(cases[i].text);
    CHECK_TEXT(kiln_target_name(&t, name), cases[i].canonical);
  }
}

TEST(target_names, refusals_say_what_was_expected) {
  static const struct {
    const char *text, *part;
  } cases[] = {
      {"sm_101", "no target is called 'sm_101'; there are host, sm_70,"},
      {"gfx951", "no target is called 'gfx951'"},
      {"", "no target is called ''"},
      {"gfx1100:xnack+", "gfx1100: expected no xnack setting (it has none), found 'xnack+'"},
      {"gfx1100:sramecc-", "gfx1100: expected no sramecc setting (it has none), found 'sramecc-'"},
      {"gfx1030:wave64", "gfx1030: expected wave32 (code is made for no other), found 'wave64'"},
      {"gfx90a:wave32", "gfx90a: expected wave64 (its only wave size), found 'wave32'"},
      {"gfx11-generic:v5", "gfx11-generic: expected v6 (generic targets need code object 6), found 'v5'"},
      {"sm_9", "x86-64-v4, aarch64, native"}, // the whole list
      {"gfx942:xnack+:xnack-", "gfx942: expected each setting once, found 'xnack-'"},
      {"gfx942:fast",
       "gfx942: expected xnack+, xnack-, sramecc+, sramecc-, wave32, wave64, v4, v5 or v6, found 'fast'"},
      {"gfx942:", "found ''"},
      {"sm_90:v5", "sm_90: expected no settings, found 'v5'"},
      {"native:x", "expected native or native:CPU:DIGITS"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kiln_target t;
    kiln_error err = {0};
    CHECK_INT(kiln_target_parse(cases[i].text, &t, &err), KILN_STATUS_TARGET);
    if (!strstr(err.text, cases[i].part))
      FAIL("'%s' gave '%s', expected '%s' in it", cases[i].text, err.text, cases[i].part);
  }
}

TEST(target_names, words_for_llvm) {
  static const struct {
    const char *text, *triple, *cpu, *features;
  } cases[] = {
      {"sm_90a", "nvptx64-nvidia-cuda", "sm_90a", "+ptx84"},
      {"sm_70", "nvptx64-nvidia-cuda", "sm_70", "+ptx63"},
      {"gfx942", "amdgcn-amd-amdhsa", "gfx942", ""},
      {"gfx942:xnack-:sramecc+", "amdgcn-amd-amdhsa", "gfx942", "+sramecc,-xnack"},
      {"gfx1100:wave64", "amdgcn-amd-amdhsa", "gfx1100", "+wavefrontsize64"},
      {"x86-64-v4", "x86_64-unknown-linux-gnu", "x86-64-v4", "-prefer-256-bit"},
      {"aarch64", "aarch64-unknown-linux-gnu", "generic", "+neon"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char features[KILN_TARGET_FEATURES + 64];
    kiln_target t = parse(cases[i].text);
    CHECK_TEXT(kiln_target_triple(&t), cases[i].triple);
    CHECK_TEXT(kiln_target_cpu(&t), cases[i].cpu);
    CHECK_TEXT(kiln_target_features(&t, features), cases[i].features);
  }
}

TEST(target_names, facts_of_targets) {
  kiln_target wide = parse("gfx1100:wave64"), mode = parse("gfx90a:xnack-"), sm = parse("sm_80"),
              host = parse("host");
  CHECK_INT(wide.wave, 64);
  CHECK_INT(wide.code_object, 5);
  CHECK_INT(mode.xnack, KILN_MODE_OFF);
  CHECK_INT(mode.sramecc, KILN_MODE_ANY);
  CHECK_INT(mode.processor->number, 0x90a);
  CHECK_INT(sm.wave, 32);
  CHECK_INT(sm.code_object, 0);
  CHECK_INT(host.wave, 1);
  CHECK_INT(parse("gfx12-generic").code_object, 6);
}

TEST(target_names, native_is_resolved) {
  kiln_target t = parse("native");
  char name[KILN_TARGET_NAME], features[KILN_TARGET_FEATURES + 64];
  kiln_target_name(&t, name);
  CHECK(strncmp(name, "native:", 7) == 0);
  CHECK(kiln_host_processor_of(t.processor)->arch[0] != 0 && t.processor->vector_bytes >= 16);
  // Sorted, and signed each.
  char list[KILN_TARGET_FEATURES];
  memcpy(list, t.native_features, sizeof list);
  const char *before = "";
  for (char *at = strtok(list, ","); at; at = strtok(NULL, ",")) {
    CHECK(at[0] == '+');
    CHECK(strcmp(before, at) < 0);
    before = at;
  }
  kiln_target_features(&t, features);
  CHECK(strncmp(features, t.native_features, strlen(t.native_features)) == 0);
}

TEST(target_names, native_of_another_machine_keeps_its_name_and_does_not_run) {
  static const char foreign[] = "native:x86-64-v4:0123456789abcdef";
  kiln_target t = parse(foreign);
  char name[KILN_TARGET_NAME], rule[KILN_RULE_TEXT];
  CHECK_TEXT(kiln_target_name(&t, name), foreign);
  kiln_device_target device;
  kiln_device_target_host(&device);
  CHECK_INT(kiln_target_rank(&t, false, &device, rule), KILN_RANK_REFUSED);
  CHECK(strstr(rule, "made for the machine native:x86-64-v4:0123456789abcdef, this is native:"));
  kiln_target here = parse("native");
  CHECK_INT(kiln_target_rank(&here, false, &device, rule), KILN_RANK_EXACT_MODES);
}
