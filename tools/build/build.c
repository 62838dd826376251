// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `kiln build`: compiles many sources for many targets into one bundle.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/output.h"
#include "base/plural.h"
#include "tools/kiln/commands.h"
#include "tools/build/depfile.h"
#include "tools/build/session.h"
#include "tools/build/trace.h"
#include "tools/build/tuning.h"

typedef struct build {
  session s;
  session_bundle bundle;
  trace timeline;
  const char *depfile, *trace;
  bool json, keep_going;
} build;

/// Makes the text of the dependency file. Called before anything is built, to find out whether the names can
/// be written.
static kiln_status list_dependencies(const build *b, kiln_buffer *text, kiln_error *err) {
  const cli_list *lists[] = {&b->s.words, &b->s.plan.tuned_files};
  KILN_TRY(depfile_name(text, b->bundle.output, true, err));
  kiln_buffer_u8(text, ':');
  for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
    for (size_t i = 0; i < lists[l]->count; i++) {
      kiln_buffer_u8(text, ' ');
      KILN_TRY(depfile_name(text, lists[l]->items[i], false, err));
    }
  kiln_buffer_u8(text, '\n');
  return KILN_OK;
}

static kiln_status write_depfile(const build *b, kiln_error *err) {
  kiln_buffer text = {0};
  kiln_status status = list_dependencies(b, &text, err);
  if (status == KILN_OK) status = cli_write_file(b->depfile, text.bytes, text.size, err);
  kiln_buffer_deinit(&text);
  return status;
}

static kiln_status check_depfile(const build *b, kiln_error *err) {
  kiln_buffer text = {0};
  kiln_status status = b->depfile ? list_dependencies(b, &text, err) : KILN_OK;
  kiln_buffer_deinit(&text);
  return status;
}

/// No output is an input or another output. Before anything is read, since a trace is written after an error too.
static kiln_status check_outputs(const build *b, kiln_error *err) {
  const char *outputs[] = {b->bundle.output, b->depfile, b->trace};
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
    for (size_t k = 0; k < i; k++) KILN_TRY(kiln_output_apart(outputs[i], outputs[k], err));
    for (size_t k = 0; k < b->s.words.count; k++)
      KILN_TRY(kiln_output_apart(outputs[i], b->s.words.items[k], err));
    KILN_TRY(kiln_output_apart(outputs[i], b->s.tuned, err));
  }
  return KILN_OK;
}

/// The sources that --keep-going left out.
static void put_failed_sources(const plan *p, kiln_buffer *out) {
  size_t count = 0;
  for (size_t i = 0; i < p->source_count; i++) {
    if (!p->sources[i].error.status) continue;
    kiln_buffer_format(out, count++ ? ", {\"source\": " : ", \"failed_sources\": [{\"source\": ");
    cli_json_text(out, p->sources[i].path);
    cli_json_error(out, &p->sources[i].error, &p->sources[i].place);
    kiln_buffer_u8(out, '}');
  }
  if (count) kiln_buffer_u8(out, ']');
}

/// `err`: what ended the build, if anything did.
static void print_json(const build *b, const execute_counts *sums, const kiln_error *err) {
  const plan *p = &b->s.plan;
  static const char *const states[] = {"pending", "hit", "compiled", "failed"};
  kiln_buffer out = {0};
  char target[KILN_TARGET_NAME], key[KILN_DIGEST_HEX + 1];
  kiln_buffer_format(
      &out, "{\"objects\": %zu, \"hits\": %zu, \"compiled\": %zu, \"failed\": %zu, \"front_ns\": %llu",
      p->job_count, sums->hits, sums->compiled, sums->failed, (unsigned long long)p->front_ns);
  if (err->status) cli_json_error(&out, err, NULL);
  put_failed_sources(p, &out);
  kiln_buffer_format(&out, ", \"jobs\": [");
  for (size_t i = 0; i < p->job_count; i++) {
    const plan_job *job = &p->jobs[i];
    const kiln_interface *interface = plan_interface(p, job);
    kiln_digest_hex(&job->key.digest, key);
    kiln_buffer_format(&out, "%s\n {\"kernel\": ", i ? "," : "");
    cli_json_text(&out, interface->name);
    kiln_buffer_format(&out, ", \"config\": ");
    cli_json_text(&out, interface->configs[job->config].text);
    kiln_buffer_format(&out, ", \"variant\": ");
    cli_json_text(&out, interface->variants[job->variant].text);
    kiln_buffer_format(
        &out, ", \"target\": \"%s\", \"key\": \"%s\", \"state\": \"%s\", \"bytes\": %zu, \"ns\": %llu",
        kiln_target_name(&p->targets[job->target], target), key, states[job->state], job->code.size,
        (unsigned long long)job->ns);
    for (unsigned t = 0; t < PLAN_STAGES && job->state == JOB_COMPILED; t++)
      kiln_buffer_format(&out, ", \"%s_ns\": %llu", plan_stage_names[t], (unsigned long long)job->times[t]);
    if (job->state == JOB_FAILED)
      cli_json_error(&out, &job->error, job->place ? job->place : &(cli_place){0});
    kiln_buffer_u8(&out, '}');
  }
  kiln_buffer_format(&out, "\n]}\n");
  fwrite(out.bytes, 1, out.size, stdout);
  kiln_buffer_deinit(&out);
}

/// Writes what was made. `is_written`: the cache had the bundle.
static kiln_status write_bundle(build *b, bool is_written, kiln_error *err) {
  trace_phase(&b->timeline, "write the bundle");
  if (b->s.tuned_strict && !is_written) KILN_TRY(tuning_check_codes(&b->s.plan, err));
  if (!is_written) KILN_TRY(session_write_bundle(&b->s, &b->bundle, err));
  return b->depfile ? write_depfile(b, err) : KILN_OK;
}

static int finish(build *b, execute_counts *sums, uint64_t start, int code, bool is_written,
                  kiln_error *err) {
  const plan *p = &b->s.plan;
  size_t sources = 0;
  for (size_t i = 0; i < p->source_count; i++) sources += p->sources[i].error.status != KILN_OK;
  sums->failed = plan_failures(p) - sources;
  if (code != CLI_OK && (!b->keep_going || sums->failed == p->job_count)) {
    fprintf(stderr, "kiln: %zu of %zu objects failed; %s was not written\n", sums->failed, p->job_count,
            b->bundle.output);
    return code;
  }
  kiln_status status = write_bundle(b, is_written, err);
  if (status != KILN_OK) return cli_report(status, err);
  const size_t count = is_written ? sums->hits : p->job_count;
  if (!b->s.quiet && !b->json)
    printf("%s: %zu object%s, %zu from the cache, %zu compiled, %zu failed, in %.2f s\n", b->bundle.output,
           count, kiln_plural(count), sums->hits, sums->compiled, sums->failed,
           (double)(cli_now_ns() - start) / 1e9);
  if (sources && b->s.quiet < 2)
    fprintf(stderr, "kiln: note: %zu of %zu sources are left out of %s\n", sources, p->source_count,
            b->bundle.output);
  return code;
}

/// Refuses options that contradict each other; -1: none do.
static int check_options(const cli_page *page, const build *b, bool without) {
  int code = session_check_cache(page, &b->s);
  if (code != -1) return code;
  if (!b->s.words.count) return cli_usage(page, "no source was named");
  if (b->s.key && !b->s.for_tuning) return cli_usage(page, "--key is of --tuning");
  if (without && b->s.tuned) return cli_usage(page, "--no-tuned and --tuned were both given");
  return session_check_bundle(page, &b->bundle);
}

static int make_bundle(build *b, uint64_t start) {
  execute_counts sums = {0};
  kiln_error err = {0};
  bool may_reuse = !b->json && !b->trace; // they tell of each object, so each is looked up
  int code;
  kiln_status status = check_outputs(b, &err);
  if (status != KILN_OK) return cli_report(status, &err);
  trace_phase(&b->timeline, "read, check and lower sources");
  status = session_read(&b->s, "host", &err);
  if (status == KILN_OK) status = check_depfile(b, &err);
  bool is_there = status == KILN_OK && may_reuse && session_reuse_build(&b->s, &b->bundle, &sums);
  // Whether the bundle can be written shows before minutes of compiling. What the cache has is written at once.
  if (status == KILN_OK && !is_there) status = kiln_output_try(b->bundle.output, &err);
  if (status == KILN_OK && !is_there) status = session_lower(&b->s, &err);
  may_reuse &= !plan_failures(&b->s.plan);
  trace_phase(&b->timeline, "look up and compile");
  if (status == KILN_OK && !is_there) is_there = may_reuse && session_reuse_bundle(&b->s, &b->bundle, &sums);
  if (status != KILN_OK) code = session_report(&b->s, status, &err);
  else code = is_there ? CLI_OK : session_make(&b->s, &sums);
  if (status == KILN_OK) code = finish(b, &sums, start, code, is_there, &err);
  trace_phase(&b->timeline, NULL);
  if (b->json) print_json(b, &sums, &err);
  status = b->trace ? trace_write(b->trace, &b->timeline, &b->s.plan, &err) : KILN_OK;
  return status == KILN_OK ? code : cli_report(status, &err);
}

int kiln_command_build(int argc, char **argv) {
  build b = {.bundle.output = "kernels.kbundle"};
  uint64_t start = cli_now_ns();
  bool without = false;
  session_init(&b.s);
  b.s.plan.with_launched = true;
  const cli_option options[] = {
      {"output", 'o', CLI_OUTPUT, &b.bundle.output, "FILE", "the bundle to write (default: kernels.kbundle)"},
      SESSION_OPTIONS(&b.s),
      SESSION_BUNDLE_OPTIONS(&b.bundle),
      {"tuned", 0, CLI_INPUT, &b.s.tuned, "TABLE",
       "take the choices of a table of `kiln tune`, or of a folder's *.table, into the bundle"},
      {"no-tuned", 0, CLI_FLAG, &without, NULL,
       "without --tuned: also ignore the tables of the folder `tuned` next to a source"},
      {"tuned-strict", 0, CLI_FLAG, &b.s.tuned_strict, NULL,
       "refuse choices that were measured with different code"},
      {"tuning", 0, CLI_FLAG, &b.s.for_tuning, NULL,
       "every config, and what `kiln tune` needs: a bundle to measure, not to ship"},
      {"key", 0, CLI_TEXT, &b.s.key, "NAMES",
       "with --tuning, for Triton IR: the integer parameters that a choice depends on, separated by commas "
       "(all)"},
      {"fleet", 0, CLI_TEXT, &b.s.fleet, "redis://...",
       "share the build with every machine that runs this command with this server: each object is compiled "
       "once"},
      {"depfile", 0, CLI_OUTPUT, &b.depfile, "FILE", "write a dependency file for make and ninja"},
      {"trace", 0, CLI_OUTPUT, &b.trace, "FILE",
       "write the build as a timeline for chrome://tracing or Perfetto"},
      {"keep-going", 0, CLI_FLAG, &b.keep_going, NULL,
       "write the bundle without the sources and kernels that failed; the exit code stays 1"},
      {"json", 0, CLI_FLAG, &b.json, NULL, "print every object with its key, state and times as JSON"},
  };
  const cli_page page = {
      "kiln build [options] SOURCE...",
      "Compiles every kernel of the sources (.kiln, .ttir) for every target and writes one bundle. What the "
      "cache has is not\n"
      "compiled again. Exit codes: 0 done, 1 something failed (each kernel is named), 2 wrong command line.",
      options,
      sizeof options / sizeof *options,
      NULL,
      session_codegen_option,
      &b.s,
      session_codegen_name,
      session_codegen_help,
      session_codegen_row};
  int code = cli_parse(&page, argc, argv, &b.s.words);
  if (code == -1) code = check_options(&page, &b, without);
  b.s.plan.keep_going = b.keep_going;
  cli_json_on_failure(false); // what ended the build is in its JSON
  b.s.beside = !without;
  b.s.sign = b.bundle.sign;
  b.s.fleet = cli_keep_address(b.s.fleet);
  if (code == -1) code = make_bundle(&b, start);
  session_deinit(&b.s);
  return code;
}
