// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes the key under which a tuned choice is stored.
#include "tuner/identity.h"

#include <string.h>

#include "cache/cache.h"

// What each kind of axis is in a key.
static const kiln_field axis_fields[KILN_TUNED_AXIS_KINDS] = {[KILN_TUNED_BIN] = KILN_FIELD_BIN,
                                                              [KILN_TUNED_ALIGNED] = KILN_FIELD_FACT,
                                                              [KILN_TUNED_STRIDE] = KILN_FIELD_STRIDE};

static void add_axis(kiln_key_builder *b, const kiln_tuned_axis *axis) {
  if (axis->kind == KILN_TUNED_BIN)
    kiln_key_named_number(b, KILN_FIELD_BIN, axis->name, kiln_tuned_bin_least(axis->value));
  else kiln_key_named_number(b, axis_fields[axis->kind], axis->name, axis->value);
}

kiln_status kiln_tuner_key(const kiln_tuned_entry *entry, kiln_key *out, kiln_error *err) {
  kiln_key_builder b;
  const char *types = entry->texts[KILN_TUNED_TYPES];
  kiln_key_begin(&b, KILN_KEY_TUNED);
  kiln_key_text(&b, KILN_FIELD_SYMBOL, entry->texts[KILN_TUNED_KERNEL]);
  kiln_key_add(&b, KILN_FIELD_PARAMETERS, NULL, types, strlen(types));
  kiln_key_named_text(&b, KILN_FIELD_DEVICE, "product", entry->texts[KILN_TUNED_PRODUCT]);
  kiln_key_named_text(&b, KILN_FIELD_DEVICE, "processor", entry->texts[KILN_TUNED_PROCESSOR]);
  kiln_key_named_number(&b, KILN_FIELD_DEVICE, "units", (int64_t)entry->numbers[KILN_TUNED_UNITS]);
  for (uint32_t i = 0; i < entry->axis_count; i++) add_axis(&b, &entry->axes[i]);
  kiln_key_named_number(&b, KILN_FIELD_SCHEMA, "tuned", KILN_TUNED_IDENTITY);
  kiln_status status = kiln_key_finish(&b, out, err);
  kiln_key_builder_deinit(&b);
  return status;
}

kiln_status kiln_tuner_id(const kiln_tuned_entry *entry, char out[KILN_TUNER_ID + 1], kiln_error *err) {
  char hex[KILN_DIGEST_HEX + 1];
  kiln_key key;
  KILN_TRY(kiln_tuner_key(entry, &key, err));
  kiln_digest_hex(&key.digest, hex);
  memcpy(out, hex, KILN_TUNER_ID);
  out[KILN_TUNER_ID] = 0;
  kiln_key_deinit(&key);
  return KILN_OK;
}

void kiln_tuner_toolchain(const char *processor, const char *compiler, const char *assembler,
                          char out[KILN_TUNER_ID + 1]) {
  char hex[KILN_DIGEST_HEX + 1];
  kiln_buffer text = {0};
  bool has_assembler = !strncmp(processor, "sm_", 3);
  kiln_buffer_text(&text, compiler);
  kiln_buffer_text(&text, has_assembler ? assembler : NULL);
  kiln_digest digest = kiln_digest_of(text.bytes, text.size);
  kiln_buffer_deinit(&text);
  kiln_digest_hex(&digest, hex);
  memcpy(out, hex, KILN_TUNER_ID);
  out[KILN_TUNER_ID] = 0;
}
