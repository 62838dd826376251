// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads, stores and atomics of user memory, and the elements of kept tiles.
//
// Lanes that are neighbours in memory become one vector access; others are gathered. In memory an i1 is a
// byte.
#include <llvm/Config/llvm-config.h>
#include <string.h>

#include "compiler/codegen/host/host.h"

#define B h->builder

static unsigned lane_count(const host *h) { return 1u << h->point->lanes_log2; }

/// What of an access is known besides its addresses.
typedef struct access {
  ir_type element;
  LLVMTypeRef memory; // element in memory
  unsigned bytes;
  bool is_volatile;
} access;

static access access_of(host *h, ir_type element, bool is_volatile) {
  return (access){element, host_memory_type(h, element), host_memory_bytes(element), is_volatile};
}

static LLVMValueRef from_memory(host *h, const access *a, LLVMValueRef x) {
  if (a->memory == host_element_type(h, a->element)) return x;
  return LLVMBuildICmp(B, LLVMIntNE, x, kiln_int_like(h->i8, x, 0), "");
}

static LLVMValueRef to_memory(host *h, const access *a, LLVMValueRef x) {
  return a->memory == host_element_type(h, a->element) ? x
                                                       : LLVMBuildZExt(B, x, kiln_type_like(h->i8, x), "");
}

static LLVMValueRef plain_load(host *h, const access *a, LLVMTypeRef type, LLVMValueRef pointer) {
  LLVMValueRef load = LLVMBuildLoad2(B, type, pointer, "");
  LLVMSetAlignment(load, a->bytes);
  LLVMSetVolatile(load, a->is_volatile);
  return load;
}

static void plain_store(host *h, const access *a, LLVMValueRef value, LLVMValueRef pointer) {
  LLVMValueRef store = LLVMBuildStore(B, value, pointer);
  LLVMSetAlignment(store, a->bytes);
  LLVMSetVolatile(store, a->is_volatile);
}

static LLVMValueRef any_lane(host *h, LLVMValueRef mask) {
  unsigned width = kiln_lanes_of(mask);
  if (!width) return mask;
  LLVMTypeRef bits = LLVMIntTypeInContext(h->context, width);
  return LLVMBuildICmp(B, LLVMIntNE, LLVMBuildBitCast(B, mask, bits, ""), LLVMConstNull(bits), "");
}

static LLVMValueRef part(host *h, LLVMValueRef v, unsigned first, unsigned count) {
  uint32_t lanes[1024];
  for (unsigned i = 0; i < count; i++) lanes[i] = first + i;
  return host_shuffle(h, v, NULL, lanes, count);
}

static bool is_splat(LLVMValueRef v) {
  if (!LLVMIsAShuffleVectorInst(v) || !LLVMIsAInsertElementInst(LLVMGetOperand(v, 0))) return false;
  for (unsigned i = 0; i < LLVMGetNumMaskElements(v); i++)
    if (LLVMGetMaskValue(v, i) != 0) return false;
  return true;
}

static bool is_false(LLVMValueRef mask) { return LLVMIsConstant(mask) && LLVMIsNull(mask); }
static bool is_true(LLVMValueRef mask) {
  return LLVMIsConstant(mask) && mask == LLVMConstAllOnes(LLVMTypeOf(mask));
}

/// The same of a mask, taken through conjunctions, so that a half that is constant is seen to be.
enum { MAX_DEPTH = 6 };
static LLVMValueRef mask_part(host *h, LLVMValueRef v, unsigned first, unsigned count, unsigned depth) {
  if (is_splat(v)) return host_splat(h, LLVMGetOperand(LLVMGetOperand(v, 0), 1), count);
  if (!LLVMIsABinaryOperator(v) || LLVMGetInstructionOpcode(v) != LLVMAnd || depth == MAX_DEPTH)
    return part(h, v, first, count);
  LLVMValueRef a = mask_part(h, LLVMGetOperand(v, 0), first, count, depth + 1),
               b = mask_part(h, LLVMGetOperand(v, 1), first, count, depth + 1);
  if (is_false(a) || is_true(b)) return a;
  return is_false(b) || is_true(a) ? b : LLVMBuildAnd(B, a, b, "");
}

static LLVMValueRef joined(host *h, LLVMValueRef low, LLVMValueRef high) {
  uint32_t lanes[1024];
  unsigned count = 2 * kiln_lanes_of(low);
  for (unsigned i = 0; i < count; i++) lanes[i] = i;
  return host_shuffle(h, low, high, lanes, count);
}

/// llvm.masked.*, whose address (or vector of addresses) is argument `at` of three; `type` is what goes
/// between memory and registers. Addresses are aligned for one element: up to LLVM 21 an argument after them
/// says so, from 22 on an attribute of theirs.
static LLVMValueRef masked(host *h, const access *a, const char *name, LLVMTypeRef type, unsigned at,
                           const LLVMValueRef arguments[3]) {
  LLVMTypeRef types[2] = {type, LLVMTypeOf(arguments[at])};
#if LLVM_VERSION_MAJOR < 22
  LLVMValueRef all[4];
  memcpy(all, arguments, (at + 1) * sizeof *all);
  all[at + 1] = LLVMConstInt(h->i32, a->bytes, false);
  memcpy(all + at + 2, arguments + at + 1, (2 - at) * sizeof *all);
  return host_intrinsic(h, name, types, 2, all, 4);
#else
  LLVMValueRef all[3];
  memcpy(all, arguments, sizeof all);
  LLVMValueRef call = host_intrinsic(h, name, types, 2, all, 3);
  kiln_llvm_attribute(call, (int)at + 1, "align", a->bytes);
  return call;
#endif
}

static LLVMValueRef bytes_after(host *h, LLVMValueRef pointer, uint64_t bytes) {
  LLVMValueRef offset = host_i64(h, (int64_t)bytes);
  return LLVMBuildGEP2(B, h->i8, pointer, &offset, 1, "");
}

// Masked accesses are cut to one native vector here: LLVM (19 and 22), cutting them itself, reads the half
// whose mask is the constant false and loses what was to stand there.
static LLVMValueRef masked_load(host *h, const access *a, LLVMTypeRef type, LLVMValueRef pointer,
                                LLVMValueRef mask, LLVMValueRef other) {
  unsigned half = LLVMGetVectorSize(type) / 2;
  if (2 * half * a->bytes > h->vector_bytes) {
    LLVMTypeRef small = LLVMVectorType(a->memory, half);
    LLVMValueRef low =
        masked_load(h, a, small, pointer, mask_part(h, mask, 0, half, 0), part(h, other, 0, half));
    LLVMValueRef high = masked_load(h, a, small, bytes_after(h, pointer, (uint64_t)half * a->bytes),
                                    mask_part(h, mask, half, half, 0), part(h, other, half, half));
    return joined(h, low, high);
  }
  if (is_false(mask)) return other;
  if (is_true(mask)) return plain_load(h, a, type, pointer);
  return masked(h, a, "llvm.masked.load", type, 0, (LLVMValueRef[3]){pointer, mask, other});
}

// A scalar load under a condition: branches would end the block that pulls share, so a vector of one is asked
// for.
static LLVMValueRef conditional_load(host *h, const access *a, LLVMValueRef pointer, LLVMValueRef condition,
                                     LLVMValueRef other) {
  LLVMTypeRef one = LLVMVectorType(a->memory, 1);
  LLVMValueRef zero = host_i64(h, 0), mask = LLVMConstNull(LLVMVectorType(h->i1, 1)),
               rest = LLVMGetPoison(one);
  mask = LLVMBuildInsertElement(B, mask, condition, zero, "");
  rest = LLVMBuildInsertElement(B, rest, other, zero, "");
  return LLVMBuildExtractElement(B, masked_load(h, a, one, pointer, mask, rest), zero, "");
}

static LLVMValueRef gather(host *h, const access *a, LLVMValueRef pointers, LLVMValueRef mask,
                           LLVMValueRef other) {
  LLVMTypeRef type = LLVMVectorType(a->memory, lane_count(h));
  LLVMValueRef all = LLVMConstAllOnes(kiln_type_like(h->i1, pointers));
  LLVMValueRef arguments[3] = {pointers, mask ? mask : all, other ? other : LLVMGetPoison(type)};
  return masked(h, a, "llvm.masked.gather", type, 0, arguments);
}

/// `mask` and `other` may be absent (value NULL); a masked load without other gives zeros.
static host_lanes load_lanes(host *h, const access *a, host_lanes p, host_lanes mask, host_lanes other) {
  LLVMTypeRef vector = LLVMVectorType(a->memory, lane_count(h));
  if (mask.value && is_true(mask.value)) mask.value = NULL;
  if (p.form == HOST_UNIFORM && (!mask.value || mask.form == HOST_UNIFORM) &&
      (!other.value || other.form == HOST_UNIFORM)) {
    LLVMValueRef rest = other.value ? to_memory(h, a, other.value) : LLVMConstNull(a->memory);
    LLVMValueRef x =
        mask.value ? conditional_load(h, a, p.value, mask.value, rest) : plain_load(h, a, a->memory, p.value);
    return (host_lanes){from_memory(h, a, x), 0, HOST_UNIFORM};
  }
  LLVMValueRef m = mask.value ? host_vector(h, mask) : NULL, x;
  LLVMValueRef rest = !m            ? NULL
                      : other.value ? to_memory(h, a, host_vector(h, other))
                                    : LLVMConstNull(vector);
  if (p.form == HOST_UNIFORM) {
    if (!m) x = host_splat(h, plain_load(h, a, a->memory, p.value), lane_count(h));
    else {
      LLVMValueRef one = conditional_load(h, a, p.value, any_lane(h, m), LLVMConstNull(a->memory));
      x = LLVMBuildSelect(B, m, host_splat(h, one, lane_count(h)), rest, "");
    }
  } else if (p.form == HOST_AFFINE && p.stride == (int64_t)a->bytes)
    x = m ? masked_load(h, a, vector, p.value, m, rest) : plain_load(h, a, vector, p.value);
  else x = gather(h, a, host_vector(h, p), m, rest);
  return (host_lanes){from_memory(h, a, x), 0, HOST_VECTOR};
}

host_lanes host_load(host *h, const ir_op *op, const host_map *map) {
  access a = access_of(h, ir_element(op->results[0].type), (op->attrs.flags & IR_VOLATILE) != 0);
  host_lanes mask = {0}, other = {0}, p = host_pull(h, op->operands[0], map);
  if (op->operand_count > 1 && !h->point->live) {
    mask = host_pull(h, op->operands[1], map);
    if (op->operand_count > 2) other = host_pull(h, op->operands[2], map);
  }
  return load_lanes(h, &a, p, mask, other);
}

static void masked_store(host *h, const access *a, LLVMValueRef value, LLVMValueRef pointer,
                         LLVMValueRef mask) {
  unsigned half = kiln_lanes_of(value) / 2;
  if (2 * half * a->bytes > h->vector_bytes) {
    masked_store(h, a, part(h, value, 0, half), pointer, mask_part(h, mask, 0, half, 0));
    masked_store(h, a, part(h, value, half, half), bytes_after(h, pointer, (uint64_t)half * a->bytes),
                 mask_part(h, mask, half, half, 0));
    return;
  }
  if (is_false(mask)) return;
  masked(h, a, "llvm.masked.store", LLVMTypeOf(value), 1, (LLVMValueRef[3]){value, pointer, mask});
}

static void scatter(host *h, const access *a, LLVMValueRef value, LLVMValueRef pointers, LLVMValueRef mask) {
  LLVMValueRef all = LLVMConstAllOnes(kiln_type_like(h->i1, pointers));
  LLVMValueRef arguments[3] = {value, pointers, mask ? mask : all};
  masked(h, a, "llvm.masked.scatter", LLVMTypeOf(value), 1, arguments);
}

static void store_one(host *h, const access *a, LLVMValueRef value, LLVMValueRef pointer,
                      LLVMValueRef condition) {
  if (!condition || is_true(condition)) {
    plain_store(h, a, value, pointer);
    return;
  }
  LLVMValueRef zero = host_i64(h, 0), x = LLVMGetPoison(LLVMVectorType(a->memory, 1)),
               mask = LLVMConstNull(LLVMVectorType(h->i1, 1));
  x = LLVMBuildInsertElement(B, x, value, zero, "");
  mask = LLVMBuildInsertElement(B, mask, condition, zero, "");
  masked_store(h, a, x, pointer, mask);
}

static void store_lanes(host *h, const access *a, host_lanes p, host_lanes value, host_lanes mask) {
  if (!h->point || !h->point->lanes_log2) {
    store_one(h, a, to_memory(h, a, value.value), p.value, mask.value);
    return;
  }
  LLVMValueRef x = to_memory(h, a, host_vector(h, value)), m = mask.value ? host_vector(h, mask) : NULL;
  if (m && is_true(m)) m = NULL;
  if (p.form != HOST_AFFINE || p.stride != (int64_t)a->bytes) scatter(h, a, x, host_vector(h, p), m);
  else if (m) masked_store(h, a, x, p.value, m);
  else plain_store(h, a, x, p.value);
}

void host_store(host *h, const ir_op *op, const host_map *map) {
  access a = access_of(h, ir_element(op->operands[1]->type), (op->attrs.flags & IR_VOLATILE) != 0);
  host_lanes p = host_pull(h, op->operands[0], map), value = host_pull(h, op->operands[1], map), mask = {0};
  if (op->operand_count > 2 && !h->point->live) mask = host_pull(h, op->operands[2], map);
  store_lanes(h, &a, p, value, mask);
}

// ----------------------------------------------------------------------------------------- buffers

static host_lanes buffer_address(host *h, const host_buffer *buffer, const access *a, const host_map *map) {
  host_lanes i = host_index(h, map);
  LLVMValueRef p = LLVMBuildInBoundsGEP2(B, a->memory, buffer->pointer, &i.value, 1, "");
  return (host_lanes){p, i.stride * (int64_t)a->bytes, i.form};
}

static access buffer_access(host *h, const host_buffer *buffer) {
  return access_of(h, (ir_type){.scalar = (uint8_t)buffer->scalar, .pointer = buffer->is_pointer}, false);
}

host_lanes host_buffer_load(host *h, const host_buffer *buffer, const host_map *map) {
  access a = buffer_access(h, buffer);
  return load_lanes(h, &a, buffer_address(h, buffer, &a, map), (host_lanes){0}, (host_lanes){0});
}

void host_buffer_store(host *h, const host_buffer *buffer, const host_map *map, host_lanes x) {
  access a = buffer_access(h, buffer);
  store_lanes(h, &a, buffer_address(h, buffer, &a, map), x, (host_lanes){0});
}
