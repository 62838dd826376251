// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes bundles, and remembers finished ones in the cache, so that a build with unchanged inputs skips the front end and
// the packing.
#include "tools/build/bundle_memo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/options.h"
#include "tools/build/pack.h"
#include "tools/build/source_digest.h"
#include "tools/common/key_file.h"

// ------------------------------------------------------------------------------------------ their keys

/// The signer, as the public half of the key; "" for an unsigned bundle.
static kiln_status signer(const session_bundle *how, char out[2 * KEY_FILE_PUBLIC + 1], kiln_error *err) {
  uint8_t secret[KEY_FILE_SECRET];
  *out = 0;
  if (!how->sign) return KILN_OK;
  KILN_TRY(key_file_secret(how->sign, secret, err));
  const uint8_t *public_half = secret + KEY_FILE_SECRET - KEY_FILE_PUBLIC;
  for (unsigned i = 0; i < KEY_FILE_PUBLIC; i++) snprintf(out + 2 * i, 3, "%02x", public_half[i]);
  memset(secret, 0, sizeof secret);
  return KILN_OK;
}

// Messages about a bundle also depend on the history of the choices.
static void add_table(kiln_key_builder *b, const session *s) {
  char hex[KILN_DIGEST_HEX + 1];
  kiln_buffer text = {0};
  kiln_buffer_text(&text, s->plan.tuned_path);
  kiln_buffer_u8(&text, s->tuned_strict);
  kiln_tuner_table_write(s->plan.tuned, &text);
  kiln_digest digest = kiln_digest_of(text.bytes, text.size);
  kiln_digest_hex(&digest, hex);
  kiln_key_named_text(b, KILN_FIELD_OPTION, "tuned", hex);
  kiln_buffer_deinit(&text);
}

/// `format` distinguishes the two keys; `made_of` is the digest of the inputs.
enum { NUMBER = 24 };

static const char *number_text(int64_t number, const char *absent, char out[NUMBER]) {
  if (!number) return absent;
  snprintf(out, NUMBER, "%" PRId64, number);
  return out;
}

static kiln_status finish_key(const session *s, const session_bundle *how, const toolchain_program *tool,
                              const char *format, const char *name, const kiln_buffer *made_of, kiln_key *out,
                              kiln_error *err) {
  char signed_by[2 * KEY_FILE_PUBLIC + 1], number[NUMBER];
  kiln_key_builder b;
  if (made_of->failed) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a key");
  KILN_TRY(signer(how, signed_by, err));
  kiln_digest digest = kiln_digest_of(made_of->bytes, made_of->size);
  kiln_key_begin(&b, KILN_KEY_BUNDLE);
  kiln_key_add(&b, KILN_FIELD_IR, NULL, digest.bytes, sizeof digest.bytes);
  kiln_key_text(&b, KILN_FIELD_SYMBOL, name);
  kiln_key_text(&b, KILN_FIELD_FORMAT, format);
  kiln_key_named_text(&b, KILN_FIELD_OPTION, "level", number_text(how->level, "3", number));
  kiln_key_named_text(&b, KILN_FIELD_OPTION, "dictionary", how->dictionary ? how->dictionary : "auto");
  kiln_key_named_text(&b, KILN_FIELD_OPTION, "max-size", number_text(how->max_size, "", number));
  kiln_key_named_text(&b, KILN_FIELD_OPTION, "signer", signed_by);
  if (s->plan.tuned) add_table(&b, s);
  kiln_key_add(&b, KILN_FIELD_COMPILER, NULL, tool->digest.bytes, KILN_DIGEST_SIZE);
  kiln_status status = kiln_key_finish(&b, out, err);
  kiln_key_builder_deinit(&b);
  return status;
}

static kiln_status bundle_key(const session *s, const session_bundle *how, const toolchain_program *tool,
                              kiln_key *out, kiln_error *err) {
  char name[64];
  kiln_buffer made_of = {0};
  pack_manifest(&s->plan, true, &made_of);
  snprintf(name, sizeof name, "bundle of %zu objects", s->plan.job_count);
  kiln_status status = finish_key(s, how, tool, "kbundle", name, &made_of, out, err);
  kiln_buffer_deinit(&made_of);
  return status;
}

static void add_list(kiln_buffer *out, const cli_list *list) {
  kiln_buffer_varint(out, list->count);
  for (size_t i = 0; i < list->count; i++) kiln_buffer_text(out, list->items[i]);
}

static void add_source(kiln_buffer *out, const plan_source *source) {
  const kiln_digest text = plan_source_digest(source),
                    metadata = source_digest_of(source->metadata.bytes, source->metadata.size);
  kiln_buffer_text(out, source->path);
  kiln_buffer_bytes(out, text.bytes, sizeof text.bytes);
  kiln_buffer_bytes(out, metadata.bytes, sizeof metadata.bytes);
}

kiln_status bundle_memo_inputs(const session *s, kiln_buffer *out, kiln_error *err) {
  const plan *p = &s->plan;
  const int64_t numbers[] = {s->warps,       s->stages,          (int64_t)p->max_jobs,
                             s->all_configs, s->assembler_given, s->for_tuning};
  char target[KILN_TARGET_NAME];
  kiln_digest self;
  KILN_TRY(toolchain_self(&self, s->cache, err));
  kiln_buffer_bytes(out, self.bytes, sizeof self.bytes);
  kiln_buffer_bytes(out, p->who.compiler.digest.bytes, KILN_DIGEST_SIZE);
  kiln_buffer_text(out, p->who.assembler.text);
  kiln_codegen_options_encode(&p->options, out);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) kiln_buffer_svarint(out, numbers[i]);
  kiln_buffer_varint(out, p->target_count);
  for (size_t i = 0; i < p->target_count; i++)
    kiln_buffer_text(out, kiln_target_name(&p->targets[i], target));
  add_list(out, &s->instances);
  add_list(out, &s->only);
  kiln_buffer_varint(out, p->source_count);
  for (size_t i = 0; i < p->source_count; i++) add_source(out, &p->sources[i]);
  return out->failed ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a key") : KILN_OK;
}

static kiln_status asked_key(const session *s, const session_bundle *how, const toolchain_program *tool,
                             kiln_key *out, kiln_error *err) {
  char name[64];
  kiln_buffer asked = {0};
  snprintf(name, sizeof name, "build of %zu sources", s->plan.source_count);
  kiln_status status = bundle_memo_inputs(s, &asked, err);
  if (status == KILN_OK) status = finish_key(s, how, tool, "bundle-name", name, &asked, out, err);
  kiln_buffer_deinit(&asked);
  return status;
}

// -------------------------------------------------------------------------------- what came of a command

/// What tuning leaves out is reported at each build.
static bool may_skip_sources(const session *s) { return s->cache && !s->for_tuning; }

/// Whether a bundle of the plan's objects may be signed: each was just compiled, or has a trusted signature.
static bool is_vouched(const plan *p) {
  for (size_t i = 0; i < p->job_count; i++)
    if (p->jobs[i].state != JOB_COMPILED && !p->jobs[i].is_vouched) return false;
  return true;
}

/// The entry: the fields of the bundle's key as a block, the count of objects, the digest of each one's key.
static void keep_asked(session *s, const session_bundle *how, const toolchain_program *tool,
                       const kiln_key *bundle, bool vouched) {
  kiln_key key;
  kiln_buffer found = {0};
  if (!may_skip_sources(s) || s->plan.has_spoken || asked_key(s, how, tool, &key, NULL) != KILN_OK) return;
  kiln_buffer_block(&found, bundle->fields, bundle->fields_size);
  kiln_buffer_varint(&found, s->plan.job_count);
  for (size_t i = 0; i < s->plan.job_count; i++)
    kiln_buffer_bytes(&found, s->plan.jobs[i].key.digest.bytes, KILN_DIGEST_SIZE);
  kiln_cache_content content = {.payload = {found.bytes, found.size},
                                .cost_ns = s->plan.front_ns,
                                .here_only = true,
                                .unvouched = !vouched};
  if (!found.failed) (void)kiln_cache_put(s->cache, &key, &content, NULL);
  kiln_buffer_deinit(&found);
  kiln_key_deinit(&key);
}

/// Stores a bundle that has all its objects, each made as its key says. A failure only costs the next build
/// time. `cost`: nanoseconds of packing.
static void keep_bundle(session *s, const session_bundle *how, toolchain_program *tool,
                        const kiln_buffer *bundle, uint64_t cost) {
  kiln_key key;
  kiln_buffer notes = {0};
  for (size_t i = 0; i < s->plan.job_count; i++) {
    if (s->plan.jobs[i].state == JOB_FAILED || s->plan.jobs[i].is_foreign) return;
    cost += s->plan.jobs[i].cost_ns;
  }
  if (!toolchain_program_is_unchanged(tool) || bundle_key(s, how, tool, &key, NULL) != KILN_OK) return;
  session_notes(s, &notes);
  kiln_cache_content content = {.diagnostics = {notes.bytes, notes.size},
                                .payload = {bundle->bytes, bundle->size},
                                .cost_ns = cost,
                                .here_only = true, // no other machine asks for it
                                .unvouched = !is_vouched(&s->plan)};
  (void)kiln_cache_put(s->cache, &key, &content, NULL);
  keep_asked(s, how, tool, &key, !content.unvouched);
  kiln_buffer_deinit(&notes);
  kiln_key_deinit(&key);
}

kiln_status session_write_bundle(session *s, const session_bundle *how, kiln_error *err) {
  toolchain_program tool;
  kiln_buffer bundle = {0};
  uint64_t start = cli_now_ns();
  KILN_TRY(toolchain_program_open(&tool, "kiln-tool", s->cache, err));
  kiln_status status = pack_bundle(s, how, &tool, &bundle, err);
  if (status == KILN_OK) status = pack_write(how, bundle.bytes, bundle.size, err);
  if (status == KILN_OK && s->cache) keep_bundle(s, how, &tool, &bundle, cli_now_ns() - start);
  kiln_buffer_deinit(&bundle);
  close(tool.fd);
  return status;
}

// --------------------------------------------------------------------------------------------- finding

/// True when the cache has the bundle of this key, and it was written. `out_vouched`: it has a trusted
/// signature. `out_ns`: what it took to make it.
static bool deliver_kept(session *s, const session_bundle *how, const kiln_key *key, bool *out_vouched,
                         uint64_t *out_ns) {
  kiln_cache_entry entry;
  kiln_error err = {0};
  if (!kiln_cache_recall(s->cache, key, &entry)) return false;
  bool done = pack_write(how, entry.content.payload.bytes, entry.content.payload.size, &err) == KILN_OK;
  *out_vouched = entry.vouched;
  *out_ns = entry.content.cost_ns;
  if (done && !s->quiet && entry.content.diagnostics.size)
    fwrite(entry.content.diagnostics.bytes, 1, entry.content.diagnostics.size, stderr);
  kiln_cache_entry_deinit(&entry);
  return done;
}

/// Object `index` of `count` was served with its bundle, and has its share of the time that this saved.
static void count_served(session *s, const kiln_digest *object, uint64_t bundle_ns, size_t index,
                         size_t count) {
  const uint64_t ns = bundle_ns / count + (index < bundle_ns % count);
  if (!kiln_cache_touch(s->cache, object, ns))
    kiln_cache_count(s->cache, KILN_OUTCOME_HIT_LOCAL, object, 0, ns);
}

/// Opens the writer, if a finished bundle may be reused at all.
static bool open_writer(const session *s, toolchain_program *tool) {
  kiln_error err = {0};
  return s->cache && !s->force && !s->verify &&
         toolchain_program_open(tool, "kiln-tool", s->cache, &err) == KILN_OK;
}

bool session_reuse_bundle(session *s, const session_bundle *how, execute_counts *sums) {
  toolchain_program tool;
  kiln_key key = {0};
  kiln_error err = {0};
  bool vouched;
  uint64_t ns;
  memset(sums, 0, sizeof *sums);
  if (!open_writer(s, &tool)) return false;
  bool found = bundle_key(s, how, &tool, &key, &err) == KILN_OK && deliver_kept(s, how, &key, &vouched, &ns);
  for (size_t i = 0; found && i < s->plan.job_count; i++) {
    s->plan.jobs[i].state = JOB_HIT;
    count_served(s, &s->plan.jobs[i].key.digest, ns, i, s->plan.job_count);
    sums->hits++;
  }
  if (found) keep_asked(s, how, &tool, &key, vouched);
  kiln_key_deinit(&key);
  close(tool.fd);
  return found;
}

/// The bundle's key borrows its fields from the entry.
static bool read_asked(const kiln_cache_entry *entry, kiln_key *bundle, const uint8_t **digests,
                       size_t *count) {
  kiln_reader r = kiln_reader_of(entry->content.payload.bytes, entry->content.payload.size);
  bundle->fields = (uint8_t *)(uintptr_t)kiln_read_block(&r, &bundle->fields_size);
  if (!bundle->fields) return false;
  bundle->digest = kiln_digest_of(bundle->fields, bundle->fields_size);
  *count = (size_t)kiln_read_count(&r, entry->content.payload.size / KILN_DIGEST_SIZE);
  *digests = kiln_read_bytes(&r, *count * KILN_DIGEST_SIZE);
  return kiln_read_done(&r);
}

/// Does what session_reuse_bundle does, with only the keys of the objects.
static bool deliver_asked(session *s, const session_bundle *how, const kiln_cache_entry *entry,
                          execute_counts *sums) {
  kiln_key bundle;
  kiln_digest object;
  const uint8_t *digests;
  size_t count;
  bool vouched;
  uint64_t ns;
  if (!read_asked(entry, &bundle, &digests, &count) || !deliver_kept(s, how, &bundle, &vouched, &ns))
    return false;
  for (sums->hits = 0; sums->hits < count; sums->hits++) {
    memcpy(object.bytes, digests + sums->hits * KILN_DIGEST_SIZE, sizeof object.bytes);
    count_served(s, &object, ns, sums->hits, count);
  }
  return true;
}

bool session_reuse_build(session *s, const session_bundle *how, execute_counts *sums) {
  toolchain_program tool;
  kiln_key key;
  kiln_cache_entry entry;
  kiln_error err = {0};
  memset(sums, 0, sizeof *sums);
  if (!may_skip_sources(s) || !open_writer(s, &tool)) return false;
  kiln_status status = asked_key(s, how, &tool, &key, &err);
  close(tool.fd);
  if (status != KILN_OK) return false;
  bool found = kiln_cache_recall(s->cache, &key, &entry);
  kiln_key_deinit(&key);
  if (!found) return false;
  found = deliver_asked(s, how, &entry, sums);
  kiln_cache_entry_deinit(&entry);
  return found;
}
