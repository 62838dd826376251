// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads back from the PTX what the assembler is told about a kernel: bounds of the launch and of registers,
// alignments of parameters and shared memory, and every other mark in the LLVM form of the kernel. LLVM
// silently drops marks that another version of it spelled differently.
#include <glob.h>
#include <llvm/Config/llvm-config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/codegen.h"
#include "compiler/front.h"
#include "tests/harness.h"
#include "tests/codegen/llvm_rows.h"

// ---------------------------------------------------------------------------------------- compiling

/// What the IR says before code generation changes it.
typedef struct wanted {
  char entry[256]; // symbol
  unsigned threads, registers, param_count;
  unsigned extras;    // parameters after those of the source: grid and tensor maps of the GPU form
  unsigned blocks;    // that share a processor in the GPU form; 0: another form
  unsigned cluster;   // blocks that work on one program; 0: each works alone
  uint32_t align[64]; // of a pointer; 0: not one
  bool is_pointer[64];
} wanted;

static wanted want_of(const ir_kernel *kernel) {
  wanted w = {
      .threads = 32u * kernel->warps, .registers = kernel->max_registers, .param_count = kernel->param_count};
  CHECK(kernel->param_count <= 64);
  snprintf(w.entry, sizeof w.entry, "%s", kernel->name);
  for (uint32_t i = 0; i < kernel->param_count; i++) {
    const ir_param *p = &kernel->params[i];
    w.is_pointer[i] = p->type.pointer != 0;
    w.align[i] = p->align ? p->align : p->type.pointer > 1 ? 8 : (uint32_t)kiln_scalars[p->type.scalar].bytes;
  }
  return w;
}

/// The GPU form adds a group of four warps that copies, and parameters. Blocks that share a processor share
/// its 228 KiB, of which each loses one ("CUDA C++ Programming Guide", compute capability 9.0).
static void note_form(wanted *w, const kiln_code_info *info) {
  w->blocks = info->blocks;
  if (!w->blocks) return;
  CHECK(info->blocks * (info->shared_bytes + 1024) <= 228 * 1024);
  CHECK(info->maps.size > 0);
  w->cluster = info->cluster;
  if (info->cluster && w->threads > 256) w->threads = 256; // each has two groups of the program's warps
  if (w->threads == 128 && info->block_threads == 384)
    w->threads = 256; // accumulators that leave one group of four warps little room are shared by two
  w->threads += 128;
  w->extras = 3 + info->maps.bytes[0];
}

static char *text_of(ir_kernel *kernel, const kiln_target *target, kiln_format format, wanted *w) {
  kiln_codegen_options options;
  kiln_artifact artifact;
  kiln_error err = {0};
  kiln_codegen_options_init(&options);
  options.output = (uint8_t)format;
  CHECK_OK(kiln_codegen(kernel, target, &options, &artifact, &err), err);
  kiln_buffer_u8(&artifact.code, 0);
  CHECK(!artifact.code.failed);
  char *text = strdup((const char *)artifact.code.bytes);
  if (w) {
    note_form(w, &artifact.info);
    CHECK_INT(artifact.info.block_threads, w->threads);
  }
  kiln_artifact_deinit(&artifact);
  return text;
}

// ------------------------------------------------------------------------------------- the PTX's head

typedef struct found {
  unsigned maxntid, maxnreg, minnctapersm, maxclusterrank, reqntid, cluster;
  unsigned directives; // all that stand between the parameters and the body
  unsigned param_count;
  uint32_t align[64]; // 0: the parameter does not say
} found;

static unsigned number_behind(const char *line, const char *word) {
  const char *at = strstr(line, word);
  return at ? (unsigned)strtoul(at + strlen(word), NULL, 10) : 0;
}

/// Reads the head of the entry called `name`; the file has one.
static found read_head(const char *ptx, const char *name) {
  char opening[300];
  found f = {0};
  snprintf(opening, sizeof opening, ".visible .entry %s(", name);
  const char *at = strstr(ptx, opening);
  if (!at) FAIL("no %s in\n%.2000s", opening, ptx);
  bool in_params = true;
  for (at = strchr(at, '(') + 1; *at && *at != '{'; at++) {
    char line[300];
    size_t length = strcspn(at, "\n");
    snprintf(line, sizeof line, "%.*s", (int)length, at);
    at += length;
    if (strchr(line, ')')) in_params = false;
    if (in_params && strstr(line, ".param")) {
      CHECK(f.param_count < 64);
      f.align[f.param_count++] = number_behind(line, ".align ");
    }
    if (in_params || !strchr(line, '.')) continue;
    f.directives++;
    f.maxntid += number_behind(line, ".maxntid "), f.maxnreg += number_behind(line, ".maxnreg ");
    f.minnctapersm += number_behind(line, ".minnctapersm "), f.reqntid += number_behind(line, ".reqntid ");
    f.maxclusterrank += number_behind(line, ".maxclusterrank ");
    f.cluster += number_behind(line, ".reqnctapercluster ");
  }
  return f;
}

/// Threads start with an even share of the processor's registers, in steps of 8; `setmaxnreg.inc` waits for
/// ever for more than the block has then.
static void check_registers(const char *ptx, const wanted *w) {
  unsigned less = number_behind(ptx, "setmaxnreg.dec.sync.aligned.u32 "),
           more = number_behind(ptx, "setmaxnreg.inc.sync.aligned.u32 "), groups = w->threads / 128 - 1;
  unsigned start = 65536 / (w->threads * w->blocks) / 8 * 8;
  CHECK_INT(less != 0, more != 0);
  CHECK(less + groups * more <= start * (groups + 1));
}

static void check_head(const char *ptx, const wanted *w) {
  found f = read_head(ptx, w->entry);
  CHECK_INT(f.maxntid, w->threads);
  CHECK_INT(f.maxnreg, w->registers);
  CHECK_INT(f.minnctapersm, w->blocks);
  CHECK_INT(f.cluster, w->cluster);
  CHECK_INT(f.directives, 1 + (w->registers != 0) + (w->blocks != 0) + (w->cluster ? 2 : 0));
  if (w->blocks) check_registers(ptx, w);
  CHECK_INT(f.param_count, w->param_count + w->extras);
  for (unsigned i = 0; i < w->param_count; i++) {
    bool says = LLVM_VERSION_MAJOR >= 20 || f.align[i]; // LLVM 19 writes no alignment of pointers
    if (w->is_pointer[i] && says && f.align[i] != w->align[i])
      FAIL("parameter %u of %s: .align %u, expected %u", i, w->entry, f.align[i], w->align[i]);
  }
  for (const char *at = ptx; (at = strstr(at, ".shared .align ")); at++)
    CHECK_INT(number_behind(at, ".shared .align "), strstr(ptx, "wgmma") ? 1024 : 128);
}

// -------------------------------------------------------------------------------------- marks of LLVM

/// Attributes of functions whose number the PTX repeats after `word`.
static const struct {
  const char *attribute, *word;
} marks[] = {{"nvvm.maxntid", ".maxntid "},
             {"nvvm.reqntid", ".reqntid "},
             {"nvvm.maxnreg", ".maxnreg "},
             {"nvvm.minctasm", ".minnctapersm "},
             {"nvvm.cluster_dim", ".reqnctapercluster "},
             {"nvvm.maxclusterrank", ".maxclusterrank "}};

static void check_number(const char *at, const char *ptx, const char *name, size_t length) {
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    if (strlen(marks[i].attribute) != length || memcmp(marks[i].attribute, name, length) != 0) continue;
    CHECK_INT(number_behind(ptx, marks[i].word), number_behind(at, "\"=\""));
    return;
  }
  FAIL("%.*s: this test does not know what the PTX should say of it", (int)length, name);
}

/// A grid constant is read where the driver put it: its parameter is bytes, and nothing is copied to the
/// stack.
static void check_grid_constants(const char *llvm, const char *ptx) {
  unsigned marked = 0, bytes = 0;
  const char *define = strstr(llvm, "define ptx_kernel");
  if (!define) FAIL("no kernel in the LLVM form");
  const char *end = define + strcspn(define, "\n");
  for (const char *at = define; (at = strstr(at, "\"nvvm.grid_constant\"")) && at < end; at++) marked++;
  for (const char *at = ptx; (at = strstr(at, ".param .align 64 .b8 ")); at++) bytes++;
  if (LLVM_VERSION_MAJOR >= 21) CHECK_INT(bytes, marked); // before, marks are metadata
  if (bytes) CHECK(strstr(ptx, "__local_depot") == NULL);
}

static void check_marks(const char *llvm, const char *ptx) {
  static const char start[] = "\"nvvm.";
  check_grid_constants(llvm, ptx);
  for (const char *at = strstr(llvm, "\nattributes #"); at && (at = strstr(at, start)); at++) {
    size_t length = strcspn(at + 1, "\"");
    if (length == strlen("nvvm.grid_constant") && !memcmp(at + 1, "nvvm.grid_constant", length)) continue;
    check_number(at, ptx, at + 1, length);
  }
}

// ----------------------------------------------------------------------------------------------- tests

static void check_kernel(kiln_unit *unit, size_t instance, uint32_t variant, const kiln_target *target,
                         kiln_diagnostics *d) {
  uint32_t config = kiln_unit_first_config(unit, instance, target);
  ir_kernel *kernel = kiln_unit_lower(unit, d->arena, instance, config, variant, target, d);
  ir_kernel *again = kiln_unit_lower(unit, d->arena, instance, config, variant, target, d);
  CHECK(kernel && again);
  wanted w = want_of(kernel);
  char *ptx = text_of(kernel, target, KILN_FORMAT_PTX, &w),
       *llvm = text_of(again, target, KILN_FORMAT_LLVM, NULL);
  check_head(ptx, &w);
  check_marks(llvm, ptx);
  free(ptx), free(llvm);
}

#define KERNELS "tests/codegen/nvptx_kernels/"

/// Every instance of a source in its first config, the most special and the generic variant; how many.
static unsigned check_source(const char *file, const char *target_name) {
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_target target;
  kiln_error err = {0};
  unsigned checked = 0;
  CHECK_OK(kiln_target_parse(target_name, &target, &err), err);
  const char *source = kiln_test_text(file);
  kiln_unit *unit = kiln_unit_open(arena, file, source, strlen(source), NULL, &d);
  if (!unit) FAIL("%s is not taken", file);
  for (size_t i = 0; i < kiln_unit_instance_count(unit); i++) {
    uint32_t last = kiln_unit_interface(unit, i)->variant_count - 1;
    check_kernel(unit, i, last, &target, &d), checked++;
    if (last) check_kernel(unit, i, 0, &target, &d), checked++;
  }
  kiln_arena_destroy(arena);
  return checked;
}

TEST(nvptx_bounds, library_on_processors) {
  unsigned checked = 0;
  glob_t files;
  CHECK_INT(glob("kernels/*.kiln", 0, NULL, &files), 0);
  for (size_t t = 0; t < kiln_processor_count(); t++) {
    const kiln_processor *p = kiln_processor_at(t);
    if (p->family != KILN_FAMILY_NVPTX || !llvm_has(p->name) || !kiln_test_wants_row(p->name) ||
        (!kiln_test_full() && strcmp(p->name, "sm_90a") != 0))
      continue;
    for (size_t i = 0; i < files.gl_pathc; i++)
      if (kiln_test_wants_piece(t + i)) checked += check_source(files.gl_pathv[i], p->name);
  }
  globfree(&files);
  CHECK(checked > (getenv("KILN_TEST_PART") ? 0 : 90));
}

TEST(nvptx_bounds, limits_of_registers_and_alignments) {
  for (size_t t = 0; t < kiln_processor_count(); t++)
    if (kiln_processor_at(t)->family == KILN_FAMILY_NVPTX && llvm_has(kiln_processor_at(t)->name))
      CHECK_INT(check_source(KERNELS "limits_of_registers_and_alignments.kiln", kiln_processor_at(t)->name),
                2);
}

/// One, two, four groups of consumers, alone and with others in a processor.
TEST(nvptx_bounds, registers_that_groups_exchange) {
  CHECK_INT(check_source(KERNELS "registers_that_groups_exchange.kiln", "sm_90a"), 7);
}

/// The GPU form of this kernel cannot be lowered, which is known when its bounds are written: the first loop
/// wants the rows in registers, the second where copies put them. It is compiled as any other, and a launch
/// passes no more than its parameters: the driver refuses a buffer that is longer than they are (701).
TEST(nvptx_bounds, nothing_is_left_of_a_form_that_does_not_fit) {
  CHECK_INT(check_source(KERNELS "nothing_is_left_of_a_form_that_does_not_fit.kiln", "sm_90a"), 1);
}

/// The assembler took the bounds: a kernel held to 32 registers has no more, and one for 1024 threads fits.
TEST(nvptx_bounds, the_assembler_keeps_them) {
  static const char ptxas[] = "/usr/local/cuda/bin/ptxas";
  char *out;
  if (access(ptxas, X_OK)) SKIP("ptxas is not installed");
  int code =
      kiln_test_run(&out,
                    "%s/bin/kiln compile " KERNELS
                    "the_assembler_keeps_them.kiln -t sm_80 --no-cache --ptx-assembler=none --emit=ptx -o "
                    "%s/tight.ptx && %s -v -arch=sm_80 -o /dev/null %s/tight.ptx",
                    kiln_test_build(), kiln_test_folder(), ptxas, kiln_test_folder());
  if (code) FAIL("%s", out);
  const char *used = strstr(out, "Used ");
  if (!used) FAIL("%s", out);
  CHECK(strtoul(used + 5, NULL, 10) <= 32);
  free(out);
}

/// An assembler that says of code without .minnctapersm that it takes 32 registers and spills is asked once
/// more with it. One that was held to so many, or was told, is not.
TEST(nvptx_bounds, spills_that_more_registers_avoid) {
  static const char ptxas[] = "/usr/local/cuda/bin/ptxas";
  static const char *const heads[] = {"", " @regs(64)"};
  char tool[300], script[600], source[300];
  if (access(ptxas, X_OK)) SKIP("ptxas is not installed");
  snprintf(tool, sizeof tool, "%s/assembler", kiln_test_folder());
  int size =
      snprintf(script, sizeof script,
               "#!/bin/sh\nfor word; do case $word in /proc/*) in=${in:-$word};; esac; done\n"
               "%s \"$@\" >%s.log 2>&1 || { cat %s.log >&2; exit 1; }\n"
               "if grep -q minnctapersm $in; then cat %s.log; else\n"
               "echo 'ptxas info : 8 bytes stack frame, 900 bytes spill stores, 900 bytes spill loads'\n"
               "echo 'ptxas info : Used 32 registers'; fi >&2\n",
               ptxas, tool, tool, tool);
  kiln_test_write(tool, script, (size_t)size);
  CHECK_INT(chmod(tool, 0755), 0);
  for (unsigned held = 0; held < 2; held++) {
    kiln_arena *arena = kiln_arena_create();
    kiln_diagnostics d = {.arena = arena};
    kiln_target target;
    kiln_error err = {0};
    kiln_codegen_options options;
    kiln_artifact artifact;
    size = snprintf(source, sizeof source,
                    "kiln 1\nkernel sum(x: inout *f32 @align(16)) @grid(1) @config(warps = 4)%s {\n"
                    "  let i = iota(4096)\n  let v = load(x + i)\n  store(x + i, v / reduce.add(v, 0))\n}\n",
                    heads[held]);
    CHECK_OK(kiln_target_parse("sm_90", &target, &err), err);
    kiln_unit *unit = kiln_unit_open(arena, "t.kiln", source, (size_t)size, NULL, &d);
    if (!unit) FAIL("%s", d.items[0].text);
    ir_kernel *kernel =
        kiln_unit_lower(unit, arena, 0, kiln_unit_first_config(unit, 0, &target), 0, &target, &d);
    CHECK(kernel != NULL);
    kiln_codegen_options_init(&options);
    options.output = KILN_FORMAT_CUBIN, options.assembler = KILN_ASSEMBLER_PTXAS,
    options.assembler_path = tool;
    CHECK_OK(kiln_codegen(kernel, &target, &options, &artifact, &err), err);
    CHECK_INT(artifact.info.spill_bytes, held ? 900 : 0);
    CHECK_INT(artifact.info.registers != 32, !held);
    kiln_artifact_deinit(&artifact);
    kiln_arena_destroy(arena);
  }
}
