// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds keys: collects their fields, encodes them in the one way there is, and compares two keys.
#include "cache/cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/texts.h"

enum { NO, MAY, MUST };
enum { ONE, NAMED };
enum { TEXT, BYTES, DIGEST };

struct row {
  uint32_t number;
  uint8_t value, form, use[4]; // use: indexed by kiln_key_kind
};

#define FIELD(name, number, value, form, compile, tuned, bundle, axes, text) \
  {number, value, form, {NO, compile, tuned, bundle}},
static const struct row rows[] = {
#include "cache/fields.def"
};
#undef FIELD
enum { ROWS = sizeof rows / sizeof *rows };

static const char names[] =
#define FIELD(name, number, value, form, compile, tuned, bundle, axes, text) #name "\0"
#include "cache/fields.def"
#undef FIELD
    ;
static const char texts[] =
#define FIELD(name, number, value, form, compile, tuned, bundle, axes, text) text "\0"
#include "cache/fields.def"
#undef FIELD
    ;
static const char *name_of(const struct row *row) { return kiln_text_at(names, (size_t)(row - rows)); }

static const char magic[7] = {'k', 'i', 'l', 'n', 'k', 'e', 'y'};

static const struct row *row_of(uint32_t number) {
  for (unsigned i = 0; i < ROWS; i++)
    if (rows[i].number == number) return &rows[i];
  return NULL;
}

const char *kiln_field_name(uint32_t field) {
  const struct row *row = row_of(field);
  return row ? name_of(row) : "UNKNOWN";
}

// ---------------------------------------------------------------------------------------- building

/// Where a collected field lies in builder.bytes.
struct place {
  uint32_t field, name_size;
  size_t name, value, value_size;
};

void kiln_key_deinit(kiln_key *key) {
  free(key->fields);
  memset(key, 0, sizeof *key);
}

void kiln_key_begin(kiln_key_builder *b, kiln_key_kind kind) {
  memset(b, 0, sizeof *b);
  b->kind = kind;
  if (kind < KILN_KEY_COMPILE || kind > KILN_KEY_BUNDLE)
    kiln_fail(&b->error, KILN_STATUS_INVALID_ARGUMENT, "expected key kind 1 to 3, found %d", (int)kind);
}

void kiln_key_builder_deinit(kiln_key_builder *b) {
  kiln_buffer_deinit(&b->bytes);
  kiln_buffer_deinit(&b->places);
}

void kiln_key_add(kiln_key_builder *b, kiln_field field, const char *name, const void *bytes, size_t size) {
  if (b->error.status) return;
  const struct row *row = row_of(field);
  if (!row) {
    kiln_fail(&b->error, KILN_STATUS_INVALID_ARGUMENT, "key field %d is not in the table", (int)field);
    return;
  }
  if (row->use[b->kind] == NO) {
    kiln_fail(&b->error, KILN_STATUS_INVALID_ARGUMENT, "key field %s does not belong in a key of kind %d",
              name_of(row), (int)b->kind);
    return;
  }
  if ((row->form == NAMED) != (name && *name)) {
    kiln_fail(&b->error, KILN_STATUS_INVALID_ARGUMENT, "key field %s expects %s", name_of(row),
              row->form == NAMED ? "a name" : "no name");
    return;
  }
  if (row->value == DIGEST && size != KILN_DIGEST_SIZE) {
    kiln_fail(&b->error, KILN_STATUS_INVALID_ARGUMENT, "key field %s expects %d bytes, found %zu",
              name_of(row), KILN_DIGEST_SIZE, size);
    return;
  }
  if (b->count == KILN_KEY_FIELDS || size > KILN_KEY_BYTES || b->bytes.size + size > KILN_KEY_BYTES) {
    kiln_fail(&b->error, KILN_STATUS_LIMIT,
              "a key has at most %d fields of %d bytes together, found %u and %zu", KILN_KEY_FIELDS,
              KILN_KEY_BYTES, b->count + 1, b->bytes.size + size);
    return;
  }
  struct place p = {.field = field, .name_size = name ? (uint32_t)strlen(name) : 0, .name = b->bytes.size};
  kiln_buffer_bytes(&b->bytes, name ? name : "", p.name_size);
  p.value = b->bytes.size;
  p.value_size = size;
  kiln_buffer_bytes(&b->bytes, bytes, size);
  kiln_buffer_bytes(&b->places, &p, sizeof p);
  b->count++;
}

void kiln_key_text(kiln_key_builder *b, kiln_field field, const char *text) {
  kiln_key_add(b, field, NULL, text, strlen(text));
}

void kiln_key_named_text(kiln_key_builder *b, kiln_field field, const char *name, const char *text) {
  kiln_key_add(b, field, name, text, strlen(text));
}

void kiln_key_named_number(kiln_key_builder *b, kiln_field field, const char *name, int64_t number) {
  char text[24];
  int size = snprintf(text, sizeof text, "%" PRId64, number);
  kiln_key_add(b, field, name, text, (size_t)size);
}

static int order(uint32_t a_field, const void *a_name, size_t a_size, uint32_t b_field, const void *b_name,
                 size_t b_size) {
  if (a_field != b_field) return a_field < b_field ? -1 : 1;
  size_t both = a_size < b_size ? a_size : b_size;
  int c = both ? memcmp(a_name, b_name, both) : 0;
  return c ? c : (a_size > b_size) - (a_size < b_size);
}

static int by_name(const void *x, const void *y, void *context) {
  const struct place *a = x, *b = y;
  const uint8_t *bytes = context;
  return order(a->field, bytes + a->name, a->name_size, b->field, bytes + b->name, b->name_size);
}

/// A field that must be there and is not, or NULL. `places` are sorted.
static const struct row *missing(const kiln_key_builder *b, const struct place *places) {
  for (unsigned i = 0; i < ROWS; i++) {
    if (rows[i].use[b->kind] != MUST) continue;
    bool found = false;
    for (uint32_t k = 0; k < b->count && !found; k++) found = places[k].field == rows[i].number;
    if (!found) return &rows[i];
  }
  return NULL;
}

static kiln_status check(kiln_key_builder *b, struct place *places, kiln_error *err) {
  if (b->error.status) return kiln_fail(err, b->error.status, "%s", b->error.text);
  if (b->bytes.failed || b->places.failed)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a key");
  if (b->count) qsort_r(places, b->count, sizeof *places, by_name, b->bytes.bytes);
  for (uint32_t i = 1; i < b->count; i++)
    if (!by_name(&places[i - 1], &places[i], b->bytes.bytes))
      return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "key field %s is given twice (%.*s)",
                       kiln_field_name(places[i].field), (int)places[i].name_size,
                       (const char *)b->bytes.bytes + places[i].name);
  const struct row *row = missing(b, places);
  if (row)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "key field %s (%s) is missing", name_of(row),
                     kiln_text_at(texts, (size_t)(row - rows)));
  return KILN_OK;
}

kiln_status kiln_key_finish(kiln_key_builder *b, kiln_key *out, kiln_error *err) {
  struct place *places = (struct place *)(void *)b->places.bytes;
  kiln_buffer encoded = {0};
  memset(out, 0, sizeof *out);
  kiln_status status = check(b, places, err);
  if (status) goto out;
  kiln_buffer_bytes(&encoded, magic, sizeof magic);
  kiln_buffer_u8(&encoded, KILN_KEY_SCHEMA);
  kiln_buffer_u8(&encoded, (uint8_t)b->kind);
  kiln_buffer_varint(&encoded, b->count);
  for (uint32_t i = 0; i < b->count; i++) {
    kiln_buffer_varint(&encoded, places[i].field);
    kiln_buffer_block(&encoded, b->bytes.bytes + places[i].name, places[i].name_size);
    kiln_buffer_block(&encoded, b->bytes.bytes + places[i].value, places[i].value_size);
  }
  if (encoded.failed) {
    status = kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a key");
    goto out;
  }
  out->digest = kiln_digest_of(encoded.bytes, encoded.size);
  out->fields = encoded.bytes;
  out->fields_size = encoded.size;
  encoded.bytes = NULL;
out:
  kiln_buffer_deinit(&encoded);
  kiln_buffer_deinit(&b->bytes);
  kiln_buffer_deinit(&b->places);
  memset(b, 0, sizeof *b);
  return status;
}

// ----------------------------------------------------------------------------------------- walking

kiln_status kiln_key_walk_begin(kiln_key_walk *walk, const uint8_t *fields, size_t size) {
  memset(walk, 0, sizeof *walk);
  walk->reader = kiln_reader_of(fields, size);
  const uint8_t *head = kiln_read_bytes(&walk->reader, sizeof magic);
  if (!head || memcmp(head, magic, sizeof magic)) return KILN_STATUS_CORRUPT;
  if (kiln_read_u8(&walk->reader) != KILN_KEY_SCHEMA) return KILN_STATUS_VERSION;
  walk->kind = kiln_read_u8(&walk->reader);
  walk->left = kiln_read_count(&walk->reader, KILN_KEY_FIELDS);
  return walk->reader.failed ? KILN_STATUS_CORRUPT : KILN_OK;
}

kiln_status kiln_key_walk_next(kiln_key_walk *walk, kiln_key_part *out) {
  memset(out, 0, sizeof *out);
  if (!walk->left) return kiln_read_done(&walk->reader) ? KILN_STATUS_NOT_FOUND : KILN_STATUS_CORRUPT;
  kiln_key_part p;
  p.field = (uint32_t)kiln_read_count(&walk->reader, UINT32_MAX);
  p.name = (const char *)kiln_read_block(&walk->reader, &p.name_size);
  p.value = kiln_read_block(&walk->reader, &p.value_size);
  if (walk->reader.failed || !row_of(p.field)) return KILN_STATUS_CORRUPT;
  const kiln_key_part *last = &walk->last;
  if (last->field && order(last->field, last->name, last->name_size, p.field, p.name, p.name_size) >= 0)
    return KILN_STATUS_CORRUPT;
  walk->left--;
  walk->last = *out = p;
  return KILN_OK;
}

static bool printable(const uint8_t *bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (bytes[i] < 0x20 || bytes[i] > 0x7e) return false;
  return true;
}

void kiln_key_part_title(const kiln_key_part *part, char *out, size_t capacity) {
  char name[64];
  size_t i = 0;
  for (const char *n = kiln_field_name(part->field); *n && i + 1 < sizeof name; n++, i++)
    name[i] = *n == '_' ? ' ' : *n >= 'A' && *n <= 'Z' ? (char)(*n + 32) : *n;
  name[i] = 0;
  bool plain = printable((const uint8_t *)part->name, part->name_size);
  if (!part->name_size) snprintf(out, capacity, "%s", name);
  else snprintf(out, capacity, "%s %.*s", name, plain ? (int)part->name_size : 1, plain ? part->name : "?");
}

void kiln_key_part_value(const kiln_key_part *part, char *out, size_t capacity) {
  if (part->value_size <= 96 && printable(part->value, part->value_size)) {
    snprintf(out, capacity, "\"%.*s\"", (int)part->value_size, (const char *)part->value);
    return;
  }
  kiln_digest d;
  if (part->value_size == KILN_DIGEST_SIZE) memcpy(d.bytes, part->value, sizeof d.bytes);
  else d = kiln_digest_of(part->value, part->value_size);
  char hex[KILN_DIGEST_HEX + 1];
  kiln_digest_hex(&d, hex);
  if (part->value_size == KILN_DIGEST_SIZE) snprintf(out, capacity, "%.16s", hex);
  else snprintf(out, capacity, "%zu bytes, digest %.16s", part->value_size, hex);
}

// --------------------------------------------------------------------------------------- comparing

int kiln_key_compare(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                     kiln_key_difference *each, void *context) {
  kiln_key_walk wa, wb;
  if (kiln_key_walk_begin(&wa, a, a_size) || kiln_key_walk_begin(&wb, b, b_size)) return -1;
  kiln_key_part pa, pb;
  kiln_status sa = kiln_key_walk_next(&wa, &pa), sb = kiln_key_walk_next(&wb, &pb);
  int count = 0;
  while (sa == KILN_OK || sb == KILN_OK) {
    int c = sa ? 1 : sb ? -1 : order(pa.field, pa.name, pa.name_size, pb.field, pb.name, pb.name_size);
    bool same = !c && pa.value_size == pb.value_size && !memcmp(pa.value, pb.value, pa.value_size);
    if (!same) {
      if (each) each(context, c <= 0 ? &pa : NULL, c >= 0 ? &pb : NULL);
      count++;
    }
    if (c <= 0) sa = kiln_key_walk_next(&wa, &pa);
    if (c >= 0) sb = kiln_key_walk_next(&wb, &pb);
  }
  if (sa != KILN_STATUS_NOT_FOUND || sb != KILN_STATUS_NOT_FOUND) return -1;
  return count + (wa.kind != wb.kind);
}
