// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `kiln compile`: compiles one kernel for one target and writes any stage of it.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/output.h"
#include "compiler/options.h"
#include "compiler/passes/stages.h"
#include "tools/build/bundle_memo.h"
#include "tools/build/compile_kir.h"
#include "tools/build/report.h"
#include "tools/build/session.h"
#include "tools/build/source_digest.h"
#include "tools/kiln/commands.h"

// ----------------------------------------------------------------------------- objects that were made before

// A small entry of the cache, like the one for builds (bundle_memo.h), records which object a command made and the messages
// about the source. An unchanged kernel is not parsed again.

/// Which object of the source. -1 stands for the first config and the last variant.
typedef struct object_choice {
  int64_t config, variant;
} object_choice;

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

/// After the source was looked at. True: the messages of the compile were printed, and `out` is the entry of the object,
/// for the caller to deinit; or `*out_is_there`: the file `output` (may be NULL) has the object already, by its digest,
/// and `out` is empty. False: nothing was printed, and the source must be compiled.
static bool memo_reuse(session *s, const object_choice *which, const char *output, kiln_cache_entry *out,
                       bool *out_is_there) {
  kiln_key key;
  kiln_cache_entry entry;
  kept_object kept;
  kiln_error err = {0};
  *out = (kiln_cache_entry){0};
  *out_is_there = false;
  // --force and --verify-cache want no hit.
  if (!s->cache || s->force || s->verify || asked_key(s, which, &key, &err) != KILN_OK) return false;
  bool found = kiln_cache_recall(s->cache, &key, &entry);
  kiln_key_deinit(&key);
  if (!found) return false;
  found = read_kept(&entry, &kept);
  *out_is_there = found && is_there(s, &kept, output);
  if (found && !*out_is_there) found = kiln_cache_get_stored(s->cache, &kept.key, out);
  if (found) plan_say(kept.said.at, kept.said.left, s->quiet);
  if (found && !s->quiet) session_print_cache_notes(s, false);
  kiln_cache_entry_deinit(&entry);
  return found;
}

/// Records what the command made, after all messages were printed. `job` is a hit or was just compiled.
static void memo_keep(session *s, const object_choice *which, const plan_job *job) {
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

// ----------------------------------------------------------------------------------------------- the command

typedef struct compile_command {
  session s;
  const char *output, *report, *until;
  object_choice which;
  int64_t place;
  bool times;
} compile_command;

/// The canonical IR needs no code generator: it is printed here.
static kiln_status print_ir(compile_command *c, kiln_error *err) {
  plan_job *job = &c->s.plan.jobs[0];
  kiln_buffer text = {0};
  ir_kernel *kernel;
  kiln_arena *arena = kiln_arena_create();
  kiln_status status = kiln_canonical_decode(arena, job->canonical.bytes, job->canonical.size,
                                             plan_interface(&c->s.plan, job)->symbol, &kernel, err);
  if (status == KILN_OK) {
    kiln_print_ir(kernel, &text);
    status = cli_write_file(c->output ? c->output : "-", text.bytes, text.size, err);
  }
  kiln_buffer_deinit(&text);
  kiln_arena_destroy(arena);
  return status;
}

/// Keeps only the job of the config and variant asked for.
static kiln_status choose_job(compile_command *c, kiln_error *err) {
  plan *p = &c->s.plan;
  const kiln_interface *interface = plan_interface(p, &p->jobs[0]);
  uint32_t config = c->which.config < 0 ? p->jobs[0].config : (uint32_t)c->which.config,
           variant = c->which.variant < 0 ? 0 : (uint32_t)c->which.variant;
  size_t chosen = p->job_count;
  char target[KILN_TARGET_NAME];
  for (size_t i = 0; i < p->job_count; i++) {
    if (p->jobs[i].instance != p->jobs[0].instance || p->jobs[i].source != p->jobs[0].source ||
        p->jobs[i].target != 0)
      return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                       "expected one kernel and one target, found %s and more; --kernel and --target choose",
                       interface->name);
    bool is_last = c->which.variant < 0 && p->jobs[i].variant >= variant;
    if (p->jobs[i].config != config || (p->jobs[i].variant != variant && !is_last)) continue;
    chosen = i;
    variant = p->jobs[i].variant;
  }
  bool is_known = config < interface->config_count && variant < interface->variant_count;
  if (chosen == p->job_count && is_known &&
      kiln_unit_has_config(c->s.plan.sources[p->jobs[0].source].unit, p->jobs[0].instance, config,
                           &p->targets[0]))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "%s: no launch of config %u (%s) comes to variant %u: one before it always fits",
                     interface->name, config, interface->configs[config].text, variant);
  if (chosen == p->job_count && is_known)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s has no config %u (%s) for %s", interface->name,
                     config, interface->configs[config].text, kiln_target_name(&p->targets[0], target));
  if (chosen == p->job_count)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "%s has %u configs and %u variants; config %u, variant %u does not exist",
                     interface->name, interface->config_count, interface->variant_count, config, variant);
  plan_job first = p->jobs[0]; // swapped, so that the plan still owns every job
  p->jobs[0] = p->jobs[chosen];
  p->jobs[chosen] = first;
  for (size_t i = 1; i < p->job_count; i++) p->jobs[i].state = JOB_HIT; // not asked for
  return KILN_OK;
}

static void print_times(const plan_job *job, uint64_t front_ns) {
  static const char *const names[6] = {"middle", "lower", "optimise", "emit", "assemble", "link"};
  fprintf(stderr, "%-10s %9.3f ms\n", "front", (double)front_ns / 1e6);
  for (unsigned i = 0; i < 6; i++) fprintf(stderr, "%-10s %9.3f ms\n", names[i], (double)job->times[i] / 1e6);
  fprintf(stderr, "%-10s %9.3f ms\n", job->state == JOB_HIT ? "(hit)" : "whole", (double)job->ns / 1e6);
}

static kiln_status print_report(const compile_command *c, kiln_error *err) {
  kiln_buffer text = {0};
  kiln_status status = report_print(&c->s.plan, &c->s.plan.jobs[0], *c->report != 0, &text, err);
  if (status == KILN_OK) fwrite(text.bytes, 1, text.size, stdout);
  kiln_buffer_deinit(&text);
  return status;
}

/// Whether only the object is wanted: everything else needs the source.
static bool is_plain(const compile_command *c) {
  return !c->times && !c->report && !c->until && c->place < 0 && c->s.plan.options.output != KILN_FORMAT_IR;
}

static int compile_and_print(compile_command *c) {
  kiln_error err = {0};
  execute_counts sums;
  const plan_job *job = &c->s.plan.jobs[0];
  if (c->place >= 0) {
    char text[80];
    snprintf(text, sizeof text, "operation %lld is here", (long long)c->place);
    plan_print_place(&c->s.plan, job, c->place > UINT32_MAX ? UINT32_MAX : (uint32_t)c->place, text);
    return CLI_OK;
  }
  if (c->s.plan.options.output == KILN_FORMAT_IR) {
    kiln_status status = print_ir(c, &err);
    return status == KILN_OK ? CLI_OK : cli_report(status, &err);
  }
  if (c->until) return compile_kir_job(&(compile_kir){&c->s, c->output, c->until, c->times});
  int code = session_make(&c->s, &sums);
  if (code != CLI_OK) return code;
  if (c->times) print_times(job, c->s.plan.front_ns);
  kiln_status status = c->report ? print_report(c, &err) : KILN_OK;
  if (status == KILN_OK && c->output)
    status = cli_write_file(c->output, job->code.bytes, job->code.size, &err);
  if (is_plain(c)) memo_keep(&c->s, &c->which, job);
  return status == KILN_OK ? CLI_OK : cli_report(status, &err);
}

/// The same from the cache, without parsing the source; -1 if the cache does not know it.
static int reuse_object(compile_command *c) {
  kiln_error err = {0};
  kiln_cache_entry entry;
  bool is_there;
  if (!is_plain(c) || !memo_reuse(&c->s, &c->which, c->output, &entry, &is_there)) return -1;
  const kiln_bytes *code = &entry.content.payload;
  kiln_status status = is_there ? KILN_OK : kiln_output_apart(c->output, c->s.words.items[0], &err);
  if (status == KILN_OK && c->output && !is_there)
    status = cli_write_file(c->output, code->bytes, code->size, &err);
  kiln_cache_entry_deinit(&entry);
  return status == KILN_OK ? CLI_OK : cli_report(status, &err);
}

/// A .kir file has one kernel for one target, so options that choose among several are refused.
static int compile_text(compile_command *c, const cli_page *page) {
  const session *s = &c->s;
  const struct {
    const char *name;
    bool is_given;
  } others[] = {{"config", c->which.config >= 0}, {"variant", c->which.variant >= 0},
                {"place", c->place >= 0},         {"report", c->report != NULL},
                {"kernel", s->only.count != 0},   {"instance", s->instances.count != 0},
                {"configs-all", s->all_configs},  {"warps", s->warps != 0},
                {"stages", s->stages != 0},       {"must-hit", s->must_hit},
                {"verify-cache", s->verify != 0}, {"emit=ir", s->plan.options.output == KILN_FORMAT_IR}};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (others[i].is_given)
      return cli_usage(
          page, "--%s: a .kir file is one kernel on its way, past the cache: it has nothing of that kind",
          others[i].name);
  kiln_error err = {0};
  kiln_status status = kiln_output_apart(c->output, s->words.items[0], &err);
  if (status != KILN_OK) return cli_report(status, &err);
  return compile_kir_file(&(compile_kir){&c->s, c->output, c->until, c->times}, s->words.items[0]);
}

int kiln_command_compile(int argc, char **argv) {
  compile_command c = {.which = {-1, -1}, .place = -1};
  kiln_error err = {0};
  session_init(&c.s);
  const cli_option options[] = {
      {"output", 'o', CLI_OUTPUT, &c.output, "FILE",
       "where the result goes; - is standard output (default: nowhere, only check; text of --emit=ptx, llvm, "
       "asm or ir: standard output)"},
      {"config", 0, CLI_NUMBER, &c.which.config, "N",
       "which config, from 0 in source order (the first of the target)"},
      {"variant", 0, CLI_NUMBER, &c.which.variant, "N",
       "which variant, in source order (the last, generic one)"},
      {"place", 0, CLI_NUMBER, &c.place, "N",
       "only show the place in the source of operation N, which a message named"},
      {"until", 0, CLI_TEXT, &c.until, "PASS",
       "stop after this pass (llvm: after lowering) and write the kernel as text (.kir), from which `kiln "
       "compile` continues"},
      {"time", 0, CLI_FLAG, &c.times, NULL, "print the time of each stage"},
      {"report", 0, CLI_MAYBE, &c.report, "json",
       "print what the code costs, how it accesses memory, and why not better"},
      SESSION_OPTIONS(&c.s),
  };
  const cli_page page = {
      "kiln compile [options] SOURCE",
      "Compiles one kernel for one target. --emit=ir|llvm|asm|ptx|... chooses the stage that is written.\n"
      "SOURCE may be a kernel at a stage (.kir), as --until and --print-after write it: compiling continues "
      "from there.",
      options,
      sizeof options / sizeof *options,
      NULL,
      session_codegen_option,
      &c.s,
      session_codegen_name,
      session_codegen_help,
      session_codegen_row};
  int code = cli_parse_one(&page, argc, argv, "source", &c.s.words);
  if (code == -1 && c.report && *c.report && strcmp(c.report, "json"))
    code = cli_usage(&page, "--report: expected json or nothing, found '%s'", c.report);
  if (code == -1 && c.report && c.s.plan.options.output == KILN_FORMAT_IR)
    code = cli_usage(&page, "--report: --emit=ir makes no code to report on");
  if (code == -1) code = session_check_cache(&page, &c.s);
  if (code == -1 && (c.s.must_hit || c.s.verify) && (c.until || c.s.plan.options.output == KILN_FORMAT_IR))
    code = cli_usage(&page, "--%s: what --until and --emit=ir write is not in the cache",
                     c.s.must_hit ? "must-hit" : "verify-cache");
  if (code == -1 && c.until && (c.report || c.s.plan.options.output == KILN_FORMAT_IR))
    code = cli_usage(&page, "--until: the kernel is what is written, without --report and --emit=ir");
  if (code == -1 && kiln_check_pass_name(c.until, &err) != KILN_OK)
    code = cli_usage(&page, "--until: %s", err.text);
  // Text that was asked for by --emit and nothing else goes to standard output.
  unsigned form = c.s.plan.options.output;
  bool is_text = form == KILN_FORMAT_PTX || form == KILN_FORMAT_LLVM || form == KILN_FORMAT_ASM;
  if (is_text && !c.output && !c.report && !c.times && c.place < 0 && !c.until) c.output = "-";
  if (code == -1 && plan_is_kir_path(c.s.words.items[0])) code = compile_text(&c, &page);
  if (code == -1) {
    if (c.until) c.s.no_cache = true;
    kiln_status status = session_open(&c.s, "host", &err);
    if (status == KILN_OK) status = plan_look_at_source(&c.s.plan, c.s.words.items[0], &err);
    if (status == KILN_OK) code = reuse_object(&c);
    if (status == KILN_OK && code == -1) status = plan_finish_source(&c.s.plan.sources[0], &err);
    // A file that holds the code already is not written, and costs a hit no look here.
    if (status == KILN_OK && code == -1) status = kiln_output_apart(c.output, c.s.words.items[0], &err);
    if (status == KILN_OK && code == -1 && c.output) status = kiln_output_try(c.output, &err);
    if (status == KILN_OK && code == -1) status = session_lower(&c.s, &err);
    if (status == KILN_OK && code == -1) status = choose_job(&c, &err);
    if (status != KILN_OK) code = session_report(&c.s, status, &err);
    else if (code == -1) code = compile_and_print(&c);
  }
  session_deinit(&c.s);
  return code;
}
