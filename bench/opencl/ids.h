// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ids without a device library.
#if defined(__AMDGCN__)
#define LOCAL_ID (int)__builtin_amdgcn_workitem_id_x()
#define GROUP_X (int)__builtin_amdgcn_workgroup_id_x()
#define GROUP_Y (int)__builtin_amdgcn_workgroup_id_y()
#define BARRIER()                                                                       \
  (__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"), __builtin_amdgcn_s_barrier(), \
   __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"))
#define EXP2(v) __builtin_amdgcn_exp2f(v)
#define SQRT(v) __builtin_amdgcn_sqrtf(v)
#else
#define EXP2(v) __nvvm_ex2_approx_f(v)
#define SQRT(v) __nvvm_sqrt_approx_f(v)
#define LOCAL_ID __nvvm_read_ptx_sreg_tid_x()
#define GROUP_X __nvvm_read_ptx_sreg_ctaid_x()
#define GROUP_Y __nvvm_read_ptx_sreg_ctaid_y()
#define BARRIER() __nvvm_barrier_sync(0)
#endif
