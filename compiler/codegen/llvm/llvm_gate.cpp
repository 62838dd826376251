// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which passes of code generation run, for one context or for all, and a complete text of a module: LLVM's C interface has no
// form of it.
#include "compiler/codegen/llvm/llvm_gate.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

#if LLVM_VERSION_MAJOR >= 22
#define UNCHANGED const
#else
#define UNCHANGED // there a gate may count what it is asked
#endif

namespace {

/// Loop strength reduction is left out, and what is left out everywhere.
class gate : public llvm::OptPassGate {
public:
  bool shouldRunPass(llvm::StringRef pass, llvm::StringRef unit) UNCHANGED override {
    return pass != "Loop Strength Reduction" && llvm::getGlobalPassGate().shouldRunPass(pass, unit);
  }
  bool isEnabled() const override { return true; }
};

} // namespace

extern "C" void kiln_llvm_keep_addresses(LLVMContextRef context) {
  static gate g;
  llvm::unwrap(context)->setOptPassGate(g);
}

extern "C" bool kiln_llvm_set_flag(const char *name) {
  auto &options = llvm::cl::getRegisteredOptions();
  auto found = options.find(name);
  if (found == options.end()) return false;
  static_cast<llvm::cl::opt<bool> *>(found->second)->setInitialValue(true);
  return true;
}

extern "C" void kiln_llvm_print_whole(LLVMModuleRef module, kiln_buffer *out) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::unwrap(module)->print(stream, nullptr, true);
  stream.flush();
  // The order of the uses of inline assembly: LLVM prints it and cannot read it back, and no pass goes by it.
  for (size_t at = 0, end; at < text.size(); at = end) {
    end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const llvm::StringRef line = llvm::StringRef(text).slice(at, end);
    if (!line.ltrim().starts_with("uselistorder ptr asm ")) kiln_buffer_bytes(out, line.data(), line.size());
  }
}
