// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Describes a code by a few numbers, and writes, reads and compares such descriptions.
#include "tools/common/code_metrics.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"

// The size of all executable sections; 0 if it is not a complete ELF file.
static uint64_t run_bytes(const uint8_t *bytes, size_t size) {
  Elf64_Ehdr header;
  Elf64_Shdr section;
  uint64_t sum = 0;
  if (size < sizeof header) return 0;
  memcpy(&header, bytes, sizeof header);
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return 0;
  for (uint64_t i = 0; i < header.e_shnum; i++) {
    if (header.e_shoff > size || size - header.e_shoff < (i + 1) * sizeof section) return 0;
    memcpy(&section, bytes + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_flags & SHF_EXECINSTR && section.sh_type == SHT_PROGBITS) sum += section.sh_size;
  }
  return sum;
}

code_metrics code_metrics_of(const kiln_code_info *info, const uint8_t *code, size_t size) {
  static const uint8_t unit[] = {[KILN_FORMAT_CUBIN] = 16, [KILN_FORMAT_HSACO] = 4, [KILN_FORMAT_HOST] = 1};
  code_metrics out = {.is_machine = info->format < sizeof unit && unit[info->format]};
  char hex[KILN_DIGEST_HEX + 1];
  kiln_digest digest = kiln_digest_of(code, size);
  kiln_digest_hex(&digest, hex);
  memcpy(out.id, hex, CODE_METRICS_ID);
  if (!out.is_machine) return out;
  out.registers = info->registers;
  out.spills = info->spill_bytes;
  out.instructions = run_bytes(code, size) / unit[info->format];
  return out;
}

// ------------------------------------------------------------------------------- as fields of a table

static const struct {
  kiln_tuned_field field;
  size_t offset;
  const char *name;
} numbers[] = {{KILN_TUNED_REGISTERS, offsetof(code_metrics, registers), "registers"},
               {KILN_TUNED_SPILLS, offsetof(code_metrics, spills), "bytes spilled"},
               {KILN_TUNED_INSTRUCTIONS, offsetof(code_metrics, instructions), "instructions"}};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static uint64_t *number_at(code_metrics *figures, unsigned i) {
  return (uint64_t *)(void *)((char *)figures + numbers[i].offset);
}

static uint64_t number_of(const code_metrics *figures, unsigned i) {
  return *(const uint64_t *)(const void *)((const char *)figures + numbers[i].offset);
}

void code_metrics_write(const code_metrics *f, kiln_arena *arena, kiln_tuned_entry *e) {
  e->texts[KILN_TUNED_CODE] = *f->id ? kiln_arena_text(arena, f->id, strlen(f->id)) : NULL;
  for (unsigned i = 0; i < NUMBERS && f->is_machine; i++) {
    e->numbers[numbers[i].field] = number_of(f, i);
    e->texts[numbers[i].field] =
        kiln_arena_format(arena, "%llu", (unsigned long long)e->numbers[numbers[i].field]);
  }
}

code_metrics code_metrics_read(const kiln_tuned_entry *e) {
  code_metrics out = {.is_machine = true};
  const char *id = e->texts[KILN_TUNED_CODE];
  snprintf(out.id, sizeof out.id, "%s", id ? id : "");
  for (unsigned i = 0; i < NUMBERS; i++) {
    out.is_machine &= e->texts[numbers[i].field] != NULL;
    *number_at(&out, i) = e->numbers[numbers[i].field];
  }
  return out;
}

code_similarity code_metrics_compare(const code_metrics *a, const code_metrics *b) {
  if (*a->id && !strcmp(a->id, b->id)) return CODE_SAME;
  if (!a->is_machine || !b->is_machine) return CODE_UNKNOWN;
  for (unsigned i = 0; i < NUMBERS; i++)
    if (number_of(a, i) != number_of(b, i)) return CODE_CHANGED;
  return CODE_ALIKE;
}

const char *code_metrics_difference(const code_metrics *a, const code_metrics *b,
                                    char out[CODE_METRICS_TEXT]) {
  size_t used = 0;
  *out = 0;
  for (unsigned i = 0; i < NUMBERS && used < CODE_METRICS_TEXT; i++)
    if (number_of(a, i) != number_of(b, i))
      used += (size_t)snprintf(out + used, CODE_METRICS_TEXT - used, "%s%llu -> %llu %s", used ? ", " : "",
                               (unsigned long long)number_of(a, i), (unsigned long long)number_of(b, i),
                               numbers[i].name);
  return out;
}
