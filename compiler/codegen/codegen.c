// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of code generation: middle, lowering, verify, optimise, emit, finish. Each step is timed; each
// has its own file.
#include "compiler/codegen.h"

#include <llvm-c/Core.h>
#include <llvm/Config/llvm-config.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "compiler/codegen/finish/finish.h"
#include "compiler/codegen/llvm/llvm_module.h"
#include "compiler/codegen/llvm/llvm_target.h"
#include "compiler/codegen/lower.h"
#include "compiler/front.h"
#include "compiler/gpu/gpu.h"
#include "compiler/middle/pipeline.h"

// One compile while it runs.
typedef struct compile {
  ir_kernel *kernel;                   // borrowed
  const kiln_target *target;           // borrowed
  const kiln_codegen_options *options; // borrowed
  kiln_artifact *artifact;             // borrowed
  LLVMContextRef context;              // owned
  LLVMModuleRef module;                // owned
  LLVMTargetMachineRef machine;        // the thread's cache
  kiln_buffer object;                  // owned: what LLVM emitted
  kiln_buffer producer;                // owned
  kiln_error caught;                   // first error that LLVM reported
  ir_kernel *plain;                    // the kernel as it came, when it is to be tried in the GPU form first
  bool is_wide;                        // the kernel may use all registers: see keep_accumulators_near
} compile;

void kiln_artifact_deinit(kiln_artifact *artifact) {
  kiln_buffer_deinit(&artifact->code);
  kiln_buffer_deinit(&artifact->printed);
  kiln_arena_destroy(artifact->texts);
  memset(artifact, 0, sizeof *artifact);
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// ------------------------------------------------------------------------------------------ format

// Which forms a family has. The first row of a family is what `auto` means (NVPTX: see resolve_format).
static const struct {
  kiln_family family;
  kiln_format format;
} formats[] = {
    {KILN_FAMILY_NVPTX, KILN_FORMAT_PTX},  {KILN_FAMILY_NVPTX, KILN_FORMAT_CUBIN},
    {KILN_FAMILY_NVPTX, KILN_FORMAT_IR},   {KILN_FAMILY_NVPTX, KILN_FORMAT_LLVM},
    {KILN_FAMILY_NVPTX, KILN_FORMAT_ASM},  {KILN_FAMILY_AMDGPU, KILN_FORMAT_HSACO},
    {KILN_FAMILY_AMDGPU, KILN_FORMAT_IR},  {KILN_FAMILY_AMDGPU, KILN_FORMAT_LLVM},
    {KILN_FAMILY_AMDGPU, KILN_FORMAT_ASM}, {KILN_FAMILY_HOST, KILN_FORMAT_HOST},
    {KILN_FAMILY_HOST, KILN_FORMAT_IR},    {KILN_FAMILY_HOST, KILN_FORMAT_LLVM},
    {KILN_FAMILY_HOST, KILN_FORMAT_ASM},
};
enum { FORMAT_COUNT = sizeof formats / sizeof *formats };

static kiln_status refuse_format(const kiln_target *target, unsigned wanted, kiln_error *err) {
  char list[64] = "", name[KILN_TARGET_NAME];
  for (size_t i = 0; i < FORMAT_COUNT; i++)
    if (formats[i].family == target->processor->family)
      strcat(strcat(list, list[0] ? ", " : ""), kiln_format_name(formats[i].format));
  return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "%s has no form '%s'; it has %s",
                   kiln_target_name(target, name), kiln_format_name(wanted), list);
}

static kiln_status resolve_format(compile *c, kiln_error *err) {
  kiln_family family = c->target->processor->family;
  unsigned wanted = c->options->output;
  if (!wanted && family == KILN_FAMILY_NVPTX && c->options->assembler != KILN_ASSEMBLER_NONE)
    wanted = KILN_FORMAT_CUBIN;
  for (size_t i = 0; i < FORMAT_COUNT; i++) {
    if (formats[i].family != family || (wanted && formats[i].format != wanted)) continue;
    c->artifact->info.format = (uint8_t)formats[i].format;
    return KILN_OK;
  }
  return refuse_format(c->target, wanted, err);
}

// ------------------------------------------------------------------------------------------- steps

static kiln_status check_pass_name(const char *name, kiln_error *err) {
  if (!name || !strcmp(name, "all") || ir_find_pass(kiln_middle_passes, kiln_middle_pass_count, name) ||
      ir_find_pass(kiln_gpu_passes, kiln_gpu_pass_count, name))
    return KILN_OK;
  char list[400] = "all";
  for (size_t i = 0; i < kiln_middle_pass_count; i++)
    snprintf(list + strlen(list), sizeof list - strlen(list), ", %s", kiln_middle_passes[i].name);
  for (size_t i = 0; i < kiln_gpu_pass_count; i++)
    snprintf(list + strlen(list), sizeof list - strlen(list), ", %s", kiln_gpu_passes[i].name);
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "no pass is called '%.40s'; expected one of %s", name,
                   list);
}

// Kernels with products in loops take the GPU form where the target has one.
static kiln_status run_middle(compile *c, kiln_error *err) {
  const ir_pass_options options = {.print_after = c->options->print_after,
                                   .verify = c->options->verify_passes,
                                   .printed = &c->artifact->printed};
  const kiln_promotion promote = {kiln_gpu_recover, kiln_gpu_promote}, none = {NULL, NULL};
  KILN_TRY(kiln_middle_promoting(c->kernel, c->target, c->plain ? promote : none, &options, err));
  return kiln_gpu_has_mapped(c->kernel) ? kiln_gpu_form(c->kernel, c->target, &options, err) : KILN_OK;
}

// An error that LLVM reported while a step ran counts more than what the step returned.
static kiln_status prefer_caught(compile *c, kiln_status status, kiln_error *err) {
  if (c->caught.status == KILN_OK) return status;
  kiln_fail(err, c->caught.status, "%s: %s", c->kernel->name, c->caught.text);
  err->operation = c->caught.operation;
  return c->caught.status;
}

// When a kernel may have all of a wide register file, LLVM (19 and 22) moves accumulators in and out of the
// upper half around matrix instructions; held to 256 it does not. Kernels that spill then are compiled again
// with all. Without products there is nothing to hold: such kernels have all registers at once, and are
// compiled once.
#if LLVM_VERSION_MAJOR < 21
#define NO_UPPER_HALF \
  { "amdgpu-no-agpr", "" }
#else
#define NO_UPPER_HALF \
  { "amdgpu-agpr-alloc", "0" }
#endif

static void note_product(ir_op *op, void *context) { *(bool *)context |= op->code == IR_DOT; }

static bool has_products(const ir_kernel *kernel) {
  bool found = false;
  ir_walk(kernel->body, note_product, &found);
  return found;
}

static void keep_accumulators_near(compile *c) {
  static const char *const attributes[][2] = {NO_UPPER_HALF, {"amdgpu-waves-per-eu", "2"}};
  LLVMValueRef function = LLVMGetNamedFunction(c->module, c->kernel->name);
  for (size_t i = 0; function && i < sizeof attributes / sizeof *attributes; i++) {
    const char *name = attributes[i][0], *value = attributes[i][1];
    LLVMAttributeRef a =
        LLVMCreateStringAttribute(c->context, name, (unsigned)strlen(name), value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
  }
}

static kiln_status run_lower(compile *c, kiln_error *err) {
  const char *layout;
  KILN_TRY(kiln_llvm_machine(c->target, c->options->optimise, &c->machine, &layout, err));
  c->context = LLVMContextCreate();
  kiln_llvm_catch(c->context, &c->caught);
  c->module = kiln_llvm_module(c->context, c->target, layout);
  kiln_family family = c->target->processor->family;
  kiln_status status = (family == KILN_FAMILY_HOST ? kiln_lower_host : kiln_lower_gpu)(
      c->kernel, c->target, c->options, c->context, c->module, &c->artifact->info, c->artifact->texts, err);
  if (status == KILN_OK) status = kiln_llvm_verify(c->module, "the lowering made invalid LLVM IR", err);
  if (status == KILN_OK && !c->is_wide && kiln_amdgpu_has_wide_registers(c->target))
    keep_accumulators_near(c);
  return prefer_caught(c, status, err);
}

static kiln_status run_optimise(compile *c, kiln_error *err) {
  kiln_family family = c->target->processor->family;
  kiln_status status = kiln_llvm_optimise(c->module, c->machine, family, c->options->optimise, err);
  if (status == KILN_OK && family == KILN_FAMILY_HOST) kiln_host_mend(c->module);
  return prefer_caught(c, status, err);
}

static kiln_status run_emit(compile *c, kiln_error *err) {
  if (c->artifact->info.format == KILN_FORMAT_LLVM) {
    kiln_llvm_print(c->module, &c->object);
    return KILN_OK;
  }
  bool text =
      c->target->processor->family == KILN_FAMILY_NVPTX || c->artifact->info.format == KILN_FORMAT_ASM;
  return prefer_caught(
      c, kiln_llvm_emit(c->module, c->machine, text ? LLVMAssemblyFile : LLVMObjectFile, &c->object, err),
      err);
}

static void take_object(compile *c) {
  kiln_buffer_deinit(&c->artifact->code);
  c->artifact->code = c->object;
  c->object = (kiln_buffer){0};
}

/// The assembler does not know the processor: who asked for no form gets the PTX, and why.
static kiln_status keep_ptx(compile *c, kiln_error *err) {
  c->artifact->info.why_ptx = kiln_arena_text(c->artifact->texts, err->text, strlen(err->text));
  err->status = KILN_OK;
  c->object.size--; // the NUL
  c->artifact->info.format = KILN_FORMAT_PTX;
  return KILN_OK;
}

static kiln_status run_assemble(compile *c, kiln_error *err) {
  if (c->artifact->info.format != KILN_FORMAT_CUBIN) return KILN_OK;
  kiln_buffer_u8(&c->object, 0);
  if (c->object.failed)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the PTX of %s", c->kernel->name);
  kiln_status status = kiln_finish_cubin(c->target, c->options, (const char *)c->object.bytes,
                                         &c->artifact->code, &c->artifact->info, &c->producer, err);
  return status == KILN_STATUS_UNSUPPORTED && !c->options->output ? keep_ptx(c, err) : status;
}

// What the linked code object says, which is what the loader will see, rules over what the lowering planned.
static kiln_status read_back_amdgpu(compile *c, kiln_error *err) {
  kiln_code_info *info = &c->artifact->info;
  kiln_amdgpu_facts facts;
  KILN_TRY(
      kiln_amdgpu_read_facts(c->artifact->code.bytes, c->artifact->code.size, info->symbol, &facts, err));
  KILN_TRY(
      kiln_finish_check_amdgpu(c->artifact->code.bytes, c->artifact->code.size, info->symbol, &facts, err));
  uint32_t limit = c->target->processor->shared_bytes;
  if (facts.lds_bytes + info->dynamic_shared > limit)
    return kiln_fail(err, KILN_STATUS_LIMIT, "%s needs %u bytes of shared memory, %s has %u", c->kernel->name,
                     facts.lds_bytes + info->dynamic_shared, c->target->processor->name, limit);
  info->shared_bytes = facts.lds_bytes + info->dynamic_shared;
  info->registers = facts.vgprs, info->scalar_registers = facts.sgprs;
  info->spill_bytes = 4 * (facts.vgpr_spills + facts.sgpr_spills);
  info->wave = facts.wave;
  return KILN_OK;
}

static kiln_status run_link(compile *c, kiln_error *err) {
  kiln_format format = c->artifact->info.format;
  if (format == KILN_FORMAT_CUBIN) return KILN_OK;
  if (format != KILN_FORMAT_HSACO && format != KILN_FORMAT_HOST) {
    take_object(c);
    return KILN_OK;
  }
  kiln_status status = kiln_finish_link(c->target, c->object.bytes, c->object.size, &c->artifact->code, err);
  if (status != KILN_OK) return kiln_context(err, status, "%s", c->kernel->name);
  kiln_buffer_format(&c->producer, ", lld");
  if (format == KILN_FORMAT_HSACO) return read_back_amdgpu(c, err);
  return kiln_finish_check_host(c->artifact->code.bytes, c->artifact->code.size, c->kernel->name, err);
}

// ------------------------------------------------------------------------------------------- order

static void begin_producer(compile *c) {
  unsigned major, minor, patch;
  LLVMGetVersion(&major, &minor, &patch);
  kiln_buffer_format(&c->producer, "kiln %s, LLVM %u.%u.%u", KILN_VERSION, major, minor, patch);
}

static const struct {
  kiln_status (*run)(compile *c, kiln_error *err);
  size_t time; // offset in kiln_codegen_times
} steps[] = {
    {run_middle, offsetof(kiln_codegen_times, middle)},     {run_lower, offsetof(kiln_codegen_times, lower)},
    {run_optimise, offsetof(kiln_codegen_times, optimise)}, {run_emit, offsetof(kiln_codegen_times, emit)},
    {run_assemble, offsetof(kiln_codegen_times, assemble)}, {run_link, offsetof(kiln_codegen_times, link)},
};

static void dispose_module(compile *c) {
  if (c->module) LLVMDisposeModule(c->module);
  if (c->context) LLVMContextDispose(c->context);
  c->module = NULL, c->context = NULL;
  kiln_buffer_deinit(&c->object);
}

// True when the finished code spills and all registers have not been tried; the module is then gone and
// lowering starts again.
static bool start_again(compile *c) {
  if (c->is_wide || !c->artifact->info.spill_bytes || !kiln_amdgpu_has_wide_registers(c->target))
    return false;
  c->is_wide = true;
  dispose_module(c);
  kiln_buffer_clear(&c->artifact->code);
  kiln_buffer_clear(&c->producer);
  begin_producer(c);
  return true;
}

// True when the kernel does not fit the target in the GPU form; it is then compiled as any other.
static bool start_plain(compile *c, kiln_status status, kiln_error *err) {
  bool does_not_fit = status == KILN_STATUS_UNSUPPORTED || status == KILN_STATUS_LIMIT;
  if (!c->plain || !does_not_fit || !kiln_gpu_has_form(c->kernel)) return false;
  c->kernel = c->plain;
  c->plain = NULL;
  err->status = KILN_OK;
  c->caught = (kiln_error){0};
  dispose_module(c);
  return true;
}

enum { STEP_MIDDLE = 0, STEP_COUNT = sizeof steps / sizeof *steps };

static kiln_status run_steps(compile *c, kiln_error *err) {
  for (size_t i = 0; i < STEP_COUNT; i++) {
    uint64_t start = now();
    kiln_status status = steps[i].run(c, err);
    *(uint64_t *)(void *)((char *)&c->artifact->times + steps[i].time) += now() - start;
    if (status != KILN_OK && !start_plain(c, status, err)) return status;
    if (status != KILN_OK) {
      i = (size_t)-1; // the first step again
      continue;
    }
    if (i == STEP_COUNT - 1 && start_again(c)) i = STEP_MIDDLE;
    if (i == STEP_MIDDLE && c->artifact->info.format == KILN_FORMAT_IR) {
      kiln_print_ir(c->kernel, &c->artifact->code);
      return KILN_OK;
    }
  }
  return c->artifact->code.failed
             ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the code of %s", c->kernel->name)
             : KILN_OK;
}

static void begin_info(compile *c) {
  kiln_code_info *info = &c->artifact->info;
  char name[KILN_TARGET_NAME];
  kiln_target_name(c->target, name);
  info->target = kiln_arena_text(c->artifact->texts, name, strlen(name));
  info->symbol = kiln_arena_text(c->artifact->texts, c->kernel->name, strlen(c->kernel->name));
}

kiln_status kiln_codegen(ir_kernel *kernel, const kiln_target *target, const kiln_codegen_options *options,
                         kiln_artifact *out, kiln_error *err) {
  kiln_error ignored = {0};
  if (!err) err = &ignored;
  memset(out, 0, sizeof *out);
  if (!(out->texts = kiln_arena_create()))
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a compile");
  compile c = {.kernel = kernel, .target = target, .options = options, .artifact = out};
  c.is_wide = !has_products(kernel);
  begin_producer(&c);
  begin_info(&c);
  kiln_status status = resolve_format(&c, err);
  if (status == KILN_OK) status = check_pass_name(options->print_after, err);
  if (kiln_matrix_machine_of(target) && out->info.format != KILN_FORMAT_IR) c.plain = ir_kernel_copy(kernel);
  if (status == KILN_OK) status = run_steps(&c, err);
  if (status == KILN_OK)
    out->info.producer = kiln_arena_text(out->texts, (const char *)c.producer.bytes, c.producer.size);
  else kiln_buffer_deinit(&out->code);
  dispose_module(&c);
  kiln_buffer_deinit(&c.producer);
  return status;
}
