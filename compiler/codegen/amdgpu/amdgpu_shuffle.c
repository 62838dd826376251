// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The value of the lane whose number differs by a constant. In the vector unit where the hardware can (DPP
// inside 16 lanes, permlane between rows and halves), through the LDS crossbar where it cannot.
//
//   bits of the mask      gfx9                        gfx10 and later
//   1 2 4 8               DPP, up to three moves      DPP row_xmask
//   16                    ds_swizzle                  v_permlanex16
//   32                    ds_bpermute                 v_permlane64 (gfx11)
#include "compiler/codegen/amdgpu/amdgpu.h"

enum {
  DPP_ROW_ROR_8 = 0x128,
  DPP_ROW_MIRROR_HALF = 0x141,
  DPP_ROW_XMASK = 0x160,
  SWIZZLE_AND_ALL = 0x1f,
  SWIZZLE_XOR_SHIFT = 10,
  ALL_ROWS = 0xf,
};

static LLVMValueRef dpp(gpu *g, LLVMValueRef value, unsigned control) {
  LLVMValueRef arguments[] = {LLVMGetPoison(g->i32), value,
                              gpu_i32(g, control),   gpu_i32(g, ALL_ROWS),
                              gpu_i32(g, ALL_ROWS),  gpu_i1(g, true)};
  return amdgpu_intrinsic(g, "llvm.amdgcn.update.dpp", g->i32, arguments, 6);
}

// quad_perm with lane i taking i ^ mask.
static LLVMValueRef quad_xor(gpu *g, LLVMValueRef value, unsigned mask) {
  unsigned control = 0;
  for (unsigned i = 0; i < 4; i++) control |= (i ^ mask) << 2 * i;
  return mask ? dpp(g, value, control) : value;
}

// Inside 16 lanes on gfx9: mirroring 8 lanes is xor 7, turning 16 lanes by 8 is xor 8.
static LLVMValueRef row_xor_gfx9(gpu *g, LLVMValueRef value, unsigned mask) {
  if (mask & 8) value = dpp(g, value, DPP_ROW_ROR_8);
  if (mask & 4) value = dpp(g, value, DPP_ROW_MIRROR_HALF);
  return quad_xor(g, value, mask & 4 ? ~mask & 3 : mask & 3);
}

static LLVMValueRef swizzle_xor(gpu *g, LLVMValueRef value, unsigned mask) {
  LLVMValueRef arguments[] = {value, gpu_i32(g, mask << SWIZZLE_XOR_SHIFT | SWIZZLE_AND_ALL)};
  return amdgpu_intrinsic(g, "llvm.amdgcn.ds.swizzle", NULL, arguments, 2);
}

static LLVMValueRef permute_xor(gpu *g, LLVMValueRef value, unsigned mask) {
  LLVMValueRef lane = LLVMBuildXor(g->builder, g->thread, gpu_i32(g, mask), "");
  LLVMValueRef arguments[] = {LLVMBuildShl(g->builder, lane, gpu_i32(g, 2), ""), value};
  return amdgpu_intrinsic(g, "llvm.amdgcn.ds.bpermute", NULL, arguments, 2);
}

static LLVMValueRef xor_gfx9(gpu *g, LLVMValueRef value, unsigned mask) {
  if (mask < 16) return row_xor_gfx9(g, value, mask);
  return mask < 32 ? swizzle_xor(g, value, mask) : permute_xor(g, value, mask);
}

// An empty instruction that may not move to where fewer lanes run.
LLVMValueRef amdgpu_pin(gpu *g, LLVMValueRef value) {
  return kiln_llvm_asm(g->builder, KILN_ASM_TOGETHER, "", "=v,0", LLVMTypeOf(value), &value, 1);
}

static LLVMValueRef xor_gfx10(gpu *g, LLVMValueRef value, unsigned mask) {
  if (mask & 15)
    value = mask & 12 ? dpp(g, value, DPP_ROW_XMASK | (mask & 15)) : quad_xor(g, value, mask & 3);
  if (mask & 16) {
    LLVMValueRef arguments[] = {LLVMGetPoison(g->i32),  value,           gpu_i32(g, 0x76543210),
                                gpu_i32(g, 0xfedcba98), gpu_i1(g, true), gpu_i1(g, true)};
    value = amdgpu_pin(g, amdgpu_intrinsic(g, "llvm.amdgcn.permlanex16", g->i32, arguments, 6));
  }
  if (mask & 32) value = amdgpu_pin(g, amdgpu_intrinsic(g, "llvm.amdgcn.permlane64", g->i32, &value, 1));
  return value;
}

LLVMValueRef amdgpu_shuffle_xor(gpu *g, LLVMValueRef value, unsigned mask) {
  return g->target->processor->major < 10 ? xor_gfx9(g, value, mask) : xor_gfx10(g, value, mask);
}

// v_perm takes its bytes from two words: 0 to 3 are the second operand's.
LLVMValueRef amdgpu_join_bytes(gpu *g, const LLVMValueRef words[2], const uint8_t from[4]) {
  uint32_t selector = 0;
  for (unsigned i = 0; i < 4; i++) selector |= (uint32_t)from[i] << 8 * i;
  LLVMValueRef arguments[] = {words[1], words[0], gpu_i32(g, selector)};
  return amdgpu_intrinsic(g, "llvm.amdgcn.perm", NULL, arguments, 3);
}
