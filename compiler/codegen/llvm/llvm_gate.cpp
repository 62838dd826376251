// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which passes of code generation run, for one context: LLVM's C interface has no form of it.
#include "compiler/codegen/llvm/llvm_gate.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/OptBisect.h>

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
