// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests which code runs on which device: every rule once accepted and once refused, with the words of the
// refusal.
#include <string.h>

#include "targets/targets.h"
#include "tests/harness.h"

typedef struct rank_case {
  const char *code;
  bool is_ptx;
  const char *device;
  unsigned rank;
  const char *rule; // part of it, when refused
} rank_case;

static kiln_device_target device_of(const char *text) {
  kiln_device_target d;
  kiln_error err = {0};
  CHECK_OK(kiln_device_target_parse(text, &d, &err), err);
  return d;
}

static unsigned rank_of(const char *code, bool is_ptx, const kiln_device_target *device,
                        char rule[KILN_RULE_TEXT]) {
  kiln_target t;
  kiln_error err = {0};
  CHECK_OK(kiln_target_parse(code, &t, &err), err);
  return kiln_target_rank(&t, is_ptx, device, rule);
}

static void check_cases(const rank_case *cases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char rule[KILN_RULE_TEXT] = "?";
    kiln_device_target d = device_of(cases[i].device);
    unsigned rank = rank_of(cases[i].code, cases[i].is_ptx, &d, rule);
    if (rank != cases[i].rank)
      FAIL("%s%s on %s: rank %u (%s), expected %u", cases[i].code, cases[i].is_ptx ? " (PTX)" : "",
           cases[i].device, rank, rule, cases[i].rank);
    if (rank != KILN_RANK_REFUSED) CHECK_TEXT(rule, "");
    else if (!strstr(rule, cases[i].rule))
      FAIL("%s on %s: '%s', expected '%s' in it", cases[i].code, cases[i].device, rule, cases[i].rule);
  }
}

TEST(target_rank, nvidia) {
  static const rank_case cases[] = {
      {"sm_90", false, "sm_90", KILN_RANK_EXACT, ""},
      {"sm_90a", false, "sm_90", KILN_RANK_EXACT_MODES, ""},
      {"sm_80", false, "sm_86", KILN_RANK_SAME_MAJOR, ""},
      {"sm_86", false, "sm_89", KILN_RANK_SAME_MAJOR, ""},
      {"sm_80", false, "sm_89", KILN_RANK_FAMILY, ""},
      {"sm_89", false, "sm_86", KILN_RANK_REFUSED, "code needs capability 89, the device has 86"},
      {"sm_89", false, "sm_90", KILN_RANK_REFUSED,
       "capability differs in the major number: code 89, device 90"},
      {"sm_90a", false, "sm_100", KILN_RANK_REFUSED, "sm_90a runs on capability 90 only, the device has 100"},
      {"sm_86", false, "sm_87", KILN_RANK_REFUSED,
       "embedded modules need their own code: code 86, device 87"},
      {"sm_87", false, "sm_89", KILN_RANK_REFUSED,
       "embedded modules need their own code: code 87, device 89"},
      {"sm_87", false, "sm_87", KILN_RANK_EXACT, ""},
      {"sm_70", true, "sm_90", KILN_RANK_PTX, ""},
      {"sm_90", true, "sm_120", KILN_RANK_PTX, ""},
      {"sm_90", true, "sm_89", KILN_RANK_REFUSED, "PTX for sm_90 needs capability 90, the device has 89"},
      {"sm_90a", true, "sm_100", KILN_RANK_REFUSED,
       "PTX for sm_90a runs on capability 90 only, the device has 100"},
      // CUDA's rules of family-specific and architecture-specific code.
      {"sm_100a", false, "sm_100", KILN_RANK_EXACT_MODES, ""},
      {"sm_100f", false, "sm_100", KILN_RANK_EXACT, ""},
      {"sm_100", false, "sm_100", KILN_RANK_EXACT, ""},
      {"sm_100f", false, "sm_103", KILN_RANK_GENERIC, ""},
      {"sm_100", false, "sm_103", KILN_RANK_SAME_MAJOR, ""},
      {"sm_103f", false, "sm_103", KILN_RANK_EXACT, ""},
      {"sm_120f", false, "sm_121", KILN_RANK_GENERIC, ""},
      {"sm_120", false, "sm_121", KILN_RANK_SAME_MAJOR, ""},
      {"sm_110f", false, "sm_110", KILN_RANK_EXACT, ""},
      {"sm_100a", false, "sm_103", KILN_RANK_REFUSED,
       "sm_100a runs on capability 100 only, the device has 103"},
      {"sm_103f", false, "sm_100", KILN_RANK_REFUSED,
       "sm_103f runs in its family only, from capability 103 on, the device has 100"},
      {"sm_100f", false, "sm_110", KILN_RANK_REFUSED,
       "sm_100f runs in its family only, from capability 100 on, the device has 110"},
      {"sm_100f", false, "sm_120", KILN_RANK_REFUSED, "runs in its family only"},
      {"sm_121f", false, "sm_120", KILN_RANK_REFUSED, "from capability 121 on"},
      {"sm_103", false, "sm_100", KILN_RANK_REFUSED, "code needs capability 103, the device has 100"},
      {"sm_100", false, "sm_120", KILN_RANK_REFUSED, "capability differs in the major number"},
      {"sm_100", false, "sm_101", KILN_RANK_REFUSED, "embedded modules need their own code"},
      {"sm_100f", true, "sm_103", KILN_RANK_PTX, ""},
      {"sm_100f", true, "sm_120", KILN_RANK_REFUSED, "PTX for sm_100f runs in its family only"},
      {"sm_120a", true, "sm_121", KILN_RANK_REFUSED, "PTX for sm_120a runs on capability 120 only"},
      {"sm_100", true, "sm_120", KILN_RANK_PTX, ""},
      {"sm_88", false, "sm_89", KILN_RANK_REFUSED, "embedded modules need their own code"},
      {"sm_90", false, "gfx1100", KILN_RANK_REFUSED, "code is for NVIDIA, the device is AMD"},
  };
  check_cases(cases, sizeof cases / sizeof *cases);
}

TEST(target_rank, ptx_isa_of_the_driver) {
  kiln_device_target d = device_of("sm_90");
  char rule[KILN_RULE_TEXT];
  d.driver_ptx = 79;
  CHECK_INT(rank_of("sm_87", true, &d, rule), KILN_RANK_PTX);
  CHECK_INT(rank_of("sm_90a", true, &d, rule), KILN_RANK_REFUSED);
  CHECK_TEXT(rule, "PTX ISA 8.4 is newer than the driver's 7.9");
}

TEST(target_rank, amd) {
  static const rank_case cases[] = {
      {"gfx942", false, "gfx942:sramecc+:xnack-", KILN_RANK_EXACT, ""},
      {"gfx942:xnack-", false, "gfx942:sramecc+:xnack-", KILN_RANK_EXACT_MODES, ""},
      {"gfx942:sramecc+:xnack-", false, "gfx942:sramecc+:xnack-", KILN_RANK_EXACT_MODES, ""},
      {"gfx942:xnack+", false, "gfx942:sramecc+:xnack-", KILN_RANK_REFUSED,
       "xnack differs: code on, device off"},
      {"gfx942:sramecc-", false, "gfx942:sramecc+:xnack-", KILN_RANK_REFUSED,
       "sramecc differs: code off, device on"},
      {"gfx942:xnack-", false, "gfx942", KILN_RANK_REFUSED, "xnack differs: code off, device not reported"},
      {"gfx1100", false, "gfx1100", KILN_RANK_EXACT, ""},
      {"gfx1100:wave64", false, "gfx1100", KILN_RANK_EXACT, ""},
      {"gfx1100", false, "gfx1101", KILN_RANK_REFUSED, "processor differs: code gfx1100, device gfx1101"},
      {"gfx11-generic", false, "gfx1151", KILN_RANK_GENERIC, ""},
      {"gfx11-generic", false, "gfx1201", KILN_RANK_REFUSED,
       "gfx11-generic code does not run on gfx1201, whose generic target is gfx12-generic"},
      {"gfx9-generic", false, "gfx90a:sramecc+:xnack-", KILN_RANK_REFUSED, "whose generic target is none"},
      {"gfx9-generic", false, "gfx906:sramecc-:xnack-", KILN_RANK_GENERIC, ""},
      {"gfx9-generic:xnack+", false, "gfx906:sramecc-:xnack-", KILN_RANK_REFUSED,
       "xnack differs: code on, device off"},
      {"gfx9-4-generic", false, "gfx942:sramecc+:xnack-", KILN_RANK_GENERIC, ""},
      {"gfx9-4-generic", false, "gfx950:sramecc+:xnack-", KILN_RANK_GENERIC, ""},
      {"gfx9-4-generic", false, "gfx90a:sramecc+:xnack-", KILN_RANK_REFUSED, "whose generic target is none"},
      {"gfx942", false, "gfx950:sramecc+:xnack-", KILN_RANK_REFUSED, "processor differs"},
      {"gfx10-1-generic:xnack-", false, "gfx1012:xnack-", KILN_RANK_GENERIC, ""},
      {"gfx12-generic", false, "gfx1250", KILN_RANK_REFUSED, "whose generic target is none"},
      {"gfx11-generic", false, "gfx1153", KILN_RANK_GENERIC, ""},
      {"gfx11-generic", false, "gfx1199", KILN_RANK_REFUSED, "gfx1199 is not in the table of processors"},
      {"gfx1100", false, "x86-64-v3", KILN_RANK_REFUSED, "code is for AMD, the device is the host"},
  };
  check_cases(cases, sizeof cases / sizeof *cases);
}

TEST(target_rank, host) {
  static const rank_case cases[] = {
      {"x86-64-v3", false, "x86-64-v3", KILN_RANK_EXACT, ""},
      {"x86-64-v3", false, "x86-64-v4", KILN_RANK_SAME_MAJOR, ""},
      {"x86-64-v2", false, "x86-64-v4", KILN_RANK_FAMILY, ""},
      {"x86-64-v4", false, "x86-64-v3", KILN_RANK_REFUSED,
       "code needs x86-64 level 4, this processor has level 3"},
      {"aarch64", false, "x86-64-v3", KILN_RANK_REFUSED, "architecture differs: code aarch64, device x86-64"},
      {"x86-64-v2", false, "aarch64", KILN_RANK_REFUSED,
       "architecture differs: code x86-64-v2, device aarch64"},
      {"aarch64", false, "aarch64", KILN_RANK_EXACT, ""},
  };
  check_cases(cases, sizeof cases / sizeof *cases);
}

TEST(target_rank, devices_are_read) {
  CHECK_INT(device_of("sm_120").number, 120);
  CHECK_INT(device_of("gfx90a").number, 0x90a);
  CHECK_INT(device_of("gfx1201").number, 0xc01);
  CHECK_INT(device_of("gfx942:sramecc+:xnack-").sramecc, KILN_MODE_ON);
  CHECK_INT(device_of("gfx942:sramecc+:xnack-").xnack, KILN_MODE_OFF);
  CHECK_INT(device_of("host").family, KILN_FAMILY_HOST);
  CHECK(strncmp(device_of("native").name, "native:", 7) == 0);
}

TEST(target_rank, damaged_device_names_are_refused) {
  static const char *const texts[] = {
      "",
      "sm_",
      "sm_x",
      "sm_0",
      "sm_9999",
      "sm_90b",
      "gfx",
      "gfx9",
      "gfxabcd",
      "gfx1100:fast",
      "gfx942:xnack",
      "gfx11-generic",
      "riscv",
      "gfx99999999",
      "gfx942:xnack-:xnack-:xnack-:xnack-:xnack-:xnack-:xnack-:xnack-:xnack-:xnack-:xnack-:xnack-"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    kiln_device_target d;
    kiln_error err = {0};
    if (kiln_device_target_parse(texts[i], &d, &err) != KILN_STATUS_TARGET)
      FAIL("'%s' was read as a device", texts[i]);
    CHECK(strstr(err.text, "expected sm_NUMBER"));
  }
}

// Of what runs on a device the closest is taken: what is made for it alone, then with its family, then plain.
TEST(target_rank, order_of_suffixes) {
  static const char *const best_first[] = {"sm_103a", "sm_103f", "sm_100f", "sm_100"};
  kiln_device_target d = device_of("sm_103");
  char rule[KILN_RULE_TEXT];
  for (size_t i = 1; i < sizeof best_first / sizeof *best_first; i++)
    CHECK(rank_of(best_first[i - 1], false, &d, rule) < rank_of(best_first[i], false, &d, rule));
}

// Rules as laws over the whole table, not as examples.
TEST(target_rank, laws_over_the_table) {
  for (size_t i = 0; i < kiln_processor_count(); i++) {
    const kiln_processor *p = kiln_processor_at(i);
    char rule[KILN_RULE_TEXT];
    kiln_target t;
    CHECK(kiln_target_parse(p->name, &t, NULL) == KILN_OK);
    if (p->generic_version) continue;
    char device_name[64];
    size_t length = strlen(p->name);
    memcpy(device_name, p->name, length + 1);
    if (p->reach != KILN_REACH_ONWARD) device_name[length - 1] = 0;
    kiln_device_target own = device_of(device_name);
    CHECK(kiln_target_rank(&t, false, &own, rule) <= KILN_RANK_EXACT); // code runs on what it was made for
    for (size_t j = 0; j < kiln_processor_count(); j++) {
      kiln_target other;
      CHECK(kiln_target_parse(kiln_processor_at(j)->name, &other, NULL) == KILN_OK);
      unsigned rank = kiln_target_rank(&other, false, &own, rule);
      CHECK(rank == KILN_RANK_REFUSED || rank <= KILN_RANK_PTX);
      CHECK((rank == KILN_RANK_REFUSED) == (rule[0] != 0)); // a refusal always has a reason
      if (kiln_processor_at(j)->family != p->family) CHECK_INT(rank, KILN_RANK_REFUSED);
    }
  }
}

/// The row of the generic target of the same major number with the largest minor number that is not above the
/// processor's.
static const kiln_processor *nearest_generic(const kiln_processor *p) {
  const kiln_processor *best = NULL;
  for (size_t i = 0; i < kiln_processor_count(); i++) {
    const kiln_processor *g = kiln_processor_at(i);
    if (g->generic_version && g->major == p->major && g->minor <= p->minor &&
        (!best || g->minor > best->minor))
      best = g;
  }
  return best;
}

TEST(target_rank, generic_targets_are_of_the_same_instruction_set) {
  unsigned rows = 0;
  for (size_t i = 0; i < kiln_processor_count(); i++) {
    const kiln_processor *p = kiln_processor_at(i), *g = nearest_generic(p);
    if (p->family != KILN_FAMILY_AMDGPU || !p->generic) continue; // some have none
    if (!g || strcmp(kiln_generic_of(p), g->name))
      FAIL("%s: expected %s, found %s", p->name, g ? g->name : "no generic target", kiln_generic_of(p));
    rows++;
  }
  CHECK(rows > 20);
}
