// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// In which order a loop with products issues them, and what they read, load and store: a list of
// llvm.amdgcn.sched.group.barrier, which LLVM's scheduler keeps. Without one it sinks all loads to where
// their values are used, and waits there.
//
// The list follows from what the body holds, in the order in which it was emitted:
//
//   loads of the next iteration   one before each product, from the first on: they have the whole iteration
//   reads of shared memory        AHEAD products before the one that takes what is read
//   stores to the other slot      one before each of the last products
//
// A body that meets at a barrier between its products gets none: a list is about one stretch. Nor does, where
// a thread has 256 registers, one that begins sums of its own (attention): what a list keeps apart spills
// there.
#include <string.h>

#include "compiler/codegen/amdgpu/amdgpu.h"

enum { MOST_PRODUCTS = 256, LEAST_PRODUCTS = 4, AHEAD = 4, SHARED_MEMORY = 3 };

/// Masks of what a group is made of.
enum { PRODUCTS = 0x8, LOADS = 0x20, READS = 0x100, STORES = 0x200 };

typedef struct body_list {
  unsigned products, loads, reads, stores; ///< of the body
  bool is_cut;                             ///< a barrier stands between products
  bool has_barrier;                        ///< since the last product
  bool begins_sums;                        ///< a product adds to nothing
  unsigned needs[MOST_PRODUCTS];           ///< reads that stand before each product
} body_list;

static void group(gpu *g, unsigned mask, unsigned count) {
  LLVMValueRef arguments[] = {gpu_i32(g, mask), gpu_i32(g, count), gpu_i32(g, 0)};
  if (count) amdgpu_intrinsic(g, "llvm.amdgcn.sched.group.barrier", NULL, arguments, 3);
}

static unsigned space_of(LLVMValueRef pointer) { return LLVMGetPointerAddressSpace(LLVMTypeOf(pointer)); }

static bool is_nothing(LLVMValueRef value) {
  return LLVMIsConstant(value) && LLVMGetTypeKind(LLVMTypeOf(value)) == LLVMVectorTypeKind;
}

static void note_call(body_list *l, LLVMValueRef call) {
  size_t length;
  LLVMValueRef callee = LLVMGetCalledValue(call);
  if (LLVMIsAInlineAsm(callee)) {
    l->begins_sums |= strstr(LLVMGetInlineAsmAsmString(callee, &length), "v_wmma") != NULL;
    return;
  }
  const char *name = LLVMGetValueName2(callee, &length);
  if (strstr(name, "amdgcn.mfma") || strstr(name, "amdgcn.wmma")) {
    l->is_cut |= l->has_barrier && l->products;
    l->has_barrier = false;
    for (unsigned i = 0; i < LLVMGetNumArgOperands(call); i++)
      l->begins_sums |= is_nothing(LLVMGetOperand(call, i));
    if (l->products < MOST_PRODUCTS) l->needs[l->products] = l->reads;
    l->products++;
  }
  l->loads += strstr(name, "buffer.load") != NULL;
  l->reads += strstr(name, "ds.read.tr") != NULL;
  l->has_barrier |= strstr(name, "kl_barrier") != NULL;
}

static void look_at(LLVMBasicBlockRef body, body_list *l) {
  for (LLVMValueRef i = LLVMGetFirstInstruction(body); i; i = LLVMGetNextInstruction(i)) {
    switch (LLVMGetInstructionOpcode(i)) {
    case LLVMCall: note_call(l, i); break;
    case LLVMLoad:
      l->reads += space_of(LLVMGetOperand(i, 0)) == SHARED_MEMORY;
      l->loads += space_of(LLVMGetOperand(i, 0)) != SHARED_MEMORY;
      break;
    case LLVMStore:
      // Those before the first product fill the slot that it reads.
      l->stores += l->products && space_of(LLVMGetOperand(i, 1)) == SHARED_MEMORY;
      break;
    default: break;
    }
  }
}

/// Of `total`, spread over `places` places that end before place `end`: how many belong to place `at`.
static unsigned share(unsigned total, unsigned places, unsigned end, unsigned at) {
  const unsigned begin = end - places;
  if (at < begin || at >= end) return 0;
  return total * (at - begin + 1) / places - total * (at - begin) / places;
}

void amdgpu_order_body(gpu *g, LLVMBasicBlockRef body) {
  body_list l = {0};
  unsigned read = 0;
  look_at(body, &l);
  if (l.products < LEAST_PRODUCTS || l.products > MOST_PRODUCTS || l.is_cut || !l.reads) return;
  if (l.begins_sums && !amdgpu_has_far_registers(g->target)) return;
  const unsigned storing = l.stores < l.products / 2 ? l.stores : l.products / 2,
                 loading = l.loads < l.products / 2 ? l.loads : l.products / 2;
  for (unsigned at = 0; at < l.products; at++) {
    const unsigned last = at + AHEAD < l.products ? at + AHEAD : l.products - 1;
    group(g, READS, l.needs[last] - read);
    read = l.needs[last];
    if (loading) group(g, LOADS, share(l.loads, loading, loading, at));
    if (storing) group(g, STORES, share(l.stores, storing, l.products, at));
    group(g, PRODUCTS, 1);
  }
}
