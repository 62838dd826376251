// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads target names, writes their canonical form, and gives LLVM's names for the same machine.
//
//   name     = processor { ":" setting }          host = x86-64-v3
//   setting  = xnack+ | xnack- | sramecc+ | sramecc- | wave32 | wave64 | v4 | v5 | v6        AMDGPU only
//   native   = "native" | "native:" cpu ":" 16 hex digits of its feature list
//
// Canonical: settings in alphabetical order, defaults left out; native always with processor and digits.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/nearest.h"
#include "targets/native_cpu.h"
#include "targets/targets.h"

// ------------------------------------------------------------------------------------------ errors

static void append(char *out, size_t capacity, const char *text) {
  size_t used = strlen(out);
  snprintf(out + used, capacity - used, "%s", text);
}

static kiln_status refuse_processor(const char *name, size_t length, kiln_error *err) {
  char list[900] = "", wanted[64];
  snprintf(wanted, sizeof wanted, "%.*s", (int)length, name);
  kiln_nearest n = kiln_nearest_to(wanted);
  if (kiln_same_digits(wanted, "host")) kiln_nearest_consider(&n, "host");
  for (size_t i = 0; i < kiln_processor_count(); i++)
    if (kiln_same_digits(wanted, kiln_processor_at(i)->name))
      kiln_nearest_consider(&n, kiln_processor_at(i)->name);
  if (n.best)
    return kiln_fail(err, KILN_STATUS_TARGET, "no target is called '%s'; did you mean '%s'?", wanted, n.best);
  for (size_t i = 0; i < kiln_processor_count(); i++) {
    if (i) append(list, sizeof list, ", ");
    append(list, sizeof list, kiln_processor_at(i)->name);
  }
  return kiln_fail(err, KILN_STATUS_TARGET, "no target is called '%.*s'; there are host, %s",
                   (int)(length > 60 ? 60 : length), name, list);
}

static kiln_status refuse_setting(const kiln_processor *p, const char *text, size_t length,
                                  const char *expected, kiln_error *err) {
  return kiln_fail(err, KILN_STATUS_TARGET, "%s: expected %s, found '%.*s'", p->name, expected,
                   (int)(length > 40 ? 40 : length), text);
}

// ---------------------------------------------------------------------------------------- settings

typedef enum setting_kind { SET_XNACK, SET_SRAMECC, SET_WAVE, SET_VERSION } setting_kind;
static const struct {
  char text[10];
  uint8_t kind, value; // setting_kind
} settings[] = {
    {"sramecc+", SET_SRAMECC, KILN_MODE_ON},
    {"sramecc-", SET_SRAMECC, KILN_MODE_OFF},
    {"v4", SET_VERSION, 4},
    {"v5", SET_VERSION, 5},
    {"v6", SET_VERSION, 6},
    {"wave32", SET_WAVE, 32},
    {"wave64", SET_WAVE, 64},
    {"xnack+", SET_XNACK, KILN_MODE_ON},
    {"xnack-", SET_XNACK, KILN_MODE_OFF},
};
enum { SETTING_COUNT = sizeof settings / sizeof *settings };

// What the processor lacks for this setting, or NULL.
static const char *setting_refusal(const kiln_processor *p, setting_kind kind, unsigned value) {
  switch (kind) {
  case SET_XNACK: return p->has_xnack ? NULL : "no xnack setting (it has none)";
  case SET_SRAMECC: return p->has_sramecc ? NULL : "no sramecc setting (it has none)";
  case SET_WAVE:
    return p->waves & (value == 32 ? 1 : 2) ? NULL
           : p->waves == 2                  ? "wave64 (its only wave size)"
                                            : "wave32 (code is made for no other)";
  case SET_VERSION: return p->generic_version && value < 6 ? "v6 (generic targets need code object 6)" : NULL;
  }
  return NULL;
}

static void apply_setting(kiln_target *t, setting_kind kind, unsigned value) {
  switch (kind) {
  case SET_XNACK: t->xnack = (kiln_mode)value; return;
  case SET_SRAMECC: t->sramecc = (kiln_mode)value; return;
  case SET_WAVE: t->wave = (uint8_t)value; return;
  case SET_VERSION: t->code_object = (uint8_t)value; return;
  }
}

static kiln_status read_setting(kiln_target *t, const char *text, size_t length, unsigned *seen,
                                kiln_error *err) {
  for (size_t i = 0; i < SETTING_COUNT; i++) {
    if (strlen(settings[i].text) != length || memcmp(settings[i].text, text, length) != 0) continue;
    const char *refusal = setting_refusal(t->processor, settings[i].kind, settings[i].value);
    if (refusal) return refuse_setting(t->processor, text, length, refusal, err);
    if (*seen >> settings[i].kind & 1)
      return refuse_setting(t->processor, text, length, "each setting once", err);
    *seen |= 1u << settings[i].kind;
    apply_setting(t, settings[i].kind, settings[i].value);
    return KILN_OK;
  }
  return refuse_setting(t->processor, text, length,
                        "xnack+, xnack-, sramecc+, sramecc-, wave32, wave64, v4, v5 or v6", err);
}

// ------------------------------------------------------------------------------------------ native

static void native_digits(const char *features, char out[17]) {
  kiln_check check = kiln_check_of(features, strlen(features));
  for (int i = 0; i < 8; i++) snprintf(out + 2 * i, 3, "%02x", check.bytes[i]);
}

// A native target that was made on another machine keeps its name; its features read "?digits", which no
// device has.
static kiln_status read_native(kiln_target *t, const char *rest, kiln_error *err) {
  char digits[17];
  t->processor = kiln_native_processor();
  snprintf(t->native_cpu, sizeof t->native_cpu, "%s", kiln_host_processor_of(t->processor)->cpu);
  kiln_native_features(t->native_features);
  if (!rest[0]) return KILN_OK;
  size_t cpu = strcspn(rest + 1, ":");
  const char *wanted = rest + 1 + cpu;
  if (rest[0] != ':' || !cpu || cpu >= sizeof t->native_cpu || strlen(wanted) != 17 ||
      strspn(wanted + 1, "0123456789abcdef") != 16)
    return kiln_fail(err, KILN_STATUS_TARGET,
                     "native: expected native or native:CPU:DIGITS (16 hex digits), found 'native%.60s'",
                     rest);
  native_digits(t->native_features, digits);
  if (strncmp(rest + 1, t->native_cpu, cpu) == 0 && t->native_cpu[cpu] == 0 &&
      strcmp(wanted + 1, digits) == 0)
    return KILN_OK;
  snprintf(t->native_cpu, sizeof t->native_cpu, "%.*s", (int)cpu, rest + 1);
  snprintf(t->native_features, sizeof t->native_features, "?%s", wanted + 1);
  return KILN_OK;
}

static void native_name(const kiln_target *t, char out[KILN_TARGET_NAME]) {
  char digits[17];
  if (t->native_features[0] == '?') snprintf(digits, sizeof digits, "%.16s", t->native_features + 1);
  else native_digits(t->native_features, digits);
  snprintf(out, KILN_TARGET_NAME, "native:%s:%s", t->native_cpu, digits);
}

// ------------------------------------------------------------------------------------- parse, name

static kiln_status read_settings(kiln_target *t, const char *at, kiln_error *err) {
  unsigned seen = 0;
  while (*at) {
    size_t length = strcspn(++at, ":");
    if (!t->processor->code_object) return refuse_setting(t->processor, at, length, "no settings", err);
    KILN_TRY(read_setting(t, at, length, &seen, err));
    at += length;
  }
  return KILN_OK;
}

kiln_status kiln_target_parse(const char *text, kiln_target *out, kiln_error *err) {
  memset(out, 0, sizeof *out);
  size_t length = strcspn(text, ":");
  bool is_host = length == 4 && memcmp(text, "host", 4) == 0;
  kiln_target t = {.processor =
                       is_host ? kiln_processor_find("x86-64-v3", 9) : kiln_processor_find(text, length)};
  if (!t.processor) return refuse_processor(text, length, err);
  t.wave = t.processor->wave;
  t.code_object = t.processor->code_object;
  bool is_native = length == 6 && memcmp(text, "native", 6) == 0;
  KILN_TRY(is_native ? read_native(&t, text + length, err) : read_settings(&t, text + length, err));
  *out = t;
  return KILN_OK;
}

static bool is_set(const kiln_target *t, setting_kind kind, unsigned value) {
  switch (kind) {
  case SET_XNACK: return t->xnack == value;
  case SET_SRAMECC: return t->sramecc == value;
  case SET_WAVE: return t->wave == value && value != t->processor->wave;
  case SET_VERSION: return t->code_object == value && value != t->processor->code_object;
  }
  return false;
}

const char *kiln_target_name(const kiln_target *target, char out[KILN_TARGET_NAME]) {
  if (target->native_cpu[0]) {
    native_name(target, out);
    return out;
  }
  snprintf(out, KILN_TARGET_NAME, "%s", target->processor->name);
  for (size_t i = 0; target->processor->code_object && i < SETTING_COUNT; i++) {
    if (!is_set(target, settings[i].kind, settings[i].value)) continue;
    append(out, KILN_TARGET_NAME, ":");
    append(out, KILN_TARGET_NAME, settings[i].text);
  }
  return out;
}

// -------------------------------------------------------------------------------------------- LLVM

// Of families that have one for all of their processors.
static const char *const triples[KILN_FAMILY_COUNT] = {
    [KILN_FAMILY_NVPTX] = "nvptx64-nvidia-cuda", [KILN_FAMILY_AMDGPU] = "amdgcn-amd-amdhsa"};

const char *kiln_target_triple(const kiln_target *target) {
  const kiln_processor *p = target->processor;
  if (triples[p->family]) return triples[p->family];
  return !strcmp(kiln_host_processor_of(p)->arch, "aarch64") ? "aarch64-unknown-linux-gnu"
                                                             : "x86_64-unknown-linux-gnu";
}

const char *kiln_target_cpu(const kiln_target *target) {
  const kiln_processor *p = target->processor;
  const char *cpu = target->native_cpu[0] ? target->native_cpu : kiln_host_processor_of(p)->cpu;
  return cpu[0] ? cpu : p->name;
}

static void add_feature(char *out, const char *sign, const char *name) {
  if (out[0]) append(out, KILN_TARGET_FEATURES + 64, ",");
  append(out, KILN_TARGET_FEATURES + 64, sign);
  append(out, KILN_TARGET_FEATURES + 64, name);
}

static const char *mode_sign(kiln_mode mode) { return mode == KILN_MODE_ON ? "+" : "-"; }

const char *kiln_target_features(const kiln_target *target, char out[KILN_TARGET_FEATURES + 64]) {
  const kiln_processor *p = target->processor;
  out[0] = 0;
  if (p->ptx) snprintf(out, KILN_TARGET_FEATURES + 64, "+ptx%u", p->ptx);
  if (target->native_features[0]) add_feature(out, "", target->native_features);
  const char *features = kiln_host_processor_of(p)->features;
  if (features[0]) add_feature(out, "", features);
  if (target->sramecc != KILN_MODE_ANY) add_feature(out, mode_sign(target->sramecc), "sramecc");
  if (target->wave != p->wave)
    add_feature(out, "+", target->wave == 64 ? "wavefrontsize64" : "wavefrontsize32");
  if (target->xnack != KILN_MODE_ANY) add_feature(out, mode_sign(target->xnack), "xnack");
  return out;
}
