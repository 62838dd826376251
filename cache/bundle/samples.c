// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Chooses the codes from which a family's dictionary is made. A *shingle* is the hash of SHINGLE bytes at
// one place of a code; a code can help others only by shingles that they have too. Greedy cover: repeatedly
// take the code whose shingles, of those not yet in the dictionary, occur in the most other codes per byte
// that it adds. Gains only fall while the dictionary grows, so a heap of stale gains finds the best with
// few recounts.
#include <stdlib.h>
#include <string.h>

#include "cache/bundle/internal.h"

// Of the shingles those are kept whose hash ends in zeros, as many zeros as bring them below MOST_SHINGLES. A
// code whose shingles together occur in others less than once in LEAST_USE of them would lengthen the
// dictionary and shorten nothing.
enum { SHINGLE = 16, MOST_SHINGLES = 1 << 21, LEAST_USE = 16 };

typedef struct place {
  uint64_t hash;   // 0: free
  uint32_t codes;  // that have it
  uint32_t stamp;  // number + 1 of the code, or count of the gain, that saw it last
  bool is_covered; // by the dictionary
} place;

typedef struct candidate {
  uint32_t first, count; // in `shingles`
  uint32_t code;
  double gain; // a byte; not below the true one
} candidate;

typedef struct cover {
  const kiln_pack_family *family; // borrowed
  place *places;                  // owned: open addressing, by hash
  uint32_t *shingles;             // owned: places, code after code
  candidate *heap;                // owned: the largest gain first, then the first in name
  uint32_t heap_count, stamp;
  size_t shingle_count, place_mask;
} cover;

static uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t h = (a ^ b >> 29) * 0x9e3779b97f4a7c15u;
  h = (h ^ h >> 32 ^ b) * 0xd6e8feb86659fd93u;
  return h ^ h >> 32;
}

// Those that the family keeps; `out` may be NULL, to count.
static size_t shingles_of(const kiln_pack_blob *b, uint64_t mask, uint64_t *out) {
  size_t count = 0;
  for (size_t at = 0; at + SHINGLE <= b->size; at++) {
    uint64_t hash = mix(kiln_le64(b->bytes + at), kiln_le64(b->bytes + at + 8));
    if (hash & mask || !hash) continue;
    if (out) out[count] = hash;
    count++;
  }
  return count;
}

static uint64_t mask_for(const kiln_pack_family *family) {
  uint64_t total = 0, mask = 0;
  for (uint32_t i = 0; i < family->count; i++) total += family->blobs[i]->size;
  while (total / (mask + 1) > MOST_SHINGLES) mask = mask * 2 + 1;
  return mask;
}

static uint32_t place_of(cover *c, uint64_t hash) {
  size_t at = (size_t)(hash >> 20) & c->place_mask;
  while (c->places[at].hash && c->places[at].hash != hash) at = (at + 1) & c->place_mask;
  c->places[at].hash = hash;
  return (uint32_t)at;
}

static void enter(cover *c, uint32_t code, const uint64_t *hashes, size_t count) {
  c->heap[code] = (candidate){.first = (uint32_t)c->shingle_count, .count = (uint32_t)count, .code = code};
  for (size_t i = 0; i < count; i++) {
    uint32_t at = place_of(c, hashes[i]);
    place *p = &c->places[at];
    c->shingles[c->shingle_count++] = at;
    p->codes += p->stamp != code + 1;
    p->stamp = code + 1;
  }
}

static bool cover_init(cover *c, const kiln_pack_family *family) {
  memset(c, 0, sizeof *c);
  c->family = family;
  uint64_t mask = mask_for(family);
  size_t total = 0, most = 0;
  for (uint32_t i = 0; i < family->count; i++) {
    size_t count = shingles_of(family->blobs[i], mask, NULL);
    total += count;
    most = count > most ? count : most;
  }
  if (total > UINT32_MAX / 4) return false;
  for (c->place_mask = 63; c->place_mask < total * 2;) c->place_mask = c->place_mask * 2 + 1;
  c->places = calloc(c->place_mask + 1, sizeof *c->places);
  c->shingles = malloc((total + 1) * sizeof *c->shingles);
  c->heap = malloc((family->count + 1) * sizeof *c->heap);
  uint64_t *hashes = malloc((most + 1) * sizeof *hashes);
  bool done = c->places && c->shingles && c->heap && hashes;
  for (uint32_t i = 0; done && i < family->count; i++)
    enter(c, i, hashes, shingles_of(family->blobs[i], mask, hashes));
  c->heap_count = c->stamp = family->count;
  free(hashes);
  return done;
}

static void cover_deinit(cover *c) {
  free(c->places);
  free(c->shingles);
  free(c->heap);
}

// How often other codes have what this one would bring; 0 when too little to count.
static double gain_of(cover *c, const candidate *x) {
  uint64_t uses = 0;
  c->stamp++;
  for (uint32_t i = 0; i < x->count; i++) {
    place *p = &c->places[c->shingles[x->first + i]];
    if (p->is_covered || p->stamp == c->stamp) continue;
    p->stamp = c->stamp;
    uses += p->codes - 1;
  }
  return uses * LEAST_USE > x->count ? (double)uses / (double)c->family->blobs[x->code]->size : 0;
}

static bool comes_before(const candidate *a, const candidate *b) {
  return a->gain != b->gain ? a->gain > b->gain : a->code < b->code;
}

static void sink(cover *c, uint32_t at) {
  for (;;) {
    uint32_t best = at;
    for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < c->heap_count; child++)
      if (comes_before(&c->heap[child], &c->heap[best])) best = child;
    if (best == at) return;
    candidate other = c->heap[at];
    c->heap[at] = c->heap[best];
    c->heap[best] = other;
    at = best;
  }
}

static void take(cover *c, const candidate *x) {
  for (uint32_t i = 0; i < x->count; i++) c->places[c->shingles[x->first + i]].is_covered = true;
}

static void choose(cover *c, size_t limit, bool *chosen) {
  size_t size = 0;
  for (uint32_t i = 0; i < c->heap_count; i++) c->heap[i].gain = gain_of(c, &c->heap[i]);
  for (uint32_t i = c->heap_count / 2; i-- > 0;) sink(c, i);
  while (c->heap_count && c->heap[0].gain > 0) {
    candidate *top = &c->heap[0];
    double gain = gain_of(c, top);
    bool is_stale = gain < top->gain, fits = c->family->blobs[top->code]->size <= limit - size;
    if (is_stale) top->gain = gain;
    else {
      if (fits) {
        take(c, top);
        size += c->family->blobs[top->code]->size;
        chosen[top->code] = true;
      }
      *top = c->heap[--c->heap_count];
    }
    sink(c, 0);
  }
}

kiln_status kiln_pack_samples(const kiln_pack_family *family, size_t limit, kiln_buffer *out,
                              kiln_error *err) {
  cover c;
  bool *chosen = calloc((size_t)family->count + 1, sizeof *chosen);
  bool done = cover_init(&c, family) && chosen;
  if (done) choose(&c, limit, chosen);
  for (uint32_t i = 0; done && i < family->count; i++)
    if (chosen[i]) kiln_buffer_bytes(out, family->blobs[i]->bytes, family->blobs[i]->size);
  cover_deinit(&c);
  free(chosen);
  return done && !out->failed
             ? KILN_OK
             : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "bundle dictionary: memory is exhausted");
}
