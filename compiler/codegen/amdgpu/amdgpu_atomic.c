// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits atomics for AMD GPUs. The C interface of LLVM 19 cannot name a synchronisation scope, so each form
// that a kernel uses is one small function in textual IR, linked in when it is first asked for. What the
// hardware lacks LLVM turns into a compare-and-swap loop.
#include <stdio.h>
#include <string.h>

#include "compiler/codegen/amdgpu/amdgpu.h"
#include "compiler/codegen/llvm/llvm_module.h"

static const char *const scopes[] = {[IR_SCOPE_GPU] = "syncscope(\"agent\") ",
                                     [IR_SCOPE_CTA] = "syncscope(\"workgroup\") ",
                                     [IR_SCOPE_SYSTEM] = ""};
static const char *const orders[] = {[IR_ORDER_RELAXED] = "monotonic",
                                     [IR_ORDER_ACQUIRE] = "acquire",
                                     [IR_ORDER_RELEASE] = "release",
                                     [IR_ORDER_ACQ_REL] = "acq_rel"};
// What the failing side of a compare-and-swap may be ordered by.
static const char *const failing_orders[] = {[IR_ORDER_RELAXED] = "monotonic",
                                             [IR_ORDER_ACQUIRE] = "acquire",
                                             [IR_ORDER_RELEASE] = "monotonic",
                                             [IR_ORDER_ACQ_REL] = "acquire"};

static const struct {
  const char *integer, *is_unsigned, *floating;
} operations[] = {
    [IR_COMBINE_ADD] = {"add", "add", "fadd"},    [IR_COMBINE_MAX] = {"max", "umax", "fmax"},
    [IR_COMBINE_MIN] = {"min", "umin", "fmin"},   [IR_COMBINE_AND] = {"and", "and", NULL},
    [IR_COMBINE_OR] = {"or", "or", NULL},         [IR_COMBINE_XOR] = {"xor", "xor", NULL},
    [IR_COMBINE_XCHG] = {"xchg", "xchg", "xchg"},
};

static const char *operation_of(const ir_op *op, bool is_float) {
  if (op->attrs.kind >= sizeof operations / sizeof *operations) return NULL;
  if (is_float) return operations[op->attrs.kind].floating;
  return op->attrs.flags & IR_UNSIGNED ? operations[op->attrs.kind].is_unsigned
                                       : operations[op->attrs.kind].integer;
}

// How a type is carried between functions, and what the atomic sees.
static const char *carried(kiln_scalar s) {
  static const char *const names[] = {
      [KILN_I1] = "i8",      [KILN_I8] = "i8",    [KILN_I16] = "i16",  [KILN_I32] = "i32",
      [KILN_I64] = "i64",    [KILN_F16] = "half", [KILN_BF16] = "i16", [KILN_F32] = "float",
      [KILN_F64] = "double", [KILN_E4M3] = "i8",  [KILN_E5M2] = "i8"};
  return names[s];
}

/// Atomics among threads of a device are on memory of the device, as every allocator of device memory gives;
/// without these words LLVM 22 makes loops of what memory across a bus may lack. Those of the whole system
/// promise nothing. (LLVM 19 reads "amdgpu-unsafe-fp-atomics" of the kernel.)
#define DEVICE_MEMORY \
  ", !amdgpu.no.fine.grained.memory !{}, !amdgpu.no.remote.memory !{}, !amdgpu.ignore.denormal.mode !{}"
static const char *const promises[] = {
    [IR_SCOPE_GPU] = DEVICE_MEMORY, [IR_SCOPE_CTA] = DEVICE_MEMORY, [IR_SCOPE_SYSTEM] = ""};

// Calls function `name`, linking `text` first when the module does not have it.
static LLVMValueRef call_text(gpu *g, const char *name, const char *text, LLVMTypeRef result,
                              const LLVMValueRef *arguments, unsigned count) {
  LLVMTypeRef types[4];
  for (unsigned i = 0; i < count; i++) types[i] = LLVMTypeOf(arguments[i]);
  LLVMValueRef function = LLVMGetNamedFunction(g->module, name);
  if (!function) {
    kiln_error err = {0};
    kiln_status status = kiln_llvm_link_text(g->context, g->module, text, strlen(text), name, &err);
    function = status == KILN_OK ? LLVMGetNamedFunction(g->module, name) : NULL;
    if (!function) {
      gpu_fail(g, KILN_STATUS_INTERNAL, "atomic: %s", err.text);
      return LLVMGetUndef(result);
    }
    LLVMSetLinkage(function, LLVMInternalLinkage);
  }
  return LLVMBuildCall2(g->builder, LLVMFunctionType(result, types, count, false), function,
                        (LLVMValueRef *)arguments, count, "");
}

LLVMValueRef amdgpu_atomic(gpu *g, const ir_op *op, kiln_scalar scalar, LLVMValueRef pointer,
                           LLVMValueRef value) {
  bool is_float = kiln_scalars[scalar].type_class == KILN_CLASS_FLOAT, is_bf16 = scalar == KILN_BF16;
  const char *what = operation_of(op, is_float), *type = carried(scalar), *seen = is_bf16 ? "bfloat" : type;
  const ir_attrs *a = &op->attrs;
  if (!what) {
    gpu_fail(g, KILN_STATUS_UNSUPPORTED, "atomic of kind %u on %s is not supported on amdgpu", a->kind,
             kiln_scalars[scalar].spelling);
    return LLVMGetUndef(g->elements.types[scalar]);
  }
  char name[80], text[700];
  snprintf(name, sizeof name, "kl_atomic_%s_%s_%u_%u", what, seen, a->order, a->scope);
  snprintf(text, sizeof text,
           "define %s @%s(ptr addrspace(1) %%p, %s %%v) alwaysinline nounwind {\n"
           "%%w = bitcast %s %%v to %s\n"
           "%%o = atomicrmw %s ptr addrspace(1) %%p, %s %%w %s%s, align %u%s\n"
           "%%r = bitcast %s %%o to %s\n"
           "ret %s %%r\n}\n",
           type, name, type, type, seen, what, seen, scopes[a->scope], orders[a->order],
           kiln_scalars[scalar].bytes, promises[a->scope], seen, type, type);
  LLVMValueRef arguments[] = {pointer, value};
  return call_text(g, name, text, g->elements.types[scalar], arguments, 2);
}

LLVMValueRef amdgpu_cas(gpu *g, const ir_op *op, kiln_scalar scalar, LLVMValueRef pointer,
                        LLVMValueRef expected, LLVMValueRef desired) {
  const ir_attrs *a = &op->attrs;
  const char *type = carried(scalar);
  unsigned bits = kiln_scalars[scalar].bytes * 8u;
  char name[80], text[700];
  snprintf(name, sizeof name, "kl_cas_%s_%u_%u", type, a->order, a->scope);
  snprintf(text, sizeof text,
           "define %s @%s(ptr addrspace(1) %%p, %s %%e, %s %%d) alwaysinline nounwind {\n"
           "%%ei = bitcast %s %%e to i%u\n"
           "%%di = bitcast %s %%d to i%u\n"
           "%%x = cmpxchg ptr addrspace(1) %%p, i%u %%ei, i%u %%di %s%s %s, align %u\n"
           "%%o = extractvalue { i%u, i1 } %%x, 0\n"
           "%%r = bitcast i%u %%o to %s\n"
           "ret %s %%r\n}\n",
           type, name, type, type, type, bits, type, bits, bits, bits, scopes[a->scope], orders[a->order],
           failing_orders[a->order], bits / 8, bits, bits, type, type);
  LLVMValueRef arguments[] = {pointer, expected, desired};
  return call_text(g, name, text, g->elements.types[scalar], arguments, 3);
}
