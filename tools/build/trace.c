// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the timeline of a build in the Trace Event Format, for chrome://tracing and Perfetto.
#include "tools/build/trace.h"

static const char *const states[] = {"pending", "hit", "compiled", "failed"};

void trace_phase(trace *t, const char *name) {
  uint64_t now = cli_now_ns();
  if (t->count && !t->phases[t->count - 1].end_ns) t->phases[t->count - 1].end_ns = now;
  if (!name || t->count == TRACE_PHASES) return;
  t->phases[t->count].name = name;
  t->phases[t->count++].start_ns = now;
}

/// One complete event ("X"), left open for arguments.
static void begin_event(kiln_buffer *out, const char *name, unsigned lane, uint64_t start_ns,
                        uint64_t length_ns) {
  kiln_buffer_format(
      out, ",\n{\"ph\": \"X\", \"pid\": 1, \"tid\": %u, \"ts\": %.3f, \"dur\": %.3f, \"name\": ", lane,
      (double)start_ns / 1e3, (double)length_ns / 1e3);
  cli_json_text(out, name);
}

static void put_lane(kiln_buffer *out, unsigned lane, const char *name, unsigned number) {
  kiln_buffer_format(
      out,
      "%s\n{\"ph\": \"M\", \"pid\": 1, \"tid\": %u, \"name\": \"thread_name\", \"args\": {\"name\": \"%s",
      lane ? "," : "", lane, name);
  if (number) kiln_buffer_format(out, " %u", number);
  kiln_buffer_format(out, "\"}}");
}

static void put_job(kiln_buffer *out, const plan *p, const plan_job *job, uint64_t origin) {
  char title[300], key[KILN_DIGEST_HEX + 1];
  if (!job->start_ns) return;
  kiln_digest_hex(&job->key.digest, key);
  begin_event(out, plan_job_title(p, job, title, sizeof title), job->lane, job->start_ns - origin, job->ns);
  kiln_buffer_format(out,
                     ", \"cat\": \"%s\", \"args\": {\"state\": \"%s\", \"key\": \"%s\", \"bytes\": %zu}}",
                     states[job->state], states[job->state], key, job->code.size);
  if (job->state != JOB_COMPILED) return;
  // The stages that the worker reported, one after another; the time left before them is the transfer to the
  // worker and back.
  uint64_t start = job->start_ns - origin;
  for (unsigned i = 0; i < PLAN_STAGES; i++) {
    if (!job->times[i]) continue;
    begin_event(out, plan_stage_names[i], job->lane, start, job->times[i]);
    kiln_buffer_format(out, ", \"cat\": \"stage\"}");
    start += job->times[i];
  }
}

kiln_status trace_write(const char *path, const trace *t, const plan *p, kiln_error *err) {
  kiln_buffer out = {0};
  uint64_t origin = t->count ? t->phases[0].start_ns : 0;
  unsigned lanes = 0;
  kiln_buffer_format(&out, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
  put_lane(&out, 0, "build", 0);
  for (size_t i = 0; i < p->job_count; i++)
    if (p->jobs[i].lane > lanes) lanes = p->jobs[i].lane;
  for (unsigned i = 1; i <= lanes; i++) put_lane(&out, i, "worker", i);
  for (unsigned i = 0; i < t->count; i++) {
    begin_event(&out, t->phases[i].name, 0, t->phases[i].start_ns - origin,
                t->phases[i].end_ns - t->phases[i].start_ns);
    kiln_buffer_format(&out, ", \"cat\": \"phase\"}");
  }
  for (size_t i = 0; i < p->job_count; i++) put_job(&out, p, &p->jobs[i], origin);
  kiln_buffer_format(&out, "\n]}\n");
  kiln_status status = out.failed ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the trace")
                                  : cli_write_file(path, out.bytes, out.size, err);
  kiln_buffer_deinit(&out);
  return status;
}
