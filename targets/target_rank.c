// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides which code runs on which device, and ranks how well it fits. Each refusal names the rule and both
// sides.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "targets/native_cpu.h"
#include "targets/targets.h"

// ----------------------------------------------------------------------------------------- devices

static kiln_status refuse_device(const char *text, kiln_error *err) {
  return kiln_fail(
      err, KILN_STATUS_TARGET,
      "device '%.60s': expected sm_NUMBER, gfxNUMBER with modes, host, native or an x86-64 level", text);
}

static kiln_status read_sm(const char *text, kiln_device_target *out, kiln_error *err) {
  char *end;
  unsigned long number = isdigit((unsigned char)text[3]) ? strtoul(text + 3, &end, 10) : 0;
  if (!number || number > 999 || (end[0] == 'a' || end[0] == 'f' ? end[1] : end[0]) != 0)
    return refuse_device(text, err);
  out->family = KILN_FAMILY_NVPTX;
  out->number = (uint16_t)number;
  return KILN_OK;
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// gfx MAJOR MINOR STEP: the last two digits are hexadecimal, what is before them decimal.
static bool read_gfx(const char *text, size_t length, uint16_t *out) {
  if (length < 6 || length > 7 || memcmp(text, "gfx", 3) != 0) return false;
  int major = 0, minor = hex_digit(text[length - 2]), step = hex_digit(text[length - 1]);
  for (size_t i = 3; i + 2 < length; i++) {
    if (!isdigit((unsigned char)text[i])) return false;
    major = major * 10 + text[i] - '0';
  }
  if (minor < 0 || step < 0) return false;
  *out = (uint16_t)(major << 8 | minor << 4 | step);
  return true;
}

static kiln_status read_modes(const char *text, const char *at, kiln_device_target *out, kiln_error *err) {
  while (*at) {
    size_t length = strcspn(++at, ":");
    char sign = length ? at[length - 1] : 0;
    kiln_mode *mode = length == 6 && memcmp(at, "xnack", 5) == 0     ? &out->xnack
                      : length == 8 && memcmp(at, "sramecc", 7) == 0 ? &out->sramecc
                                                                     : NULL;
    if (!mode || (sign != '+' && sign != '-')) return refuse_device(text, err);
    *mode = sign == '+' ? KILN_MODE_ON : KILN_MODE_OFF;
    at += length;
  }
  return KILN_OK;
}

void kiln_device_target_host(kiln_device_target *out) {
  kiln_target native;
  char name[KILN_TARGET_NAME];
  memset(out, 0, sizeof *out);
  out->family = KILN_FAMILY_HOST;
  out->level = kiln_native_processor()->level;
  if (kiln_target_parse("native", &native, NULL) == KILN_OK)
    snprintf(out->name, sizeof out->name, "%.63s", kiln_target_name(&native, name));
}

static kiln_status read_host(const char *text, kiln_device_target *out, kiln_error *err) {
  const kiln_processor *p = kiln_processor_find(text, strlen(text));
  if (!p || !kiln_host_processor_of(p)->cpu[0]) return refuse_device(text, err);
  out->family = KILN_FAMILY_HOST;
  out->level = p->level;
  return KILN_OK;
}

kiln_status kiln_device_target_parse(const char *text, kiln_device_target *out, kiln_error *err) {
  memset(out, 0, sizeof *out);
  if (strcmp(text, "host") == 0 || strcmp(text, "native") == 0) {
    kiln_device_target_host(out);
    return KILN_OK;
  }
  kiln_device_target d = {0};
  size_t length = strcspn(text, ":");
  if (snprintf(d.name, sizeof d.name, "%s", text) >= (int)sizeof d.name) return refuse_device(text, err);
  if (strncmp(text, "sm_", 3) == 0) KILN_TRY(read_sm(text, &d, err));
  else if (strncmp(text, "gfx", 3) == 0) {
    if (!read_gfx(text, length, &d.number)) return refuse_device(text, err);
    d.family = KILN_FAMILY_AMDGPU;
    KILN_TRY(read_modes(text, text + length, &d, err));
  } else KILN_TRY(read_host(text, &d, err));
  *out = d;
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------- rules

static unsigned refuse(char out_rule[KILN_RULE_TEXT], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static unsigned refuse(char out_rule[KILN_RULE_TEXT], const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(out_rule, KILN_RULE_TEXT, format, list);
  va_end(list);
  return KILN_RANK_REFUSED;
}

// Modules for embedded use: machine code moves neither to nor from them (CUDA compatibility guide).
static bool is_embedded(unsigned number) {
  static const uint16_t numbers[] = {53, 62, 72, 87, 88, 101, 110};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (numbers[i] == number) return true;
  return false;
}

// The family of a capability is its major version from there on; embedded modules are families of their own.
static bool is_in_family(const kiln_processor *p, unsigned number) {
  if (p->number == number) return true;
  return p->number / 10 == number / 10 && p->number < number && !is_embedded(p->number) &&
         !is_embedded(number);
}

// Writes the rule when code of that reach does not run there, whatever its form.
static bool is_reached(const kiln_processor *p, const kiln_device_target *d, const char *form,
                       char out_rule[KILN_RULE_TEXT]) {
  if (p->reach == KILN_REACH_ALONE && p->number != d->number)
    refuse(out_rule, "%s%s runs on capability %u only, the device has %u", form, p->name, p->number,
           d->number);
  else if (p->reach == KILN_REACH_FAMILY && !is_in_family(p, d->number))
    refuse(out_rule, "%s%s runs in its family only, from capability %u on, the device has %u", form, p->name,
           p->number, d->number);
  else return true;
  return false;
}

static unsigned rank_ptx(const kiln_processor *p, const kiln_device_target *d,
                         char out_rule[KILN_RULE_TEXT]) {
  if (!is_reached(p, d, "PTX for ", out_rule)) return KILN_RANK_REFUSED;
  if (p->number > d->number)
    return refuse(out_rule, "PTX for %s needs capability %u, the device has %u", p->name, p->number,
                  d->number);
  if (d->driver_ptx && p->ptx > d->driver_ptx)
    return refuse(out_rule, "PTX ISA %u.%u is newer than the driver's %u.%u", p->ptx / 10, p->ptx % 10,
                  d->driver_ptx / 10, d->driver_ptx % 10);
  return KILN_RANK_PTX;
}

// True when the table knows a capability between the code's and the device's: that code would fit better.
static bool has_nearer(const kiln_processor *p, const kiln_device_target *d) {
  for (size_t i = 0; i < kiln_processor_count(); i++) {
    const kiln_processor *q = kiln_processor_at(i);
    if (q->family == p->family && !is_embedded(q->number) && q->number > p->number && q->number < d->number)
      return true;
  }
  return false;
}

static unsigned rank_cubin(const kiln_processor *p, const kiln_device_target *d,
                           char out_rule[KILN_RULE_TEXT]) {
  if (!is_reached(p, d, "", out_rule)) return KILN_RANK_REFUSED;
  if (p->number == d->number) return p->reach == KILN_REACH_ALONE ? KILN_RANK_EXACT_MODES : KILN_RANK_EXACT;
  if (p->reach == KILN_REACH_FAMILY) return KILN_RANK_GENERIC;
  if (p->number / 10 != d->number / 10)
    return refuse(out_rule, "capability differs in the major number: code %u, device %u", p->number,
                  d->number);
  if (is_embedded(p->number) || is_embedded(d->number))
    return refuse(out_rule, "embedded modules need their own code: code %u, device %u", p->number, d->number);
  if (p->number > d->number)
    return refuse(out_rule, "code needs capability %u, the device has %u", p->number, d->number);
  return has_nearer(p, d) ? KILN_RANK_FAMILY : KILN_RANK_SAME_MAJOR;
}

static const char *mode_text(kiln_mode mode) {
  return mode == KILN_MODE_ON ? "on" : mode == KILN_MODE_OFF ? "off" : "not reported";
}

// Sets *rank to refused when a mode that the code was made for is not the device's.
static bool mode_fits(const char *name, kiln_mode code, kiln_mode device, char out_rule[KILN_RULE_TEXT]) {
  if (code == KILN_MODE_ANY || code == device) return true;
  refuse(out_rule, "%s differs: code %s, device %s", name, mode_text(code), mode_text(device));
  return false;
}

static const kiln_processor *amd_row(unsigned number) {
  for (size_t i = 0; i < kiln_processor_count(); i++) {
    const kiln_processor *p = kiln_processor_at(i);
    if (p->major && !p->generic_version && p->number == number) return p;
  }
  return NULL;
}

static unsigned rank_nvptx(const kiln_target *code, bool is_ptx, const kiln_device_target *d,
                           char out_rule[KILN_RULE_TEXT]) {
  return (is_ptx ? rank_ptx : rank_cubin)(code->processor, d, out_rule);
}

static unsigned rank_amdgpu(const kiln_target *code, bool is_ptx, const kiln_device_target *d,
                            char out_rule[KILN_RULE_TEXT]) {
  (void)is_ptx;
  const kiln_processor *p = code->processor, *row = amd_row(d->number);
  bool exact = !p->generic_version && p->number == d->number;
  if (!exact && !p->generic_version)
    return refuse(out_rule, "processor differs: code %s, device %s", p->name, d->name);
  if (!exact && !row)
    return refuse(out_rule, "%s is not in the table of processors, so no generic code is known to run on it",
                  d->name);
  if (!exact && strcmp(kiln_generic_of(row), p->name) != 0)
    return refuse(out_rule, "%s code does not run on %s, whose generic target is %s", p->name, d->name,
                  row->generic ? kiln_generic_of(row) : "none");
  if (!mode_fits("xnack", code->xnack, d->xnack, out_rule) ||
      !mode_fits("sramecc", code->sramecc, d->sramecc, out_rule))
    return KILN_RANK_REFUSED;
  if (!exact) return KILN_RANK_GENERIC;
  return code->xnack != KILN_MODE_ANY || code->sramecc != KILN_MODE_ANY ? KILN_RANK_EXACT_MODES
                                                                        : KILN_RANK_EXACT;
}

static unsigned rank_host(const kiln_target *code, bool is_ptx, const kiln_device_target *d,
                          char out_rule[KILN_RULE_TEXT]) {
  (void)is_ptx;
  const kiln_processor *p = code->processor;
  char name[KILN_TARGET_NAME];
  if (code->native_cpu[0]) {
    kiln_target_name(code, name);
    return strcmp(name, d->name) == 0
               ? KILN_RANK_EXACT_MODES
               : refuse(out_rule, "made for the machine %s, this is %s", name, d->name);
  }
  if ((p->level == 0) != (d->level == 0))
    return refuse(out_rule, "architecture differs: code %s, device %s", p->name,
                  d->level ? "x86-64" : "aarch64");
  if (p->level > d->level)
    return refuse(out_rule, "code needs x86-64 level %u, this processor has level %u", p->level, d->level);
  return p->level == d->level       ? KILN_RANK_EXACT
         : p->level + 1 == d->level ? KILN_RANK_SAME_MAJOR
                                    : KILN_RANK_FAMILY;
}

static unsigned (*const ranks[KILN_FAMILY_COUNT])(const kiln_target *code, bool is_ptx,
                                                  const kiln_device_target *device,
                                                  char out_rule[KILN_RULE_TEXT]) = {
    [KILN_FAMILY_HOST] = rank_host, [KILN_FAMILY_NVPTX] = rank_nvptx, [KILN_FAMILY_AMDGPU] = rank_amdgpu};

unsigned kiln_target_rank(const kiln_target *code, bool is_ptx, const kiln_device_target *device,
                          char out_rule[KILN_RULE_TEXT]) {
  const kiln_processor *p = code->processor;
  out_rule[0] = 0;
  if (p->family != device->family)
    return refuse(out_rule, "code is for %s, the device is %s", kiln_family_of(p->family)->maker,
                  kiln_family_of(device->family)->maker);
  return ranks[p->family](code, is_ptx, device, out_rule);
}
