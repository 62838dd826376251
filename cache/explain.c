// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Explains why a look-up misses: finds the nearest entry, names the fields of the key that differ, and says
// what is wrong with an entry that is not served.
#include "cache/explain.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache/internal.h"

// ----------------------------------------------------------------------------------------- nearest

typedef struct search {
  kiln_store *store;
  const kiln_digest *key;
  const uint8_t *fields;
  size_t size;
  kiln_cache_entry *best;
  kiln_digest *best_key;
  int distance;
} search;

static void weigh_difference(void *context, const kiln_key_part *a, const kiln_key_part *b) {
  // A different symbol means another program: anything of the same program is nearer.
  if ((a ? a : b)->field == KILN_FIELD_SYMBOL) *(int *)context += KILN_KEY_FIELDS;
}

/// Objects and bundles have nothing in common that could explain a difference.
static bool is_of_kind(const uint8_t *fields, size_t size, const kiln_cache_entry *entry) {
  kiln_key_walk here, there;
  return !kiln_key_walk_begin(&here, fields, size) &&
         !kiln_key_walk_begin(&there, entry->fields.bytes, entry->fields.size) && here.kind == there.kind;
}

static bool consider_entry(void *context, const kiln_scan_item *item) {
  search *s = context;
  kiln_cache_entry entry;
  if (!memcmp(item->key.bytes, s->key->bytes, KILN_DIGEST_SIZE)) return true;
  if (kiln_store_read(s->store, &item->key, NULL, 0, &entry, NULL, NULL) != KILN_OUTCOME_HIT_LOCAL)
    return true;
  int extra = 0, distance = -1;
  if (is_of_kind(s->fields, s->size, &entry))
    distance =
        kiln_key_compare(s->fields, s->size, entry.fields.bytes, entry.fields.size, weigh_difference, &extra);
  bool better = distance >= 0 && (distance + extra < s->distance ||
                                  (distance + extra == s->distance &&
                                   memcmp(item->key.bytes, s->best_key->bytes, KILN_DIGEST_SIZE) < 0));
  if (better) {
    kiln_cache_entry_deinit(s->best);
    *s->best = entry;
    *s->best_key = item->key;
    s->distance = distance + extra;
  } else {
    kiln_cache_entry_deinit(&entry);
  }
  return s->distance > 1; // nothing can be nearer than one field
}

bool kiln_cache_nearest(kiln_cache *cache, const kiln_digest *key, const uint8_t *fields, size_t size,
                        uint64_t limit, kiln_cache_entry *out, kiln_digest *out_key, int *out_distance) {
  search s = {
      .key = key, .fields = fields, .size = size, .best = out, .best_key = out_key, .distance = INT_MAX};
  memset(out, 0, sizeof *out);
  memset(out_key, 0, sizeof *out_key);
  for (uint32_t i = cache->store_count; i-- > 0 && s.distance > 1;) {
    kiln_scan_place place = {0};
    // Looking is no use: an explanation must not keep entries alive, so it reads through a copy that may not
    // write.
    kiln_store view = cache->stores[i];
    view.writable = false;
    s.store = &view;
    kiln_scan(s.store, &place, limit, consider_entry, &s);
  }
  *out_distance = s.distance % KILN_KEY_FIELDS;
  return out->held != NULL;
}

typedef struct account {
  kiln_explain_field *more;
  kiln_buffer *out;
} account;

static void difference(void *context, const kiln_key_part *a, const kiln_key_part *b) {
  const account *to = context;
  char title[128], here[160] = "absent", there[160] = "absent";
  kiln_key_part_title(a ? a : b, title, sizeof title);
  if (a) kiln_key_part_value(a, here, sizeof here);
  if (b) kiln_key_part_value(b, there, sizeof there);
  kiln_buffer_format(to->out, "  %s: %s, there %s\n", title, here, there);
  if (a && b && to->more) to->more(a, b, to->out);
}

int kiln_explain_difference(const uint8_t *here, size_t here_size, const uint8_t *there, size_t there_size,
                            kiln_explain_field *more, kiln_buffer *out) {
  return kiln_key_compare(here, here_size, there, there_size, difference, &(account){more, out});
}

// -------------------------------------------------------------------------------------------- fate

typedef struct history {
  const kiln_digest *key;
  kiln_stats_record last;
  bool known;
} history;

static void remember(void *context, const kiln_stats_record *record) {
  history *h = context;
  bool telling =
      record->outcome == KILN_OUTCOME_EVICTED || record->outcome == KILN_OUTCOME_QUARANTINED ||
      record->outcome == KILN_OUTCOME_STORED ||
      (record->outcome >= KILN_OUTCOME_STORE_NO_SPACE && record->outcome <= KILN_OUTCOME_STORE_TOO_LARGE);
  if (!telling || memcmp(record->key, h->key->bytes, sizeof record->key)) return;
  h->last = *record;
  h->known = true;
}

bool kiln_explain_fate(kiln_cache *cache, const kiln_digest *key, kiln_buffer *out) {
  history h = {.key = key};
  kiln_cache_flush(cache);
  for (uint32_t i = 0; i < cache->store_count; i++) kiln_stats_walk(&cache->stores[i], remember, &h);
  if (!h.known) return false;
  char when[32];
  time_t t = (time_t)h.last.time;
  struct tm tm;
  strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&t, &tm));
  if (h.last.outcome == KILN_OUTCOME_STORED)
    kiln_buffer_format(out, "it was stored at %s and removed since by something that leaves no record\n",
                       when);
  else
    kiln_buffer_format(out, "%s at %s%s%s\n", kiln_outcome_text(h.last.outcome), when,
                       h.last.error_number ? ": " : "",
                       h.last.error_number ? strerror(h.last.error_number) : "");
  return true;
}

kiln_outcome kiln_explain_state(kiln_cache *cache, const kiln_digest *key, const uint8_t *fields, size_t size,
                                kiln_buffer *out) {
  kiln_cache_entry entry;
  kiln_store *where = NULL;
  kiln_error err = {0};
  bool warned = false;
  kiln_outcome outcome = kiln_cache_look(cache, key, fields, size, &entry, &where, &warned, &err);
  if (entry.held) {
    kiln_buffer_format(out, "in the cache, in %s/%s%s\n", where->root, where->folder,
                       warned ? ", not signed as the policy wants it" : "");
    kiln_cache_entry_deinit(&entry);
  } else if (outcome == KILN_OUTCOME_MISS_ABSENT) {
    kiln_buffer_format(out, "not in the cache\n");
  } else {
    kiln_buffer_format(out, "%s, in %s/%s: %s\n", kiln_outcome_text(outcome), where ? where->root : "",
                       where ? where->folder : "", err.text);
  }
  return outcome;
}

void kiln_cache_explain(kiln_cache *cache, const kiln_key *key, uint64_t limit, kiln_explain_field *more,
                        kiln_buffer *out) {
  kiln_outcome outcome = kiln_explain_state(cache, &key->digest, key->fields, key->fields_size, out);
  if (outcome == KILN_OUTCOME_HIT_LOCAL || outcome == KILN_OUTCOME_HIT_LAYER) return;
  if (outcome != KILN_OUTCOME_MISS_ABSENT) return;
  if (kiln_explain_fate(cache, &key->digest, out)) return;
  kiln_cache_entry nearest;
  kiln_digest nearest_key;
  int distance;
  if (!kiln_cache_nearest(cache, &key->digest, key->fields, key->fields_size, limit, &nearest, &nearest_key,
                          &distance)) {
    kiln_buffer_format(out, "the cache has no entries to compare with\n");
    return;
  }
  char hex[KILN_DIGEST_HEX + 1];
  kiln_digest_hex(&nearest_key, hex);
  kiln_buffer_format(out, "nearest entry %s, %d field%s differ%s:\n", hex, distance, distance == 1 ? "" : "s",
                     distance == 1 ? "s" : "");
  kiln_explain_difference(key->fields, key->fields_size, nearest.fields.bytes, nearest.fields.size, more,
                          out);
  kiln_cache_entry_deinit(&nearest);
}
