// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// lld's entry point has no C form.
#include "compiler/codegen/finish/lld_shim.h"

#include <algorithm>
#include <cstring>
#include <string>

#include <lld/Common/Driver.h>

LLD_HAS_DRIVER(elf)

// lld initialises every back end that LLVM was built with, for link-time optimisation, which is not used
// here. Those that are not linked into this program get empty initialisers; a row below keeps the real ones.
#define OURS_AMDGPU _, 1
#define OURS_NVPTX _, 1
#define OURS_X86 _, 1
#define OURS_AArch64 _, 1
#define SECOND(a, b, ...) b
#define IS_OURS(...) SECOND(__VA_ARGS__, 0, )
#define PASTE(a, b) a##b
#define CHOOSE(ours, name) PASTE(EMPTY_, ours)(name)
#define EMPTY_1(name)
#define EMPTY_0(name) \
  extern "C" void name() {}
#define LLVM_TARGET(T)                                     \
  CHOOSE(IS_OURS(OURS_##T), LLVMInitialize##T##Target)     \
  CHOOSE(IS_OURS(OURS_##T), LLVMInitialize##T##TargetInfo) \
  CHOOSE(IS_OURS(OURS_##T), LLVMInitialize##T##TargetMC)
#include <llvm/Config/Targets.def>
#define LLVM_ASM_PRINTER(T) CHOOSE(IS_OURS(OURS_##T), LLVMInitialize##T##AsmPrinter)
#include <llvm/Config/AsmPrinters.def>
#define LLVM_ASM_PARSER(T) CHOOSE(IS_OURS(OURS_##T), LLVMInitialize##T##AsmParser)
#include <llvm/Config/AsmParsers.def>

extern "C" bool kiln_lld_run(const char *const *args, size_t arg_count, char *text, size_t capacity,
                             bool *out_usable) {
  std::string printed;
  llvm::raw_string_ostream stream(printed);
  const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
  lld::Result result = lld::lldMain(llvm::ArrayRef<const char *>(args, arg_count), stream, stream, drivers);
  stream.flush();
  size_t length = std::min(printed.size(), capacity - 1);
  std::memcpy(text, printed.data(), length);
  text[length] = 0;
  *out_usable = result.canRunAgain;
  return result.retCode == 0;
}
