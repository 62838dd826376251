// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Remembers in the cache which object a `kiln compile` command made, so that an unchanged kernel is not
// parsed again.
#include "tools/build/object_memo.h"

#include <string.h>

#include "tools/build/bundle_memo.h"

static kiln_status asked_key(const session *s, const object_choice *which, kiln_key *out, kiln_error *err) {
  kiln_key_builder b;
  kiln_buffer asked = {0};
  kiln_buffer_svarint(&asked, which->config);
  kiln_buffer_svarint(&asked, which->variant);
  kiln_status status = bundle_memo_inputs(s, &asked, err);
  kiln_digest digest = kiln_digest_of(asked.bytes, asked.size);
  kiln_buffer_deinit(&asked);
  if (status != KILN_OK) return status;
  kiln_key_begin(&b, KILN_KEY_BUNDLE);
  kiln_key_bytes(&b, KILN_FIELD_IR, digest.bytes, sizeof digest.bytes);
  kiln_key_text(&b, KILN_FIELD_SYMBOL, "compile of one source");
  kiln_key_text(&b, KILN_FIELD_FORMAT, "object-name");
  kiln_key_bytes(&b, KILN_FIELD_COMPILER, s->plan.who.compiler.digest.bytes, KILN_DIGEST_SIZE);
  status = kiln_key_finish(&b, out, err);
  kiln_key_builder_deinit(&b);
  return status;
}

/// The entry of a command: the object's key, as its digest and a block of its fields, then the messages
/// (plan.said).
static bool read_kept(const kiln_cache_entry *entry, kiln_key *object, kiln_reader *said) {
  *said = kiln_reader_of(entry->content.payload.bytes, entry->content.payload.size);
  const uint8_t *digest = kiln_read_bytes(said, KILN_DIGEST_SIZE);
  object->fields = (uint8_t *)(uintptr_t)kiln_read_block(said, &object->fields_size); // borrowed
  if (!object->fields) return false;
  memcpy(object->digest.bytes, digest, KILN_DIGEST_SIZE); // the fields are compared with those of its entry
  return true;
}

bool object_memo_reuse(session *s, const object_choice *which, kiln_cache_entry *out) {
  kiln_key key, object;
  kiln_cache_entry kept;
  kiln_reader said;
  kiln_error err = {0};
  // --force and --verify-cache want no hit.
  if (!s->cache || s->force || s->verify || asked_key(s, which, &key, &err) != KILN_OK) return false;
  bool found = kiln_cache_contains(s->cache, &key.digest) && kiln_cache_get(s->cache, &key, &kept);
  kiln_key_deinit(&key);
  if (!found) return false;
  found = read_kept(&kept, &object, &said) && kiln_cache_contains(s->cache, &object.digest) &&
          kiln_cache_get(s->cache, &object, out);
  if (found) plan_say(said.at, said.left, s->quiet);
  if (found && !s->quiet) session_print_cache_notes(s, false);
  kiln_cache_entry_deinit(&kept);
  return found;
}

void object_memo_keep(session *s, const object_choice *which, const plan_job *job) {
  kiln_key key;
  kiln_buffer kept = {0}, notes = {0};
  // Useless without the object, or if another program made it than the key says.
  if (!s->cache || job->is_foreign || !kiln_cache_contains(s->cache, &job->key.digest)) return;
  session_notes(s, &notes);
  kiln_buffer_bytes(&kept, job->key.digest.bytes, KILN_DIGEST_SIZE);
  kiln_buffer_block(&kept, job->key.fields, job->key.fields_size);
  kiln_buffer_bytes(&kept, s->plan.said.bytes, s->plan.said.size);
  if (notes.size) plan_add_said(&kept, PLAN_SAID_ONCE_QUIET, notes.bytes, notes.size);
  kiln_cache_content content = {.payload = {kept.bytes, kept.size},
                                .cost_ns = s->plan.front_ns,
                                .here_only = true}; // no other machine asks for it
  if (!kept.failed && !notes.failed && asked_key(s, which, &key, NULL) == KILN_OK) {
    (void)kiln_cache_put(s->cache, &key, &content, NULL);
    kiln_key_deinit(&key);
  }
  kiln_buffer_deinit(&notes);
  kiln_buffer_deinit(&kept);
}
