// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is known of the host's processors without LLVM: how Linux is asked for the time and the processor.
#include "compiler/target_info.h"

#define CALLS_X86 "~{rcx},~{rdi},~{rsi},~{rdx},~{r11},~{memory},~{dirflag},~{fpsr},~{flags}"
#define CALLS_ARM "~{x1},~{x2},~{x8},~{x9},~{x10},~{x11},~{memory}"

// clock_gettime in nanoseconds; getcpu.
static const kiln_special_register registers[] = {
    {PTX_GLOBALTIMER, "x86_64", 0, 0, KILN_MATRIX_NONE, 64, 1, "={rax}," CALLS_X86,
     "leaq -144(%rsp), %rsp\nmovl $$228, %eax\nxorl %edi, %edi\nmovq %rsp, %rsi\nsyscall\n"
     "imulq $$1000000000, (%rsp), %rax\naddq 8(%rsp), %rax\nleaq 144(%rsp), %rsp"},
    {PTX_GLOBALTIMER, "aarch64", 0, 0, KILN_MATRIX_NONE, 64, 1, "={x0}," CALLS_ARM,
     "sub sp, sp, #16\nmov x8, #113\nmov x0, #0\nmov x1, sp\nsvc #0\nldp x9, x10, [sp], #16\n"
     "mov w11, #51712\nmovk w11, #15258, lsl #16\nmadd x0, x9, x11, x10"},
    {PTX_SMID, "x86_64", 0, 0, KILN_MATRIX_NONE, 32, 1, "={eax}," CALLS_X86,
     "leaq -144(%rsp), %rsp\nmovl $$309, %eax\nmovq %rsp, %rdi\nxorl %esi, %esi\nxorl %edx, %edx\nsyscall\n"
     "movl (%rsp), %eax\nleaq 144(%rsp), %rsp"},
    {PTX_SMID, "aarch64", 0, 0, KILN_MATRIX_NONE, 32, 1, "={w0}," CALLS_ARM,
     "sub sp, sp, #16\nmov x8, #168\nmov x0, sp\nmov x1, #0\nmov x2, #0\nsvc #0\nldr w0, [sp], #16"},
};

const kiln_target_info kiln_host_info = {.registers = registers,
                                         .register_count = sizeof registers / sizeof *registers};
