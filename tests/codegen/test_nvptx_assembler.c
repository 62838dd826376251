// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks what the vendor's tools say about kernels in the GPU form: ptxas accepts them without notes on
// products (C75xx: it repairs their order with waits of its own), spills or stack; the inner loops that
// nvdisasm shows (NVDISASM, or in PATH) have products, no local memory, and few moves to uniform registers.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/codegen.h"
#include "compiler/front.h"
#include "tests/harness.h"

enum { MOST_TO_UNIFORM = 2 };
static const char ptxas[] = "/usr/local/cuda/bin/ptxas";

static const struct {
  const char *path, *from, *config, *instance;
} kernels[] = {
    {"tests/golden/gpu_form/gemm.kiln", "BM = 64, BN = 64, BK = 32, warps = 4, stages = 3",
     "BM = 128, BN = 256, BK = 64, warps = 8, stages = 4", "gemm[T=bf16,ACT=0]"},
    {"tests/golden/gpu_form/gemm.kiln", "BM = 64, BN = 64, BK = 32, warps = 4, stages = 3",
     "BM = 128, BN = 128, BK = 64, warps = 8, stages = 4", "gemm[T=f16,ACT=0]"},
    {"tests/golden/gpu_form/gemm.kiln", "BM = 64, BN = 64, BK = 32, warps = 4, stages = 3",
     "BM = 64, BN = 64, BK = 32, warps = 4, stages = 3", "gemm[T=bf16,ACT=1]"},
    {"tests/golden/gpu_form/attention.kiln", "BM = 64, BN = 32, warps = 4, stages = 2",
     "BM = 128, BN = 128, warps = 8, stages = 2", "attention[T=bf16,D=128,CAUSAL=true]"},
    {"tests/golden/gpu_form/attention.kiln", "BM = 64, BN = 32, warps = 4, stages = 2",
     "BM = 128, BN = 128, warps = 8, stages = 2", "attention[T=bf16,D=128,CAUSAL=false]"},
    {"tests/golden/gpu_form/attention.kiln", "BM = 64, BN = 32, warps = 4, stages = 2",
     "BM = 128, BN = 64, warps = 8, stages = 2", "attention[T=f16,D=64,CAUSAL=true]"},
    {"tests/golden/gpu_form/attention.kiln", "BM = 64, BN = 32, warps = 4, stages = 2",
     "BM = 64, BN = 32, warps = 4, stages = 2", "attention[T=f16,D=64,CAUSAL=false]"},
};

static char *read_library(const char *path, const char *from, const char *to) {
  kiln_buffer out = {0};
  char *text = kiln_test_read(path, NULL), *at = text, *found;
  if (!text) FAIL("%s cannot be read", path);
  for (; (found = strstr(at, from)); at = found + strlen(from))
    kiln_buffer_format(&out, "%.*s%s", (int)(found - at), at, to);
  kiln_buffer_format(&out, "%s", at);
  kiln_buffer_u8(&out, 0);
  free(text);
  return (char *)out.bytes;
}

/// PTX of kernel `n` into a file of the test's folder.
static void write_ptx(unsigned n, const char *path) {
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_target target;
  kiln_error err = {0};
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  char *text = read_library(kernels[n].path, kernels[n].from, kernels[n].config);
  kiln_unit *unit =
      kiln_unit_open(arena, "case.kiln", text, strlen(text), &(kiln_front_options){.all_configs = true}, &d);
  if (!unit) FAIL("%s", d.items[0].text);
  size_t i = 0;
  while (i < kiln_unit_instance_count(unit) &&
         strcmp(kiln_unit_interface(unit, i)->name, kernels[n].instance))
    i++;
  CHECK(i < kiln_unit_instance_count(unit));
  CHECK_OK(kiln_target_parse("sm_90a", &target, &err), err);
  ir_kernel *kernel = kiln_unit_lower(unit, arena, i, 0, 0, &target, &d);
  CHECK(kernel != NULL);
  kiln_codegen_options_init(&options);
  options.output = KILN_FORMAT_PTX;
  CHECK_OK(kiln_codegen(kernel, &target, &options, &artifact, &err), err);
  if (!artifact.info.maps.size)
    FAIL("%s %s does not take the GPU form", kernels[n].instance, kernels[n].config);
  kiln_test_write(path, artifact.code.bytes, artifact.code.size);
  kiln_artifact_deinit(&artifact);
  kiln_arena_destroy(arena);
  free(text);
}

/// Appends what ptxas says that it should not.
static void check_log(const char *name, const char *log, kiln_buffer *faults) {
  const char *note = strstr(log, "(C75");
  if (note) kiln_buffer_format(faults, "%s: %.5s\n", name, note + 1);
  if (!strstr(log, " 0 bytes stack frame, 0 bytes spill stores"))
    kiln_buffer_format(faults, "%s: %s\n", name, log);
}

static unsigned count_lines(const char *begin, const char *end, const char *word) {
  unsigned count = 0;
  for (const char *at = begin; (at = strstr(at, word)) && at < end; at += strlen(word)) count++;
  return count;
}

/// Whether the branch `at` ends what a wait does when it has to: that stands after the kernel and goes back
/// to where the wait is, which makes no loop.
static bool ends_wait(const char *begin, const char *at) {
  unsigned lines = 0;
  while (at > begin && lines < 3) lines += *--at == '\n';
  return strstr(at, ".TRYWAIT") && strstr(at, ".TRYWAIT") < strstr(at + 1, "\n");
}

/// An innermost loop is from a label to a branch back to it with no other label's loop inside.
static void check_loops(const char *name, const char *sass, kiln_buffer *faults) {
  unsigned loops = 0;
  for (const char *label = strstr(sass, "\n.L_x_"); label; label = strstr(label + 1, "\n.L_x_")) {
    char word[40];
    int size = (int)strcspn(label + 1, ":");
    snprintf(word, sizeof word, "BRA `(%.*s)", size, label + 1);
    const char *back = strstr(label, word), *inner = label;
    if (!back || ends_wait(label, back)) continue;
    unsigned products = count_lines(label, back, "GMMA.");
    bool has_inner = false;
    while (!has_inner && (inner = strstr(inner + 1, "\n.L_x_")) && inner < back) {
      char other[40];
      snprintf(other, sizeof other, "BRA `(%.*s)", (int)strcspn(inner + 1, ":"), inner + 1);
      const char *end = strstr(inner, other);
      has_inner = end && end < back && count_lines(inner, end, "GMMA.");
    }
    if (!products || has_inner) continue;
    loops++;
    unsigned local = count_lines(label, back, "LDL") + count_lines(label, back, "STL"),
             moves = count_lines(label, back, "R2UR");
    if (local || moves > MOST_TO_UNIFORM)
      kiln_buffer_format(faults, "%s: loop %.*s: %u accesses of local memory, %u R2UR\n", name, size,
                         label + 1, local, moves);
  }
  if (!loops) kiln_buffer_format(faults, "%s: no loop with products\n", name);
}

static void check_all(void (*check)(const char *name, const char *text, kiln_buffer *faults),
                      const char *command) {
  kiln_buffer faults = {0};
  for (unsigned i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    char ptx[400], name[200], *out = NULL;
    snprintf(ptx, sizeof ptx, "%s/kernel%u", kiln_test_folder(), i);
    snprintf(name, sizeof name, "%s %s", kernels[i].instance, kernels[i].config);
    write_ptx(i, ptx);
    int status =
        kiln_test_run(&out, "{ %s -v --warn-on-spills --gpu-name sm_90a %s -o %s.cubin && %s %s.cubin; }",
                      ptxas, ptx, ptx, command, ptx);
    if (status) FAIL("%s: %s", name, out);
    check(name, out, &faults);
    free(out);
  }
  kiln_buffer_u8(&faults, 0);
  CHECK_TEXT((const char *)faults.bytes, "");
}

TEST(nvptx_assembler, log) {
  if (access(ptxas, X_OK)) SKIP("ptxas is not installed");
  check_all(check_log, "true");
}

TEST(nvptx_assembler, loops) {
  const char *given = getenv("NVDISASM"), *program = given ? given : "nvdisasm";
  char command[400];
  if (access(ptxas, X_OK)) SKIP("ptxas is not installed");
  if (kiln_test_run(NULL, "%s --version >/dev/null 2>&1", program)) SKIP("nvdisasm is not installed");
  snprintf(command, sizeof command, "%s -c", program);
  check_all(check_loops, command);
}
