// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPU lowering: the kernel function, its parameters, and one walk over the operations.
#include "compiler/codegen/gpu/gpu_lower.h"
#include "compiler/passes/gpu/gpu.h"

#include <string.h>

// -------------------------------------------------------------------------------------- operations

static void lower_const(gpu *g, ir_op *op) {
  ir_type type = op->results[0].type;
  LLVMTypeRef llvm = gpu_type(g, type);
  LLVMValueRef bits =
      LLVMConstInt(LLVMIntTypeInContext(g->context, type.pointer ? 64 : kiln_scalars[type.scalar].bits),
                   op->attrs.bits, false);
  if (type.pointer) bits = LLVMConstIntToPtr(bits, llvm);
  else if (LLVMTypeOf(bits) != llvm) bits = LLVMConstBitCast(bits, llvm);
  gpu_set_scalar(g, &op->results[0], bits);
}

static void lower_pid(gpu *g, ir_op *op) {
  static const kl_function functions[2][3] = {{KL_kl_pid_0, KL_kl_pid_1, KL_kl_pid_2},
                                              {KL_kl_npid_0, KL_kl_npid_1, KL_kl_npid_2}};
  unsigned axis = op->attrs.axis < 3 ? op->attrs.axis : 2;
  if (op->code == IR_NPID && g->grid[axis]) {
    gpu_set_scalar(g, &op->results[0], g->grid[axis]);
    return;
  }
  gpu_set_scalar(g, &op->results[0], kl_call(&g->prelude, functions[op->code == IR_NPID][axis], NULL, 0));
}

static void lower_barrier(gpu *g, ir_op *op) {
  bool is_shared = op->attrs.barrier.is_shared || g->barrier_threads;
  if (op->attrs.barrier.is_engine && g->machine->meet_engine) g->machine->meet_engine(g);
  if (op->attrs.barrier.is_for_products) kl_call(&g->prelude, KL_kl_proxy_fence, NULL, 0);
  if (is_shared) gpu_barrier(g);
  else kl_call(&g->prelude, KL_kl_barrier, NULL, 0);
  g->shared_dirty = false;
}

static void lower_nothing(gpu *g, ir_op *op) {
  (void)g;
  (void)op;
}

/// A failing thread says which operation it was, where the machine has a way, and stops the kernel.
static void lower_assert(gpu *g, ir_op *op) {
  ir_value *condition = op->operands[0];
  LLVMValueRef holds = NULL;
  if (condition->type.rank) {
    gpu_tile tile = gpu_operand(g, op, 0);
    for (uint32_t r = 0; r < 1u << tile.layout.registers; r++)
      holds = holds ? LLVMBuildAnd(g->builder, holds, tile.regs[r], "") : tile.regs[r];
  } else {
    holds = gpu_scalar(g, condition);
  }
  LLVMBasicBlockRef stop = gpu_block(g, "stop"), after = gpu_block(g, "held");
  LLVMBuildCondBr(g->builder, holds, after, stop);
  LLVMPositionBuilderAtEnd(g->builder, stop);
  if (g->machine->report_assert) g->machine->report_assert(g, op);
  kl_call(&g->prelude, KL_kl_trap, NULL, 0);
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
}

static void (*const lowerings[IR_OPCODE_COUNT])(gpu *, ir_op *) = {
    [IR_PID] = lower_pid,
    [IR_NPID] = lower_pid,
    [IR_CONST] = lower_const,
    [IR_LOAD] = gpu_lower_load,
    [IR_STORE] = gpu_lower_store,
    [IR_ATOMIC] = gpu_lower_atomic,
    [IR_CAS] = gpu_lower_atomic,
    [IR_BARRIER] = lower_barrier,
    [IR_DOT] = gpu_lower_dot,
    [IR_REDUCE] = gpu_lower_reduce,
    [IR_SCAN] = gpu_lower_scan,
    [IR_ASM] = gpu_lower_asm,
    [IR_ASSERT] = lower_assert,
    [IR_ASSUME] = lower_nothing,
    [IR_FOR] = gpu_lower_for,
    [IR_WHILE] = gpu_lower_while,
    [IR_IF] = gpu_lower_if,
    [IR_CONVERT] = gpu_lower_convert,
    [IR_IOTA] = gpu_lower_elements,
    [IR_SPLAT] = gpu_lower_elements,
    [IR_EXPAND] = gpu_lower_elements,
    [IR_BROADCAST] = gpu_lower_elements,
    [IR_RESHAPE] = gpu_lower_elements,
    [IR_TRANS] = gpu_lower_elements,
    [IR_JOIN] = gpu_lower_elements,
    [IR_SPLIT] = gpu_lower_elements,
    [IR_SORT] = gpu_lower_sort,
    [IR_GATHER] = gpu_lower_gather,
    [IR_FETCH] = gpu_lower_fetch,
    [IR_FETCH_COMMIT] = gpu_lower_fetch_commit,
    [IR_FETCH_WAIT] = gpu_lower_fetch_wait,
    [IR_FETCH_END] = gpu_lower_fetch_end,
    [IR_SLOT_LOAD] = gpu_lower_slot_load,
    [IR_SLOT_STORE] = gpu_lower_slot_store,
};

void gpu_lower_op(gpu *g, ir_op *op) {
  const ir_op *outer = g->current;
  if (g->status != KILN_OK) return;
  g->current = op;
  LLVMMetadataRef place = kiln_llvm_lines_at(g->lines, g->builder, op);
  if (op->code == IR_MMA)
    gpu_note_product(g, op, KILN_ENGINE_MATRIX, g->has_roles ? "wgmma" : "wgmma from slots",
                     KILN_REASON_NONE);
  if (lowerings[op->code]) lowerings[op->code](g, op);
  else if (ir_has(op->code, IR_EACH)) gpu_lower_elements(g, op);
  else if (op->code == IR_VIEW || op->code == IR_ALLOC) (void)0; // their users look at them
  else if (op->code >= IR_TILE_COUNT && g->machine->lower_machine) g->machine->lower_machine(g, op);
  else
    gpu_fail_at(g, op, KILN_STATUS_UNSUPPORTED, "operation %u: %s is not supported on %s", ir_operation(op),
                ir_ops[op->code].text, g->machine->name);
  kiln_llvm_lines_back(g->lines, g->builder, place);
  g->current = outer;
}

void gpu_lower_block(gpu *g, ir_block *block) {
  const ir_op *end = ir_terminator(block);
  for (ir_op *op = block->first; op && op != end; op = op->next) gpu_lower_op(g, op);
}

// --------------------------------------------------------------------------------- kernel function

static void describe_params(gpu *g) {
  for (uint32_t i = 0; i < g->kernel->param_count; i++) {
    const ir_param *p = &g->kernel->params[i];
    if (!p->type.pointer) continue;
    uint32_t align = p->align ? p->align : p->type.pointer > 1 ? 8 : kiln_scalars[p->type.scalar].bytes;
    kiln_llvm_attribute(g->function, (int)i + 1, "align", align > 1u << 30 ? 1u << 30 : align);
    if (p->noalias) kiln_llvm_attribute(g->function, (int)i + 1, "noalias", 0);
  }
}

/// After the parameters: the logical grid of a kernel whose blocks compute several programs, then the maps.
static void make_function(gpu *g) {
  uint32_t count = g->kernel->param_count, extras = (g->has_roles ? 3 : 0) + g->map_count;
  LLVMTypeRef *types = KILN_NEW_ARRAY(g->arena, LLVMTypeRef, count + extras);
  for (uint32_t i = 0; i < count; i++) {
    ir_type param = g->kernel->params[i].type;
    types[i] = !param.pointer && param.scalar == KILN_I1 ? g->i8 : gpu_type(g, param);
  }
  for (unsigned i = 0; i < extras; i++)
    types[count + i] = g->has_roles && i < 3 ? g->i32 : LLVMPointerTypeInContext(g->context, 0);
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(g->context), types, count + extras, false);
  g->function = LLVMAddFunction(g->module, g->kernel->name, type);
  kiln_llvm_attribute(g->function, KILN_LLVM_ITSELF, "nounwind", 0);
  describe_params(g);
  uint32_t at = count;
  for (unsigned axis = 0; g->has_roles && axis < 3; axis++) g->grid[axis] = LLVMGetParam(g->function, at++);
  for (unsigned i = 0; i < g->map_count; i++) g->maps[i].param = LLVMGetParam(g->function, at + i);
  if (g->map_count) g->machine->mark_maps(g, g->function, at);
  if (g->kernel->fp_flush) kiln_llvm_mark(g->function, "denormal-fp-math-f32", "preserve-sign,preserve-sign");
  g->machine->finish_kernel(g, g->function);
  kiln_llvm_lines_begin(g->lines, g->function);
  LLVMPositionBuilderAtEnd(g->builder, gpu_block(g, "entry"));
  for (uint32_t i = 0; i < g->kernel->param_count; i++) {
    LLVMValueRef value = LLVMGetParam(g->function, i);
    ir_type param = g->kernel->params[i].type;
    if (!param.pointer && param.scalar == KILN_I1)
      value = LLVMBuildICmp(g->builder, LLVMIntNE, value, LLVMConstInt(g->i8, 0, false), "");
    gpu_set_scalar(g, g->kernel->body->args[i], value);
  }
}

/// Shared memory is one array whose size is known at the end: within the module when the launch need not ask
/// for it, else external.
static void place_shared(gpu *g, kiln_code_info *info) {
  uint32_t size = (g->shared_bytes + 15) & ~15u;
  bool is_dynamic = size > g->machine->static_shared;
  info->shared_bytes = size;
  info->dynamic_shared = is_dynamic ? size : 0;
  if (size && !is_dynamic) {
    LLVMTypeRef type = LLVMArrayType2(g->i8, size);
    LLVMValueRef array = LLVMAddGlobalInAddressSpace(g->module, type, "kiln_shared_static", 3);
    LLVMSetInitializer(array, LLVMGetUndef(type));
    LLVMSetLinkage(array, LLVMInternalLinkage);
    LLVMSetAlignment(array, LLVMGetAlignment(g->shared));
    LLVMReplaceAllUsesWith(g->shared, array);
  }
  if (!is_dynamic && !LLVMGetFirstUse(g->shared)) LLVMDeleteGlobal(g->shared);
}

// ------------------------------------------------------------------------------------------- entry

static void init_types(gpu *g) {
  LLVMContextRef c = g->context;
  g->i1 = LLVMInt1TypeInContext(c);
  g->i8 = LLVMInt8TypeInContext(c);
  g->i16 = LLVMInt16TypeInContext(c);
  g->i32 = LLVMInt32TypeInContext(c);
  g->i64 = LLVMInt64TypeInContext(c);
  g->half = LLVMHalfTypeInContext(c);
  g->f32 = LLVMFloatTypeInContext(c);
  g->f64 = LLVMDoubleTypeInContext(c);
  g->global_pointer = LLVMPointerTypeInContext(c, 1);
  g->shared_pointer = LLVMPointerTypeInContext(c, 3);
}

static void lower_body(gpu *g) {
  make_function(g);
  g->thread = kl_call(&g->prelude, KL_kl_thread, NULL, 0);
  g->shared = LLVMAddGlobalInAddressSpace(g->module, LLVMArrayType2(g->i8, 0), "kiln_shared", 3);
  LLVMSetAlignment(g->shared, g->has_roles ? 1024 : 128);
  if (g->has_roles) g->shared_address = LLVMBuildPtrToInt(g->builder, g->shared, g->i32, "");
  gpu_lower_block(g, g->kernel->body);
  LLVMBuildRetVoid(g->builder);
}

/// A producer's group stands after the warps that the tiles know.
uint32_t gpu_block_threads(const gpu *g) {
  uint32_t warps = g->kernel->warps / (g->spread ? g->spread : 1);
  return (warps + (g->has_roles ? 4 : 0)) << g->lanes;
}

kiln_status gpu_lower_kernel(const kiln_lowering *l, const gpu_machine *machine, kiln_error *err) {
  ir_kernel *kernel = l->kernel;
  kiln_code_info *info = l->info;
  KILN_ASSERT(kernel->layouts && kernel->layouts->lanes == machine->lanes); // the pass has run
  kiln_arena *arena = kiln_arena_create();
  if (!arena) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the lowering");
  ir_number(kernel); // no slot has what an earlier lowering of it left there
  gpu g = {.machine = machine,
           .target = l->target,
           .options = l->options,
           .arena = arena,
           .kernel = kernel,
           .error = err,
           .context = l->context,
           .module = l->module,
           .lines = l->lines,
           .report = l->report,
           .refusals = l->refusals};
  g.lanes = machine->lanes;
  g.warps = kernel->layouts->warps;
  g.layouts = kernel->layouts;
  g.builder = LLVMCreateBuilderInContext(l->context);
  g.prelude = (kl_prelude){.context = l->context,
                           .module = l->module,
                           .builder = g.builder,
                           .bodies = machine->bodies,
                           .body_count = machine->body_count,
                           .processor = machine->processor,
                           .flush = kernel->fp_flush};
  init_types(&g);
  g.elements = (kiln_elements){.machine = &gpu_element_machine,
                               .owner = &g,
                               .context = l->context,
                               .builder = g.builder,
                               .pointer = g.global_pointer};
  kiln_elements_set_types(&g.elements, g.half);
  g.has_roles = kernel->body->last && kernel->body->last->code == IR_ROLES;
  const ir_roles *roles = g.has_roles ? &kernel->body->last->attrs.roles : NULL;
  if (roles) g.spread = roles->spread, g.split = roles->cluster;
  g.spread_columns = roles && roles->is_beside ? 2 : 1;
  if (g.has_roles) ir_walk(kernel->body, gpu_collect_map, &g);
  for (const ir_op *op = ir_next(kernel->body, NULL); op && !g.has_writes; op = ir_next(kernel->body, op)) {
    const bool is_pure_text = op->code == IR_ASM && op->attrs.assembly.is_pure;
    g.has_writes = ir_ops[op->code].effect == IR_WRITE && op->code != IR_ASSERT && !is_pure_text;
  }
  lower_body(&g);
  LLVMDisposeBuilder(g.builder);
  place_shared(&g, info);
  info->block_threads = gpu_block_threads(&g);
  if (roles && (g.split || g.spread))
    info->cluster = (uint8_t)((g.split ? g.split : 1) * (g.spread ? g.spread : 1));
  if (roles) { // as many as the kernel's form wants, unless exchanges took more shared memory than was foreseen
    unsigned room = kiln_blocks_within(kiln_matrix_machine_of(l->target), l->target, info->shared_bytes);
    info->blocks = room < roles->resident && room ? room : roles->resident;
  }
  info->maps = g.map_count ? gpu_map_record(&g, l->texts) : (kiln_span){0};
  info->wave = 1u << machine->lanes;
  kiln_status status = g.status;
  if (status == KILN_OK && g.shared_bytes > machine->max_shared)
    status = kiln_fail(err, KILN_STATUS_LIMIT, "expected at most %u bytes of shared memory on %s, found %u",
                       machine->max_shared, machine->name, g.shared_bytes);
  if (status == KILN_OK) status = kl_link(&g.prelude, err);
  kiln_arena_destroy(arena);
  return status;
}

kiln_status gpu_lower(const kiln_lowering *l, kiln_error *err) {
  gpu_machine storage;
  return gpu_lower_kernel(l, kiln_backend_of(l->target)->machine(l->target, &storage), err);
}
