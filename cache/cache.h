// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cache: keys that cannot lie, and a store that cannot be hurt. It has never heard of kernels: an entry
// is key fields, metadata, payload, diagnostics and a cost, all bytes.
//
//     kiln_key_builder b;                         kiln_cache *cache;
//     kiln_key_begin(&b, KILN_KEY_COMPILE);       kiln_cache_open(&config, &cache, &err);
//     kiln_key_add(&b, KILN_FIELD_IR, NULL, ...);
//     kiln_key_text(&b, KILN_FIELD_SYMBOL, ...);  if (!kiln_cache_get(cache, &key, &entry)) {
//     ...                                           kiln_cache_claim claim;
//     kiln_key_finish(&b, &key, &err);              if (!kiln_cache_claim_key(cache, &key, &claim, &entry)) {
//                                                     ... compile ...
//                                                     kiln_cache_put(cache, &key, &content, NULL);
//                                                   }
//                                                   kiln_cache_release(&claim);
//                                                 }
//
// A reader sees a complete, verified entry or a miss. Nothing that happens to the disk, the locks, the remote
// side or another process makes get, claim or put fail in a way that a build must stop for; the counters say
// what happened.
#ifndef KILN_CACHE_CACHE_H
#define KILN_CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/digest.h"
#include "base/file_mark.h"
#include "base/status.h"

// -------------------------------------------------------------------------------------------- keys

enum {
  KILN_KEY_SCHEMA = 2,       ///< meaning of fields.def and of the encoding of keys
  KILN_CACHE_FORMAT = 1,     ///< layout of entries and of the store's folder ("v1")
  KILN_KEY_FIELDS = 4096,    ///< most fields a key may have
  KILN_KEY_BYTES = 64 << 20, ///< most bytes a key's fields may have
};

typedef enum kiln_field {
#define FIELD(name, number, value, form, compile, tuned, bundle, axes, text) KILN_FIELD_##name = number,
#include "cache/fields.def"
#undef FIELD
} kiln_field;

/// Three kinds of keys, which never alias: what a compile depends on, what a tuned choice, what a finished
/// bundle.
typedef enum kiln_key_kind { KILN_KEY_COMPILE = 1, KILN_KEY_TUNED = 2, KILN_KEY_BUNDLE = 3 } kiln_key_kind;

/// A finished key. `fields` is the canonical encoding; `digest` is BLAKE2b-256 over it.
///
///     "kilnkey" u8 schema, u8 kind, varint count,
///     then for each field in order of (number, name): varint number, block name, block value
typedef struct kiln_key {
  kiln_digest digest;
  uint8_t *fields; ///< owned
  size_t fields_size;
} kiln_key;

void kiln_key_deinit(kiln_key *key);

/// Collects fields, in any order. The first mistake (unknown field, wrong form, the same field twice) is kept
/// and comes out at finish.
typedef struct kiln_key_builder {
  kiln_key_kind kind;
  kiln_buffer bytes;  ///< names and values, one after another
  kiln_buffer places; ///< one record a field
  uint32_t count;
  kiln_error error;
} kiln_key_builder;

void kiln_key_begin(kiln_key_builder *b, kiln_key_kind kind);
void kiln_key_builder_deinit(kiln_key_builder *b);
/// A field; `name` is NULL for one of form ONE. An empty value is a value; an absent field is another key.
void kiln_key_add(kiln_key_builder *b, kiln_field field, const char *name, const void *bytes, size_t size);
/// A field of form ONE.
void kiln_key_text(kiln_key_builder *b, kiln_field field, const char *text);
/// Fields of form NAMED.
void kiln_key_named_text(kiln_key_builder *b, kiln_field field, const char *name, const char *text);
void kiln_key_named_number(kiln_key_builder *b, kiln_field field, const char *name, int64_t number);
/// Checks, sorts, encodes and hashes; the builder is empty afterwards. INVALID_ARGUMENT names the field that
/// is wrong or missing; no key is better than a key that does not cover everything.
KILN_MUST_USE kiln_status kiln_key_finish(kiln_key_builder *b, kiln_key *out, kiln_error *err);

/// One field of an encoded key; all borrowed from the encoding.
typedef struct kiln_key_part {
  uint32_t field; ///< kiln_field, or a number of another schema
  const char *name;
  size_t name_size;
  const uint8_t *value;
  size_t value_size;
} kiln_key_part;

/// Walks an encoding: NOT_FOUND after the last field, CORRUPT for anything that kiln_key_finish would not
/// have written.
typedef struct kiln_key_walk {
  kiln_reader reader;
  uint64_t left;
  kiln_key_part last;
  kiln_key_kind kind;
} kiln_key_walk;
KILN_MUST_USE kiln_status kiln_key_walk_begin(kiln_key_walk *walk, const uint8_t *fields, size_t size);
KILN_MUST_USE kiln_status kiln_key_walk_next(kiln_key_walk *walk, kiln_key_part *out);

/// "OPTION"; "UNKNOWN" for other numbers.
const char *kiln_field_name(uint32_t field);
/// The name of a part for people ("option fast_math"), and its value on one line (long or binary values as
/// size and digest).
void kiln_key_part_title(const kiln_key_part *part, char *out, size_t capacity);
void kiln_key_part_value(const kiln_key_part *part, char *out, size_t capacity);

/// Called once for each field that differs; `a` or `b` is NULL where the field is absent.
typedef void kiln_key_difference(void *context, const kiln_key_part *a, const kiln_key_part *b);
/// Compares two encodings; returns the count of differing fields, or -1 when one of them is damaged.
int kiln_key_compare(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                     kiln_key_difference *each, void *context);

// ------------------------------------------------------------------------------------------- cache

typedef enum kiln_outcome {
#define OUTCOME(name, number, group, text) KILN_OUTCOME_##name = number,
#include "cache/outcomes.def"
#undef OUTCOME
  KILN_OUTCOME_LIMIT = 64
} kiln_outcome;

/// "HIT_LOCAL"; never NULL.
const char *kiln_outcome_name(uint32_t outcome);
const char *kiln_outcome_text(uint32_t outcome);

typedef enum kiln_trust_policy { KILN_TRUST_OFF, KILN_TRUST_WARN, KILN_TRUST_REQUIRE } kiln_trust_policy;

/// One key that is trusted, or no longer.
typedef struct kiln_trust_key {
  char name[64];
  uint8_t public_key[32];
  char domains[128]; ///< "main,release" or "*"
  bool revoked;
} kiln_trust_key;

enum { KILN_NAME_SIZE = 64, KILN_CACHE_LAYERS = 8 };

/// All texts are borrowed until kiln_cache_open returns. Zeroed plus kiln_cache_config_init is a usable
/// start.
typedef struct kiln_cache_config {
  const char *folder; ///< of the writable store; NULL: only memory and layers
  const char *domain; ///< trust domain written to and read from: [a-z0-9_-]{1,40}; NULL: "main"
  const char *space;  ///< namespace inside it, the same form; NULL: "default"
  const char *read_domains[KILN_CACHE_LAYERS]; ///< higher domains in the same folder, read only,
                                               ///< NULL-terminated when fewer
  const char *layers[KILN_CACHE_LAYERS]; ///< folders of read-only stores, asked before the writable one;
                                         ///< domain `domain`
  uint64_t max_bytes, max_files;         ///< 0: no limit
  uint64_t min_free_bytes; ///< UINT64_MAX (initial): 256 MiB, and a fiftieth of a small file system
  uint64_t min_free_files;
  uint64_t max_entry_bytes; ///< larger entries are neither stored nor read
  uint64_t memory_bytes;    ///< of the in-memory level; 0: none
  uint32_t wait_ms;         ///< for another process that makes the same entry
  uint32_t recency_s;       ///< a hit writes the entry's time at most this often
  uint8_t level;            ///< zstd level of entries above 64 KiB, 1..19
  bool shared; ///< the folder may belong to another user, or be writable for a group; what is made in it
               ///< has the rights of its parent, less those of the umask
  bool world_writable; ///< with shared: also where everybody may write, so that anybody can plant code
  bool durable;        ///< fsync entries (for shared stores on machines that lose power)
  bool read_only;      ///< never write anything
  bool no_stats;
  bool no_read; ///< every get is a miss (--force); put replaces
  kiln_trust_policy policy;
  const kiln_trust_key *trusted; ///< borrowed until open returns
  uint32_t trusted_count;
  const uint8_t *sign_key; ///< 64 bytes Ed25519 secret key; entries put are signed; NULL: not
  bool vouched_only; ///< entries that nobody vouches for (kiln_cache_entry.vouched) are a miss, whatever
                     ///< the policy: for who signs what is made of them
  const char *remote_program; ///< kiln-remote; NULL or remote_url NULL: no remote level
  const char *remote_url;   ///< http://, https://, s3://, redis:// or rediss://; several with spaces between
  uint32_t remote_ms;       ///< deadline of one look-up
  bool remote_write;        ///< uploads too
  uint32_t remote_lease_ms; ///< with remote_write: how long to wait for another machine that makes the same
                            ///< entry; 0: machines do not wait
} kiln_cache_config;

void kiln_cache_config_init(kiln_cache_config *config);

typedef struct kiln_cache kiln_cache;

/// Opens for reading; folders are made at the first put. Thread safe afterwards: one cache, any number of
/// threads. INVALID_ARGUMENT for a bad config; DENIED when the folder is neither the caller's nor declared
/// shared, or writable for others: the text says which, and the caller goes on with a config without that
/// folder.
KILN_MUST_USE kiln_status kiln_cache_open(const kiln_cache_config *config, kiln_cache **out, kiln_error *err);
/// Writes buffered statistics and frees. Entries stay valid. NULL is allowed.
void kiln_cache_close(kiln_cache *cache);

typedef struct kiln_bytes {
  const uint8_t *bytes; ///< borrowed
  size_t size;
} kiln_bytes;

enum { KILN_ENTRY_NOT_REPRODUCIBLE = 1 };

/// What is stored under a key.
typedef struct kiln_cache_content {
  kiln_bytes metadata, diagnostics, payload;
  uint64_t cost_ns; ///< what making it took: what a hit saves
  uint32_t flags;   ///< KILN_ENTRY_
  bool here_only;   ///< of put: not uploaded
  bool unvouched;   ///< of put: made of parts that nobody vouches for, so it is not signed
  kiln_bytes name;  ///< of put: what people are shown of it; without bytes the symbol
} kiln_cache_content;

/// What get found. Valid until deinit, also after the cache was cleared or closed.
typedef struct kiln_cache_entry {
  kiln_cache_content content; ///< borrowed from `held`
  kiln_bytes fields;          ///< the stored key fields, borrowed from `held`
  kiln_digest content_digest;
  kiln_outcome outcome; ///< how it was found, or why not
  int error_number;     ///< errno of MISS_UNREADABLE
  bool vouched; ///< signed by a trusted key that may sign for the domain, or by the cache's own key. Who
                ///< signs something that is made of the entry passes on what this says. Known where the
                ///< cache has keys: with a policy or a sign_key
  void *held;   ///< owned reference; NULL after a miss
} kiln_cache_entry;

void kiln_cache_entry_deinit(kiln_cache_entry *entry);

/// Looks up. True: a complete, verified entry whose stored fields equal the key's. False: a miss,
/// `out->outcome` says which. Takes no lock, syncs nothing. The caller deinits `out` after true (after false
/// it is harmless).
bool kiln_cache_get(kiln_cache *cache, const kiln_key *key, kiln_cache_entry *out);
/// As kiln_cache_get from the stores alone, for a caller who asks again by kiln_cache_get if there is no entry that can
/// be served: false is not counted.
bool kiln_cache_get_stored(kiln_cache *cache, const kiln_key *key, kiln_cache_entry *out);
/// As kiln_cache_get_stored, for what only says which entries a command makes, or has them packed: true is no hit, since
/// those entries are counted.
bool kiln_cache_recall(kiln_cache *cache, const kiln_key *key, kiln_cache_entry *out);

/// Called for key `index` of kiln_cache_get_many when it hit; deinits `entry` in time. One call at a time, on
/// any thread.
typedef void kiln_cache_found(void *context, size_t index, kiln_cache_entry *entry);
/// Looks up many keys, each as kiln_cache_get does, and calls `each` for those that hit. What must be asked
/// of a remote side is asked at the same time: ten keys take about as long as one.
void kiln_cache_get_many(kiln_cache *cache, const kiln_key *const *keys, size_t count, kiln_cache_found *each,
                         void *context);

/// Stores. The result is for information: KILN_OK also when another writer was first; otherwise the reason,
/// which the counters have too. An entry under that key that is damaged, foreign or untrusted is replaced.
/// The in-memory level gets it in any case. A signature says: made here, of nothing or of parts that were
/// vouched for. So what is made of other entries is `unvouched` unless each of these was vouched for.
kiln_status kiln_cache_put(kiln_cache *cache, const kiln_key *key, const kiln_cache_content *content,
                           kiln_error *err);

/// Single flight. See kiln_cache_claim_key.
typedef struct kiln_cache_claim {
  int fd;     ///< -1: none
  bool alone; ///< other machines were to be asked, and could not be
} kiln_cache_claim;

/// Makes this thread the one that makes the entry, or waits for who does. True: the entry came up meanwhile
/// and is in `out`. False: make it, put it, release. Waits at most config.wait_ms for a holder, then takes
/// over (one waiter) or waits that long once more and goes on without (the others). Without working locks it
/// returns false at once: safety never rests on them. Release in both cases.
bool kiln_cache_claim_key(kiln_cache *cache, const kiln_key *key, kiln_cache_claim *claim,
                          kiln_cache_entry *out);
void kiln_cache_release(kiln_cache_claim *claim);
/// The same without waiting for another machine. False with `out_busy`: one makes it; do something else and
/// claim later. Release in every case.
bool kiln_cache_try_key(kiln_cache *cache, const kiln_key *key, kiln_cache_claim *claim,
                        kiln_cache_entry *out, bool *out_busy);
/// Before the release of a claim whose entry will not come: other machines need not wait for it.
void kiln_cache_give_up(kiln_cache *cache, const kiln_key *key);

/// Whether the work on a key that this process claimed goes on. Called once a second, on a thread of the
/// cache.
typedef bool kiln_cache_moves(void *context, const kiln_digest *key);
/// From now on other machines wait for this one's claims only as long as `moves` says so; NULL: as long as
/// this process runs. A process that is stopped reports nothing in either case. When this returns, what was
/// set before is not called any more.
void kiln_cache_watch(kiln_cache *cache, kiln_cache_moves *moves, void *context);

/// Counts an event of the caller's: COMPILED with its time, DUPLICATE, ...
void kiln_cache_count(kiln_cache *cache, kiln_outcome outcome, const kiln_digest *key, uint64_t bytes,
                      uint64_t ns);
/// How often it happened in this process since open.
uint64_t kiln_cache_counted(const kiln_cache *cache, kiln_outcome outcome);

/// What of a file its digest is of.
typedef enum kiln_file_extent {
  KILN_FILE_WHOLE = 0, ///< every byte
  KILN_FILE_LOADED =
      1, ///< what is loaded when it runs (cache/loaded.h); every byte where that cannot be said
} kiln_file_extent;

/// The digest of an open regular file, of any size, and the mark that it goes with. Files that were read
/// before and have not changed since are not read again: the store remembers them under their marks, except
/// those that changed a moment ago. `cache` NULL: nothing is remembered. IO when the file cannot be read or
/// is written to all the time.
KILN_MUST_USE kiln_status kiln_cache_file_digest(kiln_cache *cache, int fd, kiln_file_extent extent,
                                                 kiln_file_mark *out_mark, kiln_digest *out, kiln_error *err);

/// One bounded step of eviction and housekeeping, for after the output is delivered. Does nothing when
/// another process is at it.
void kiln_cache_step(kiln_cache *cache);

/// Forgets the in-memory level; entries handed out stay valid.
void kiln_cache_forget(kiln_cache *cache);
/// True when the local store has a file for it (nothing is verified).
bool kiln_cache_contains(kiln_cache *cache, const kiln_digest *key);
/// As kiln_cache_get, for a caller who has the content already: the checks of the entry are compared, it is not
/// unpacked. True counts as a hit. False says nothing, and is not counted: where somebody has to vouch for entries
/// it is always false.
bool kiln_cache_holds(kiln_cache *cache, const kiln_digest *key);
/// As if the entry had been read and served: its use is remembered and counted, with the time that this saved.
/// False: it is not there.
bool kiln_cache_touch(kiln_cache *cache, const kiln_digest *key, uint64_t saved_ns);
/// Removes one entry from memory and the writable store.
kiln_status kiln_cache_remove(kiln_cache *cache, const kiln_digest *key, kiln_error *err);

/// Says more of a field that differs and that both sides have, on lines of its own: the cache does not know
/// what the bytes mean.
typedef void kiln_explain_field(const kiln_key_part *here, const kiln_key_part *there, kiln_buffer *out);
/// Says on several lines why `key` is not served: evicted, damaged, unreadable, untrusted, or absent, with
/// the nearest entry of the store and every field in which it differs. Scans at most `limit` entries (0:
/// all). `more` may be NULL. For `kiln why` and --must-hit.
void kiln_cache_explain(kiln_cache *cache, const kiln_key *key, uint64_t limit, kiln_explain_field *more,
                        kiln_buffer *out);

#endif
