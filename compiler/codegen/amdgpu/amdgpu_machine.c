// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AMDGPU as a gpu_machine: prelude bodies, attributes of the kernel, and the hooks of the sibling files.
//
// Kernel ABI 1 needs nothing here: LLVM lays kernel arguments out at their natural alignment. No hidden
// argument is asked for; the grid's extent comes from the dispatch packet.
#include <stdio.h>

#include "compiler/codegen/amdgpu/amdgpu.h"

enum { AMDGPU_KERNEL_CONVENTION = 91, AMDGPU_WAVE64 = 0x8000, MAX_BLOCK_THREADS = 1024 };

#define LIST(...) __VA_ARGS__
static const kl_body bodies[] = {
#define BODY(name, least, uses, text) {KL_##name, least, text, {LIST uses}, false},
#define BODY_WITH_DENORMALS(name, least, uses, text) {KL_##name, least, text, {LIST uses}, true},
#include "compiler/codegen/amdgpu/prelude_amdgpu.def"
#undef BODY_WITH_DENORMALS
#undef BODY
};

// ------------------------------------------------------------------------------------------ kernel

// What the kernel does without; LLVM then reserves no registers for it and the loader passes nothing.
static const char *const unneeded[] = {
    "amdgpu-no-completion-action", "amdgpu-no-default-queue",      "amdgpu-no-dispatch-id",
    "amdgpu-no-heap-ptr",          "amdgpu-no-hostcall-ptr",       "amdgpu-no-implicitarg-ptr",
    "amdgpu-no-lds-kernel-id",     "amdgpu-no-multigrid-sync-arg", "amdgpu-no-queue-ptr",
    "amdgpu-no-workitem-id-y",     "amdgpu-no-workitem-id-z",
};

static void set_block_shape(gpu *g, LLVMValueRef function, unsigned threads) {
  LLVMMetadataRef sizes[3];
  for (int i = 0; i < 3; i++) sizes[i] = LLVMValueAsMetadata(gpu_i32(g, i ? 1 : threads));
  LLVMMetadataRef node = LLVMMDNodeInContext2(g->context, sizes, 3);
  LLVMGlobalSetMetadata(function, LLVMGetMDKindIDInContext(g->context, "reqd_work_group_size", 20), node);
}

bool amdgpu_has_far_registers(const kiln_target *target) {
  return kiln_matrix_unit_of(target)->has_sum_registers;
}

/// Waves of a block on one SIMD: it is spread over four.
static unsigned waves_of_block(const gpu *g) { return g->warps > 2 ? 1u << (g->warps - 2) : 1; }

// Tiles that are alive together need more than half of the registers, so a second wave has little or no room
// on a SIMD whatever is done: LLVM then need not look for a schedule that makes room, and spill for it.
// Operands of WMMA, which are read in between, are as large again as what is alive of them.
static bool fills_registers(gpu *g) {
  enum { HALF = 256, HALF_OF_RDNA = 128, MOST_WAVES = 2 }; // of a SIMD: as many as have all registers there
  const bool is_rdna = g->target->processor->major >= 10, has_product = ir_find(g->kernel->body, IR_DOT);
  if (waves_of_block(g) > (is_rdna ? MOST_WAVES : 1) || (!is_rdna && !amdgpu_has_far_registers(g->target)))
    return false;
  return gpu_live_words(g) > (!is_rdna ? HALF : has_product ? HALF_OF_RDNA / 2 : HALF_OF_RDNA);
}

static void finish_kernel(gpu *g, LLVMValueRef function) {
  char text[32];
  unsigned threads = 1u << (g->lanes + g->warps);
  LLVMSetFunctionCallConv(function, AMDGPU_KERNEL_CONVENTION);
  snprintf(text, sizeof text, "%u,%u", threads, threads);
  kiln_llvm_mark(function, "amdgpu-flat-work-group-size", text);
  kiln_llvm_mark(function, "uniform-work-group-size", "true");
  kiln_llvm_mark(function, "amdgpu-ieee",
                 "false"); // signalling NaN is not a thing here: no quieting before min and max
  kiln_llvm_mark(function, "amdgpu-unsafe-fp-atomics",
                 "true"); // memory of the device, as every allocator of device memory gives
  kiln_llvm_mark(function, "denormal-fp-math-f32",
                 g->kernel->fp_flush ? "preserve-sign,preserve-sign" : "ieee,ieee");
  for (size_t i = 0; i < sizeof unneeded / sizeof *unneeded; i++) kiln_llvm_mark(function, unneeded[i], "");
  if (g->kernel->max_registers) {
    snprintf(text, sizeof text, "%u", g->kernel->max_registers);
    kiln_llvm_mark(function, "amdgpu-num-vgpr", text);
  }
  if (fills_registers(g)) {
    const unsigned waves = waves_of_block(g);
    snprintf(text, sizeof text, "%u,%u", waves, waves);
    kiln_llvm_mark(function, "amdgpu-waves-per-eu", text);
  }
  set_block_shape(g, function, threads);
}

// Else LLVM moves the sum of a part down to where sums are added up, and the part stays alive until then.
static LLVMValueRef pin(gpu *g, LLVMValueRef value) {
  LLVMTypeRef type = LLVMTypeOf(value);
  if (LLVMGetTypeKind(type) == LLVMPointerTypeKind) return amdgpu_pin(g, value);
  unsigned bits = (unsigned)LLVMSizeOfTypeInBits(LLVMGetModuleDataLayout(g->module), type);
  LLVMTypeRef whole = LLVMIntTypeInContext(g->context, bits), wide = bits < 32 ? g->i32 : whole;
  LLVMValueRef in = LLVMBuildZExt(g->builder, LLVMBuildBitCast(g->builder, value, whole, ""), wide, "");
  LLVMValueRef out = LLVMBuildTrunc(g->builder, amdgpu_pin(g, in), whole, "");
  return LLVMBuildBitCast(g->builder, out, type, "");
}

static LLVMValueRef warp(gpu *g) {
  LLVMValueRef number = LLVMBuildLShr(g->builder, g->thread, gpu_i32(g, g->lanes), "");
  return amdgpu_intrinsic(g, "llvm.amdgcn.readfirstlane", g->i32, &number, 1);
}

// Lanes are counted from a zero that is made here.
static LLVMValueRef thread_of_warp(gpu *g, LLVMValueRef warp) {
  LLVMValueRef all = gpu_i32(g, UINT32_MAX), low[] = {all, amdgpu_pin(g, gpu_i32(g, 0))},
               lane = amdgpu_intrinsic(g, "llvm.amdgcn.mbcnt.lo", NULL, low, 2), high[] = {all, lane};
  if (g->lanes > 5) lane = amdgpu_intrinsic(g, "llvm.amdgcn.mbcnt.hi", NULL, high, 2);
  LLVMValueRef first = LLVMBuildShl(g->builder, warp, gpu_i32(g, g->lanes), "");
  return LLVMBuildOr(g->builder, first, lane, "");
}

// Which pairs gfx11 can issue together is asked of all pairs of what is scheduled together.
static void cut_schedule(gpu *g) {
  LLVMValueRef nothing = gpu_i32(g, 0);
  amdgpu_intrinsic(g, "llvm.amdgcn.sched.barrier", NULL, &nothing, 1);
}

static LLVMValueRef read_turned(gpu *g, LLVMValueRef pointer, LLVMTypeRef type) {
  LLVMTypeRef words = gpu_packed_type(g, 1u << KILN_TURNED_LOG2_BYTES);
  if (gpu_bytes_of(g, type) == 1)
    return amdgpu_intrinsic(g, "llvm.amdgcn.ds.read.tr8.b64", words, &pointer, 1);
  LLVMValueRef read =
      amdgpu_intrinsic(g, "llvm.amdgcn.ds.read.tr16.b64", LLVMVectorType(type, 4), &pointer, 1);
  return LLVMBuildBitCast(g->builder, read, words, "");
}

// ----------------------------------------------------------------------------------------- machine

const gpu_machine *gpu_machine_amdgpu(const kiln_target *target, gpu_machine *storage) {
  const kiln_processor *p = target->processor;
  bool is_wide_rdna = p->major >= 10 && target->wave == 64;
  *storage = (gpu_machine){
      .name = "amdgpu",
      .lanes = (uint8_t)kiln_target_lanes(target),
      .processor = p->number | (is_wide_rdna ? AMDGPU_WAVE64 : 0u),
      .max_shared = p->shared_bytes,
      .static_shared = p->shared_bytes,
      .max_warps = MAX_BLOCK_THREADS / target->wave,
      .bodies = bodies,
      .body_count = sizeof bodies / sizeof *bodies,
      .emit_product = amdgpu_emit_product,
      .finish_product = amdgpu_finish_product,
      .matrix = p->matrix,
      .finish_kernel = finish_kernel,
      .pin = pin,
      .warp = warp,
      .thread_of_warp = thread_of_warp,
      .atomic = amdgpu_atomic,
      .cas = amdgpu_cas,
      .least_register = 32,
      .carries_words = true,
      .join_bytes = amdgpu_join_bytes,
      .hold_loads = amdgpu_hold_loads,
      .near_memory = amdgpu_near_memory,
      .near_load = amdgpu_near_load,
      .takes_ahead = p->major < 10,
      .order_body = amdgpu_order_body,
      .shuffle_xor = amdgpu_shuffle_xor,
      .read_turned = kiln_matrix_unit_of(target)->turns ? read_turned : NULL,
      .has_split_choice = true,
      .cut_schedule = cut_schedule,
  };
  return storage;
}
