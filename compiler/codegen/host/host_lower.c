// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host back end: one kernel becomes one function of type kiln_host_kernel. host.h has the idea; here are
// the frame of the function and the walk over a block.
#include "compiler/codegen/host/host.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printed.h"

#define B h->builder

host_value *host_info(const ir_value *v) { return v->slot; }

void host_fail(host *h, kiln_status status, const char *format, ...) {
  char text[KILN_ERROR_TEXT];
  va_list list;
  if (h->status != KILN_OK) return;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  h->status = kiln_fail(h->err, status, "%s", text);
}

void host_fail_at(host *h, const ir_op *op, kiln_status status, const char *format, ...) {
  char text[KILN_ERROR_TEXT];
  va_list list;
  if (h->status != KILN_OK) return;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  h->status = kiln_fail_at(h->err, status, ir_operation(op), "%s", text);
}

void host_set_scalar(ir_value *v, LLVMValueRef x) {
  host_info(v)->lanes = (host_lanes){x, 0, HOST_UNIFORM};
  host_info(v)->has_lanes = true;
}

// ----------------------------------------------------------------------------------------- scalars

static LLVMValueRef load_id(host *h, LLVMValueRef array, unsigned axis) {
  LLVMValueRef index = host_i64(h, axis);
  LLVMValueRef p = LLVMBuildInBoundsGEP2(B, h->i32, array, &index, 1, "");
  LLVMValueRef load = LLVMBuildLoad2(B, h->i32, p, "");
  kiln_llvm_note(load, "invariant.load", NULL);
  return load;
}

static LLVMValueRef emit_scalar(host *h, ir_op *op) {
  switch (op->code) {
  case IR_PID: return load_id(h, h->program_id, op->attrs.axis);
  case IR_NPID: return load_id(h, h->grid, op->attrs.axis);
  case IR_CONST: return host_constant(h, op->results[0].type, op->attrs.bits);
  default: return NULL;
  }
}

// Stores of the open loop that a scalar load comes after must have happened.
static bool load_waits(const host *h, const ir_op *op) {
  for (uint32_t i = 0; h->open && op->code == IR_LOAD && i < h->open->root_count; i++)
    if (h->open->roots[i].kind == HOST_ROOT_STORE && host_conflict(h, op, h->open->roots[i].op, false))
      return true;
  return false;
}

static void scalar_op(host *h, ir_op *op) {
  if (host_waits(h, op) || load_waits(h, op)) host_flush(h);
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (op->operands[i]->type.rank && h->open && host_info(op->operands[i])->ready_moved == h->open->id)
      host_flush(h);
  for (uint32_t i = 0; i < op->result_count; i++) {
    LLVMValueRef x = emit_scalar(h, op);
    host_set_scalar(&op->results[i], x ? x : host_pull_scalar(h, &op->results[i]));
  }
}

static void scalar_store(host *h, ir_op *op) {
  host_point point;
  host_map map = host_identity(0);
  host_flush(h);
  host_point_init(h, &point, 0);
  h->point = &point;
  host_store(h, op, &map);
  h->point = NULL;
}

// ------------------------------------------------------------------------------------------- tiles

static void lazy_op(host *h, ir_op *op) {
  host_set_ready(op);
  for (uint32_t i = 0; i < op->result_count; i++) {
    ir_value *v = &op->results[i];
    if (!host_info(v)->keep) continue;
    if (h->open && host_info(v)->ready == h->open->id) host_flush(h);
    host_root root = {
        .kind = HOST_ROOT_KEEP, .value = v, .buffer = host_buffer_create(h, v->type), .binds = true};
    host_add_root(h, &root, v->type, 0);
    host_info(v)->ready_moved = h->open->id;
  }
}

static void tile_store(host *h, ir_op *op) {
  if (!op->operands[0]->type.rank) {
    scalar_store(h, op);
    return;
  }
  if (host_waits(h, op)) host_flush(h);
  host_root root = {.kind = HOST_ROOT_STORE, .op = op};
  host_add_root(h, &root, op->operands[0]->type, 0);
}

static void tile_reduce(host *h, ir_op *op) {
  unsigned first;
  uint32_t reduced = host_axis_bits(op->operands[0]->type, op->attrs.axis, &first);
  if (host_waits(h, op)) host_flush(h);
  for (uint32_t i = 0; i < op->result_count; i++)
    if (op->results[i].type.rank)
      host_info(&op->results[i])->buffer = host_buffer_create(h, op->results[i].type);
  host_root root = {.kind = HOST_ROOT_REDUCE, .op = op};
  host_add_root(h, &root, op->operands[0]->type, reduced);
  for (uint32_t i = 0; i < op->result_count; i++) host_info(&op->results[i])->ready = h->open->id;
}

// The check stands where the assert stands: what follows it must not happen when it fails.
static void emit_assert(host *h, ir_op *op) {
  host_flush(h);
  host_root root = {.kind = HOST_ROOT_ASSERT, .op = op};
  host_add_root(h, &root, op->operands[0]->type, 0);
  host_flush(h);
}

/// What is printed, as a constant of the object (base/printed.h).
static LLVMValueRef printed(host *h, const ir_op *op, ir_type type) {
  const char *text = op->attrs.print.text ? op->attrs.print.text : "";
  kiln_printed what = {.has_value = ir_printed(op) != NULL,
                       .scalar = type.pointer ? KILN_I64 : type.scalar,
                       .is_pointer = type.pointer != 0,
                       .is_unsigned = (op->attrs.flags & IR_UNSIGNED) != 0,
                       .digits = op->attrs.print.digits,
                       .rank = type.rank};
  memcpy(what.log2, type.log2, type.rank);
  kiln_buffer all = {0};
  kiln_buffer_bytes(&all, &what, sizeof what);
  kiln_buffer_bytes(&all, text, strlen(text) + 1);
  LLVMValueRef bytes =
      LLVMConstStringInContext(h->context, (const char *)all.bytes, (unsigned)all.size, true);
  kiln_buffer_deinit(&all);
  LLVMValueRef constant = LLVMAddGlobal(h->module, LLVMTypeOf(bytes), "printed");
  LLVMSetInitializer(constant, bytes);
  LLVMSetGlobalConstant(constant, true);
  LLVMSetLinkage(constant, LLVMPrivateLinkage);
  return constant;
}

static void emit_print(host *h, ir_op *op) {
  ir_value *v = ir_printed(op);
  const ir_type type = v ? v->type : (ir_type){0};
  LLVMTypeRef params[3] = {h->pointer, h->pointer, h->pointer},
              callee = LLVMFunctionType(LLVMVoidTypeInContext(h->context), params, 3, false);
  LLVMValueRef args[3] = {printed(h, op, type), h->program_id, LLVMConstNull(h->pointer)};
  host_flush(h);
  if (v && type.rank) {
    args[2] = host_keep_now(h, v)->pointer;
  } else if (v) {
    args[2] = host_stack(h, host_memory_type(h, type));
    LLVMBuildStore(B, host_pull_scalar(h, v), args[2]);
  }
  LLVMValueRef pointer = host_set_by_loader(h, KILN_HOST_PRINT);
  LLVMBasicBlockRef call = host_block(h, "print"), done = host_block(h, "printed");
  LLVMBuildCondBr(B, LLVMBuildIsNotNull(B, pointer, ""), call, done);
  LLVMPositionBuilderAtEnd(B, call);
  LLVMBuildCall2(B, callee, pointer, args, 3, "");
  LLVMBuildBr(B, done);
  LLVMPositionBuilderAtEnd(B, done);
}

static void refuse(host *h, ir_op *op) {
  host_fail_at(h, op, KILN_STATUS_UNSUPPORTED, "%s (operation %u): the host target has no such operation",
               ir_ops[op->code].text, ir_operation(op));
}

/// A word of the machine, in its own assembly: legality lets nothing else through.
static void assembly(host *h, ir_op *op) {
  LLVMTypeRef type = LLVMFunctionType(host_element_type(h, op->results[0].type), NULL, 0, false);
  const char *text = op->attrs.assembly.text, *constraints = op->attrs.assembly.constraints;
  host_flush(h);
  LLVMValueRef code = LLVMGetInlineAsm(type, (char *)text, strlen(text), (char *)constraints,
                                       strlen(constraints), true, false, LLVMInlineAsmDialectATT, false);
  host_set_scalar(&op->results[0], LLVMBuildCall2(B, type, code, NULL, 0, ""));
}

static void nothing(host *h, ir_op *op) { (void)h, (void)op; }

static void barrier(host *h, ir_op *op) {
  (void)op;
  host_flush(h);
  host_barrier(h);
}

typedef void op_function(host *h, ir_op *op);
static op_function *const functions[IR_OPCODE_COUNT] = {
#define HOST_OP(code, role, index, cost, emit) [IR_##code] = emit,
#include "compiler/codegen/host/host_ops.def"
#undef HOST_OP
};

void host_block_emit(host *h, ir_block *block) {
  for (ir_op *op = block->first; op && h->status == KILN_OK; op = op->next) {
    LLVMMetadataRef place = kiln_llvm_lines_at(h->lines, B, op);
    host_role role = host_role_of(op);
    if (functions[op->code]) functions[op->code](h, op);
    else if (role == HOST_LAZY) lazy_op(h, op);
    else scalar_op(h, op);
    KILN_ASSERT_DEEP(role != HOST_ALONE || !h->open || h->status != KILN_OK);
    kiln_llvm_lines_back(h->lines, B, place);
  }
}

// --------------------------------------------------------------------------------------- the frame

static void init_types(host *h) {
  LLVMContextRef c = h->context;
  h->i1 = LLVMInt1TypeInContext(c);
  h->i8 = LLVMInt8TypeInContext(c);
  h->i16 = LLVMInt16TypeInContext(c);
  h->i32 = LLVMInt32TypeInContext(c);
  h->i64 = LLVMInt64TypeInContext(c);
  h->f16 = LLVMHalfTypeInContext(c);
  h->f32 = LLVMFloatTypeInContext(c);
  h->f64 = LLVMDoubleTypeInContext(c);
  h->pointer = LLVMPointerTypeInContext(c, 0);
  h->elements = (kiln_elements){.machine = &host_element_machine,
                                .owner = h,
                                .context = c,
                                .builder = h->builder,
                                .pointer = h->pointer};
  kiln_elements_set_types(&h->elements, h->i16);
}

static bool has_feature(const kiln_target *t, const char *name) {
  return strstr(t->native_features, name) != NULL;
}

static void init_machine(host *h) {
  const kiln_processor *p = h->target->processor;
  const char *arch = kiln_host_processor_of(p)->arch;
  bool arm = !strcmp(arch, "aarch64") || (!arch[0] && has_feature(h->target, "+neon"));
  h->has_half = arm || p->level >= 3 || has_feature(h->target, "+f16c");
  h->has_fma = arm || p->level >= 3 || has_feature(h->target, "+fma");
  h->has_pairs = !arm;
  h->vector_bytes = p->vector_bytes;
  if (!h->vector_bytes)
    h->vector_bytes = has_feature(h->target, "+avx512f") ? 64 : has_feature(h->target, "+avx2") ? 32 : 16;
  h->vector_registers = arm || h->vector_bytes >= 64 ? 32 : 16;
}

static void begin_function(host *h) {
  LLVMTypeRef params[4] = {h->pointer, h->pointer, h->pointer, h->pointer};
  h->function = LLVMAddFunction(h->module, h->kernel->name, LLVMFunctionType(h->i32, params, 4, false));
  kiln_llvm_attribute(h->function, KILN_LLVM_ITSELF, "nounwind", 0);
  for (int i = 1; i <= 3; i++) kiln_llvm_attribute(h->function, i, "readonly", 0);
  for (int i = 1; i <= 4; i++) kiln_llvm_attribute(h->function, i, "noalias", 0);
  kiln_llvm_lines_begin(h->lines, h->function);
  h->args = LLVMGetParam(h->function, 0);
  h->program_id = LLVMGetParam(h->function, 1);
  h->grid = LLVMGetParam(h->function, 2);
  h->scratch = LLVMGetParam(h->function, 3);
  LLVMBasicBlockRef entry = host_block(h, "entry"), body = host_block(h, "body");
  LLVMPositionBuilderAtEnd(h->entry, entry);
  LLVMPositionBuilderBefore(h->entry, LLVMBuildBr(h->entry, body));
  h->fail = host_block(h, "fail");
  LLVMPositionBuilderAtEnd(B, h->fail);
  LLVMBuildRet(B, LLVMBuildPhi(B, h->i32, ""));
  LLVMPositionBuilderAtEnd(B, body);
}

static LLVMValueRef load_param(host *h, ir_type type, uint64_t offset) {
  LLVMTypeRef memory = type.pointer             ? h->pointer
                       : type.scalar == KILN_I1 ? h->i8
                                                : h->elements.types[type.scalar];
  LLVMValueRef index = host_i64(h, (int64_t)offset);
  LLVMValueRef x = LLVMBuildLoad2(B, memory, LLVMBuildInBoundsGEP2(B, h->i8, h->args, &index, 1, ""), "");
  LLVMSetAlignment(x, host_memory_bytes(type));
  return memory == h->i8 && type.scalar == KILN_I1 && !type.pointer
             ? LLVMBuildICmp(B, LLVMIntNE, x, LLVMConstInt(h->i8, 0, false), "")
             : x;
}

static void load_params(host *h) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < h->kernel->param_count; i++) {
    ir_type type = h->kernel->params[i].type;
    unsigned size = host_memory_bytes(type);
    at = (at + size - 1) & ~(uint64_t)(size - 1);
    host_set_scalar(h->kernel->body->args[i], load_param(h, type, at));
    at += size;
  }
}

// The table of assertions, for the message of one that fails (base/record.h).
static void put_asserts(host *h) {
  char name[512];
  if (!h->asserts.size) return;
  kiln_buffer_u32(&h->asserts, 0);
  snprintf(name, sizeof name, "%s" KILN_HOST_ASSERTS, h->kernel->name);
  LLVMValueRef bytes =
      LLVMConstStringInContext(h->context, (const char *)h->asserts.bytes, (unsigned)h->asserts.size, true);
  LLVMValueRef table = LLVMAddGlobal(h->module, LLVMTypeOf(bytes), name);
  LLVMSetInitializer(table, bytes);
  LLVMSetGlobalConstant(table, true);
}

static void end_function(host *h) {
  host_flush(h);
  LLVMBuildRet(B, LLVMConstInt(h->i32, 0, false));
  LLVMValueRef phi = LLVMGetFirstInstruction(h->fail);
  if (LLVMCountIncoming(phi)) return;
  LLVMReplaceAllUsesWith(phi, LLVMConstInt(h->i32, 0, false));
  LLVMDeleteBasicBlock(h->fail);
}

kiln_status host_lower(const kiln_lowering *l, kiln_error *err) {
  kiln_error local = {0};
  host state = {.arena = l->kernel->arena,
                .kernel = l->kernel,
                .target = l->target,
                .err = err ? err : &local,
                .context = l->context,
                .module = l->module,
                .lines = l->lines};
  host *h = &state;
  h->builder = LLVMCreateBuilderInContext(l->context);
  h->entry = LLVMCreateBuilderInContext(l->context);
  init_types(h);
  init_machine(h);
  host_plan(h);
  begin_function(h);
  load_params(h);
  host_block_emit(h, l->kernel->body);
  end_function(h);
  put_asserts(h);
  kiln_buffer_deinit(&h->asserts);
  LLVMDisposeBuilder(h->builder);
  LLVMDisposeBuilder(h->entry);
  l->info->block_threads = 1;
  l->info->wave = 1;
  l->info->scratch_bytes = (uint32_t)h->scratch_bytes;
  return h->status;
}
