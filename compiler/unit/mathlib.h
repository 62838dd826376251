// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The math library of the kernel language (front/mathlib.kiln), as Triton IR and the passes call it. The
// front end implements it, because the library is parsed on demand (front/library.c).
#ifndef KILN_COMPILER_UNIT_MATHLIB_H
#define KILN_COMPILER_UNIT_MATHLIB_H

#include "compiler/ir/ir.h"

/// Emits function `name` of the library at the builder's place, inlined, for `count` arguments: tiles or
/// scalars of f32 or f64 (f16 and bf16 go through f32). Returns the one result, in the type of the first
/// argument; NULL with b->error set when there is no such function or the types do not fit. Names: the maths
/// operations' own texts ("exp2", "log2", "sin", "cos", "tan", "tanh", "erf", "rsqrt") give the expansion in
/// plain arithmetic, never the operation itself. Thread safe; parses only the functions it needs.
ir_value *kiln_mathlib_call(ir_builder *b, const char *name, ir_value *const *args, size_t count);

#endif
