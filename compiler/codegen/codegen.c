// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of code generation: passes, lowering, verify, optimise, emit, finish. Each step is timed; each
// has its own file.
#include "compiler/codegen.h"

#include <llvm-c/Core.h>
#include <string.h>
#include <time.h>

#include "base/float_state.h"
#include "compiler/codegen/backend.h"
#include "compiler/codegen/blame.h"
#include "compiler/codegen/llvm/llvm_gate.h"
#include "compiler/codegen/llvm/llvm_module.h"
#include "compiler/front.h"
#include "compiler/passes/gpu/gpu.h"
#include "compiler/passes/stages.h"

// One compile while it runs.
static const kiln_backend *const backends[] = {&kiln_backend_host, &kiln_backend_nvptx, &kiln_backend_amdgpu};

const kiln_backend *kiln_backend_of(const kiln_target *target) {
  for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
    if (backends[i]->family == target->processor->family) return backends[i];
  return NULL;
}

typedef struct compile {
  ir_kernel *kernel;                   // borrowed
  const kiln_target *target;           // borrowed
  const kiln_backend *backend;         // static
  const kiln_backend_form *form;       // static; the one to make
  const kiln_codegen_options *options; // borrowed
  kiln_artifact *artifact;             // borrowed
  LLVMContextRef context;              // owned
  LLVMModuleRef module;                // owned
  LLVMTargetMachineRef machine;        // the thread's cache
  kiln_buffer object;                  // owned: what LLVM emitted
  kiln_buffer producer;                // owned
  kiln_error caught;                   // first error that LLVM reported
  ir_kernel *plain;                    // the kernel as it came, when it is to be tried in the GPU form first
  kiln_stage stage;                    // how far the kernel is
  kiln_stage begin;                    // and where each attempt begins
  const char *until;                   // the last pass to run, after which the kernel is printed; NULL: all
  bool is_wide;                        // the kernel may use all registers: see kiln_register_policy
  uint32_t spills;                     // registers that the finished code keeps in memory
} compile;

void kiln_artifact_deinit(kiln_artifact *artifact) {
  kiln_buffer_deinit(&artifact->code);
  kiln_buffer_deinit(&artifact->printed);
  kiln_buffer_deinit(&artifact->report);
  kiln_arena_destroy(artifact->texts);
  memset(artifact, 0, sizeof *artifact);
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// ------------------------------------------------------------------------------------------ format

static const kiln_backend_form common_forms[] = {
    {KILN_FORMAT_IR, LLVMAssemblyFile, NULL},
    {KILN_FORMAT_LLVM, LLVMAssemblyFile, NULL},
    {KILN_FORMAT_ASM, LLVMAssemblyFile, NULL},
    {0},
};

static const kiln_backend_form *find_form(const kiln_backend *backend, unsigned format) {
  const kiln_backend_form *const lists[] = {backend->forms, common_forms};
  for (unsigned i = 0; i < 2; i++)
    for (const kiln_backend_form *f = lists[i]; f->format; f++)
      if (f->format == format) return f;
  return NULL;
}

static kiln_status refuse_format(const compile *c, unsigned wanted, kiln_error *err) {
  const kiln_backend_form *const lists[] = {c->backend->forms, common_forms};
  char list[64] = "", name[KILN_TARGET_NAME];
  for (unsigned i = 0; i < 2; i++)
    for (const kiln_backend_form *f = lists[i]; f->format; f++)
      if (find_form(c->backend, f->format) == f)
        strcat(strcat(list, list[0] ? ", " : ""), kiln_format_name(f->format));
  return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "%s has no form '%s'; it has %s",
                   kiln_target_name(c->target, name), kiln_format_name(wanted), list);
}

// ------------------------------------------------------------------------------------------- steps

static bool has_far_registers(const compile *c) {
  return c->backend->registers.has_far && c->backend->registers.has_far(c->target);
}

static bool may_be_promoted(const compile *c) {
  return !c->stage.is_plain && kiln_matrix_machine_of(c->target) &&
         c->artifact->info.format != KILN_FORMAT_IR;
}

static bool is_until_llvm(const compile *c) { return c->until && !strcmp(c->until, KILN_STAGE_LLVM); }

// Kernels with products in loops take the GPU form where the target has one.
static kiln_status run_passes(compile *c, kiln_error *err) {
  c->stage.is_wide = c->is_wide && has_far_registers(c);
  const kiln_stage_run run = {.stage = &c->stage,
                              .mapping = may_be_promoted(c) ? KILN_MAP_RECOVER | KILN_MAP_PROMOTE : 0,
                              .until = is_until_llvm(c) ? NULL : c->until,
                              .print_after = c->options->print_after,
                              .verify = c->options->verify_passes,
                              .printed = &c->artifact->printed};
  return kiln_stage_finish(&run, c->kernel, err);
}

// An error that LLVM reported while a step ran counts more than what the step returned.
static kiln_status prefer_caught(compile *c, kiln_status status, kiln_error *err) {
  if (c->caught.status == KILN_OK) return status;
  kiln_fail(err, c->caught.status, "%s: %s", c->kernel->name, c->caught.text);
  err->operation = c->caught.operation;
  return c->caught.status;
}

// The module that the stage brings takes the place of the one that was made. What was said of the code stays: threads, shared
// memory, tensor maps. The one that was made goes first: constants belong to the context, and the text gives the order of all
// uses that a constant has.
static kiln_status replace_module(compile *c, const char *layout, kiln_error *err) {
  LLVMModuleRef read;
  LLVMDisposeModule(c->module);
  c->module = kiln_llvm_module(c->context, c->target, layout);
  KILN_TRY(kiln_llvm_read(c->context, c->stage.module, c->stage.module_size, "module", c->stage.module_line,
                          &read, err));
  const bool is_for_target = !strcmp(LLVMGetTarget(read), LLVMGetTarget(c->module)) &&
                             !strcmp(LLVMGetDataLayoutStr(read), LLVMGetDataLayoutStr(c->module));
  size_t length;
  const char *name = LLVMGetModuleIdentifier(c->module, &length);
  LLVMSetModuleIdentifier(read, name, length);
  LLVMDisposeModule(c->module);
  c->module = read;
  if (!is_for_target)
    return kiln_fail(err, KILN_STATUS_SOURCE,
                     "the module's triple and data layout are not those of the target");
  LLVMValueRef function = LLVMGetNamedFunction(read, c->kernel->name);
  return function && !LLVMIsDeclaration(function)
             ? KILN_OK
             : kiln_fail(err, KILN_STATUS_SOURCE, "the module defines no function %s", c->kernel->name);
}

static void print_lowered(compile *c, kiln_buffer *out) {
  kiln_buffer text = {0};
  kiln_stage at = c->stage;
  kiln_llvm_print_whole(c->module, &text);
  at.module = (const char *)text.bytes, at.module_size = text.size;
  kiln_stage_print(&at, c->kernel, out);
  out->failed |= text.failed;
  kiln_buffer_deinit(&text);
}

static kiln_status run_lower(compile *c, kiln_error *err) {
  const char *layout;
  KILN_TRY(kiln_llvm_machine(c->target, c->options->optimise, &c->machine, &layout, err));
  kiln_buffer_clear(&c->artifact->report); // of a form that did not fit
  memcpy(c->artifact->info.most_programs, c->kernel->tests.programs, sizeof c->kernel->tests.programs);
  c->context = kiln_llvm_context(&c->caught);
  if (c->backend->finishes_text) kiln_llvm_keep_addresses(c->context);
  c->module = kiln_llvm_module(c->context, c->target, layout);
  kiln_llvm_lines *lines = NULL;
  if (c->options->debug)
    lines = kiln_llvm_lines_create(c->module, c->options->positions, c->backend->finishes_text);
  const kiln_lowering lowering = {.kernel = c->kernel,
                                  .target = c->target,
                                  .options = c->options,
                                  .context = c->context,
                                  .module = c->module,
                                  .info = &c->artifact->info,
                                  .texts = c->artifact->texts,
                                  .lines = lines,
                                  .report = &c->artifact->report,
                                  .refusals = &c->stage.refusals};
  kiln_status status = c->backend->lower(&lowering, err);
  kiln_llvm_lines_end(lines);
  if (status == KILN_OK && c->stage.module) status = replace_module(c, layout, err);
  if (status == KILN_OK) status = kiln_llvm_verify(c->module, "the lowering made invalid LLVM IR", err);
  const char *wanted = c->options->print_after;
  if (status == KILN_OK && wanted && !strcmp(wanted, KILN_STAGE_LLVM))
    print_lowered(c, &c->artifact->printed);
  return prefer_caught(c, status, err);
}

// Which registers the kernel may use is the attempt's and not the text's of the lowered kernel, from which both attempts begin.
static kiln_status run_optimise(compile *c, kiln_error *err) {
  LLVMValueRef function = LLVMGetNamedFunction(c->module, c->kernel->name);
  if (has_far_registers(c) && !c->is_wide && function) c->backend->registers.keep_near(function);
  unsigned level = c->options->optimise < KILN_LLVM_LEVELS ? c->options->optimise : KILN_LLVM_LEVELS - 1;
  kiln_status status = kiln_llvm_optimise(c->module, c->machine, c->backend->passes[level], err);
  if (status == KILN_OK && c->backend->work_around) c->backend->work_around(c->module);
  return prefer_caught(c, status, err);
}

static kiln_status run_emit(compile *c, kiln_error *err) {
  if (c->form->format == KILN_FORMAT_LLVM) {
    kiln_llvm_print(c->module, &c->object);
    return KILN_OK;
  }
  return prefer_caught(c, kiln_llvm_emit(c->module, c->machine, c->form->emitted, &c->object, err), err);
}

static kiln_status run_finish(compile *c, kiln_error *err) {
  kiln_finishing f = {.target = c->target,
                      .options = c->options,
                      .symbol = c->kernel->name,
                      .object = &c->object,
                      .code = &c->artifact->code,
                      .info = &c->artifact->info,
                      .texts = c->artifact->texts,
                      .producer = &c->producer};
  kiln_status status = KILN_OK;
  if (c->form->finish) {
    status = c->form->finish(&f, err);
  } else { // the object is the code
    kiln_buffer_deinit(&c->artifact->code);
    c->artifact->code = c->object;
    c->object = (kiln_buffer){0};
  }
  c->spills = f.spills;
  return status;
}

// ------------------------------------------------------------------------------------------- order

static void begin_producer(compile *c) {
  unsigned major, minor, patch;
  LLVMGetVersion(&major, &minor, &patch);
  kiln_buffer_format(&c->producer, "kiln %s, LLVM %u.%u.%u", KILN_VERSION, major, minor, patch);
}

// What is said of the code before it is lowered; of an earlier attempt nothing is left but the form.
static void begin_info(compile *c) {
  kiln_code_info *info = &c->artifact->info;
  char name[KILN_TARGET_NAME];
  kiln_target_name(c->target, name);
  *info = (kiln_code_info){.format = info->format};
  info->target = kiln_arena_text(c->artifact->texts, name, strlen(name));
  info->symbol = kiln_arena_text(c->artifact->texts, c->kernel->name, strlen(c->kernel->name));
}

enum { TIME_OF_BACKEND = -1 };
static const struct {
  kiln_status (*run)(compile *c, kiln_error *err);
  ptrdiff_t time; // offset in kiln_codegen_times
} steps[] = {
    {run_passes, offsetof(kiln_codegen_times, middle)},
    {run_lower, offsetof(kiln_codegen_times, lower)},
    {run_optimise, offsetof(kiln_codegen_times, optimise)},
    {run_emit, offsetof(kiln_codegen_times, emit)},
    {run_finish, TIME_OF_BACKEND},
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
  if (c->is_wide || !c->spills || !has_far_registers(c)) return false;
  c->is_wide = true;
  dispose_module(c);
  kiln_buffer_clear(&c->artifact->code);
  kiln_buffer_clear(&c->producer);
  begin_producer(c);
  begin_info(c);
  return true;
}

// True when the kernel does not fit the target in the GPU form; it is then compiled as any other.
static bool start_plain(compile *c, kiln_status status, kiln_error *err) {
  bool does_not_fit = status == KILN_STATUS_UNSUPPORTED || status == KILN_STATUS_LIMIT;
  if (!c->plain || !does_not_fit || !kiln_gpu_has_form(c->kernel)) return false;
  kiln_refuse_others(&c->stage.refusals, KILN_REASON_UNFIT);
  c->kernel = c->plain;
  c->plain = NULL;
  c->stage.pass = c->begin.pass;
  c->stage.is_plain = true;
  err->status = KILN_OK;
  c->caught = (kiln_error){0};
  dispose_module(c);
  begin_info(c);
  return true;
}

enum { STEP_PASSES, STEP_LOWER, STEP_COUNT = sizeof steps / sizeof *steps };

// True when the kernel as it is after the step is what was asked for.
static bool stop_after(compile *c, size_t step) {
  if (is_until_llvm(c)) {
    if (step == STEP_LOWER) print_lowered(c, &c->artifact->code);
    return step == STEP_LOWER;
  }
  if (step != STEP_PASSES || (!c->until && c->artifact->info.format != KILN_FORMAT_IR)) return false;
  if (c->until) kiln_stage_print(&c->stage, c->kernel, &c->artifact->code);
  else kiln_print_ir(c->kernel, &c->artifact->code);
  return true;
}

static kiln_status run_steps(compile *c, kiln_error *err) {
  for (size_t i = 0; i < STEP_COUNT; i++) {
    uint64_t start = now();
    kiln_status status = steps[i].run(c, err);
    size_t time = steps[i].time < 0 ? c->backend->finish_time : (size_t)steps[i].time;
    *(uint64_t *)(void *)((char *)&c->artifact->times + time) += now() - start;
    if (status != KILN_OK) {
      if (!start_plain(c, status, err)) {
        // Where an assembler reads text of ours, its messages number the lines of that.
        const char *read = c->backend->finishes_text ? (const char *)c->object.bytes : NULL;
        return kiln_blame_assembly(c->kernel, read, c->object.size, status, err);
      }
      i = (size_t)-1; // the first step again
      continue;
    }
    if (i == STEP_COUNT - 1 && start_again(c)) i = STEP_PASSES;
    if (stop_after(c, i)) return KILN_OK;
  }
  return c->artifact->code.failed
             ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the code of %s", c->kernel->name)
             : KILN_OK;
}

static kiln_status generate(ir_kernel *kernel, const kiln_stage *stage, const char *until,
                            const kiln_codegen_options *options, kiln_artifact *out, kiln_error *err) {
  kiln_error ignored = {0};
  if (!err) err = &ignored;
  memset(out, 0, sizeof *out);
  out->texts = kiln_arena_create();
  compile c = {.kernel = kernel,
               .target = &stage->target,
               .backend = kiln_backend_of(&stage->target),
               .options = options,
               .artifact = out,
               .stage = *stage,
               .begin = *stage,
               .until = until};
  // Without products there is nothing to keep off registers: such kernels have all at once, and are compiled
  // once.
  c.is_wide = stage->pass ? stage->is_wide : !ir_find(kernel->body, IR_DOT);
  begin_producer(&c);
  begin_info(&c);
  bool has_assembler = options->assembler != KILN_ASSEMBLER_NONE;
  unsigned form = options->output ? options->output : kiln_family_format(c.backend->family, has_assembler);
  c.form = find_form(c.backend, form);
  kiln_status status = c.form ? KILN_OK : refuse_format(&c, form, err);
  if (c.form) out->info.format = (uint8_t)form;
  if (status == KILN_OK) status = kiln_check_pass_name(options->print_after, err);
  if (status == KILN_OK) status = kiln_check_pass_name(until, err);
  // After the pass that begins the form the kernel is no longer what could be compiled without it.
  if (may_be_promoted(&c) && (!stage->pass || stage->pass < kiln_find_pass("recover")))
    c.plain = ir_kernel_copy(kernel);
  if (status == KILN_OK) status = run_steps(&c, err);
  if (status == KILN_OK)
    out->info.producer = kiln_arena_text(out->texts, (const char *)c.producer.bytes, c.producer.size);
  else kiln_buffer_deinit(&out->code);
  dispose_module(&c);
  kiln_buffer_deinit(&c.producer);
  return status;
}

kiln_status kiln_codegen_stage(ir_kernel *kernel, const kiln_stage *stage, const char *until,
                               const kiln_codegen_options *options, kiln_artifact *out, kiln_error *err) {
  kiln_float_all was = kiln_float_enter_all(); // constants are folded, here and by LLVM
  kiln_status status = generate(kernel, stage, until, options, out, err);
  kiln_float_leave_all(&was);
  return status;
}

kiln_status kiln_codegen(ir_kernel *kernel, const kiln_target *target, const kiln_codegen_options *options,
                         kiln_artifact *out, kiln_error *err) {
  const kiln_stage front = {.target = *target, .refusals = {.arena = kernel->arena}};
  return kiln_codegen_stage(kernel, &front, NULL, options, out, err);
}
