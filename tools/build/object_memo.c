// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Remembers in the cache which object a `kiln compile` command made, so that an unchanged kernel is not
// parsed again.
#include "tools/build/object_memo.h"

#include <string.h>
#include <sys/stat.h>

#include "tools/build/bundle_memo.h"
#include "tools/build/source_digest.h"

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
  kiln_key_add(&b, KILN_FIELD_IR, NULL, digest.bytes, sizeof digest.bytes);
  kiln_key_text(&b, KILN_FIELD_SYMBOL, "compile of one source");
  kiln_key_text(&b, KILN_FIELD_FORMAT, "object-digest");
  kiln_key_add(&b, KILN_FIELD_COMPILER, NULL, s->plan.who.compiler.digest.bytes, KILN_DIGEST_SIZE);
  status = kiln_key_finish(&b, out, err);
  kiln_key_builder_deinit(&b);
  return status;
}

/// The entry of a command.
typedef struct kept_object {
  kiln_key key;           ///< of the object; its fields are borrowed
  kiln_bytes code_digest; ///< BLAKE3 of the object, borrowed
  uint64_t code_size;
  kiln_reader said; ///< the messages (plan.said)
} kept_object;

static bool read_kept(const kiln_cache_entry *entry, kept_object *out) {
  kiln_reader *r = &out->said;
  *r = kiln_reader_of(entry->content.payload.bytes, entry->content.payload.size);
  const uint8_t *digest = kiln_read_bytes(r, KILN_DIGEST_SIZE);
  out->code_digest = (kiln_bytes){kiln_read_bytes(r, KILN_DIGEST_SIZE), KILN_DIGEST_SIZE};
  out->code_size = kiln_read_u64(r);
  out->key.fields = (uint8_t *)(uintptr_t)kiln_read_block(r, &out->key.fields_size);
  if (!out->key.fields) return false;
  memcpy(out->key.digest.bytes, digest, KILN_DIGEST_SIZE); // the fields are compared with those of its entry
  return true;
}

/// Whether the output is a file with the object in it: then the object's entry is not unpacked.
static bool is_there(session *s, const kept_object *kept, const char *output) {
  kiln_digest digest;
  struct stat st;
  return output && !lstat(output, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size == kept->code_size &&
         source_digest_of_file(output, (size_t)kept->code_size, &digest) &&
         !memcmp(digest.bytes, kept->code_digest.bytes, sizeof digest.bytes) &&
         kiln_cache_holds(s->cache, &kept->key.digest);
}

bool object_memo_reuse(session *s, const object_choice *which, const char *output, kiln_cache_entry *out,
                       bool *out_is_there) {
  kiln_key key;
  kiln_cache_entry entry;
  kept_object kept;
  kiln_error err = {0};
  *out = (kiln_cache_entry){0};
  *out_is_there = false;
  // --force and --verify-cache want no hit.
  if (!s->cache || s->force || s->verify || asked_key(s, which, &key, &err) != KILN_OK) return false;
  bool found = kiln_cache_contains(s->cache, &key.digest) && kiln_cache_get(s->cache, &key, &entry);
  kiln_key_deinit(&key);
  if (!found) return false;
  found = read_kept(&entry, &kept);
  *out_is_there = found && is_there(s, &kept, output);
  if (found && !*out_is_there)
    found = kiln_cache_contains(s->cache, &kept.key.digest) && kiln_cache_get(s->cache, &kept.key, out);
  if (found) plan_say(kept.said.at, kept.said.left, s->quiet);
  if (found && !s->quiet) session_print_cache_notes(s, false);
  kiln_cache_entry_deinit(&entry);
  return found;
}

void object_memo_keep(session *s, const object_choice *which, const plan_job *job) {
  kiln_key key;
  kiln_buffer kept = {0}, notes = {0};
  // Useless without the object, or if another program made it than the key says.
  if (!s->cache || job->is_foreign || !kiln_cache_contains(s->cache, &job->key.digest)) return;
  session_notes(s, &notes);
  kiln_digest code = source_digest_of(job->code.bytes, job->code.size);
  kiln_buffer_bytes(&kept, job->key.digest.bytes, KILN_DIGEST_SIZE);
  kiln_buffer_bytes(&kept, code.bytes, KILN_DIGEST_SIZE);
  kiln_buffer_u64(&kept, job->code.size);
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
