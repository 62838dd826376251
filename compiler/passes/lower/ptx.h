// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inline PTX on machines that are not NVIDIA's: text that computes registers from registers, without memory
// and branches. It is read once to see whether all of it is known (ptx_read.c), and written as operations
// (ptx_emit.c). Its instructions and types: ptx.def.
#ifndef KILN_COMPILER_PASSES_LOWER_PTX_H
#define KILN_COMPILER_PASSES_LOWER_PTX_H

#include "compiler/passes/lower/expand_inner.h"
#include "compiler/target_info.h"

enum { PTX_MAX_REGISTERS = 192, PTX_MAX_STEPS = 128, PTX_MAX_OPERANDS = 5, PTX_MAX_PARTS = 4 };

// The words of ptx.def's columns, which are sets.
typedef enum ptx_kind {
  PRED = 1 << 0,
  BITS = 1 << 1,
  UINT = 1 << 2,
  SINT = 1 << 3,
  HALF = 1 << 4,
  FLOAT = 1 << 5,
  TF32 = 1 << 6,
  FP8 = 1 << 7,
} ptx_kind;

typedef enum ptx_modifier {
  RN = 1 << 0,
  RZ = 1 << 1,
  RNA = 1 << 2,
  RNI = 1 << 3,
  RZI = 1 << 4,
  RMI = 1 << 5,
  RPI = 1 << 6,
  ROUND = RN | RZ | RNA | RNI | RZI | RMI | RPI,
  APPROX = 1 << 7,
  FULL = 1 << 8,
  FTZ = 1 << 9,
  SAT = 1 << 10,
  SATFINITE = 1 << 11,
  RELU = 1 << 12,
  NANS = 1 << 13,
  LO = 1 << 14,
  HI = 1 << 15,
  WIDE = 1 << 16,
  L = 1 << 17,
  R = 1 << 18,
  WRAP = 1 << 19,
  CLAMP = 1 << 20,
  COMPARE = 1 << 21,
} ptx_modifier;

typedef enum ptx_meaning {
  PTX_ELEMENTS, ///< the operation on each lane; with three sources of a product, the third is added
  PTX_HIGH,     ///< the upper half of a product
  PTX_WIDE,     ///< a product of twice the bits
  PTX_NEGATE,
  PTX_INVERT,
  PTX_COPYSIGN,
  PTX_NOT,
  PTX_SHIFT, ///< by counts that may be beyond the width
  PTX_LOP3,
  PTX_PRMT,
  PTX_EXTRACT,
  PTX_INSERT,
  PTX_COUNT,
  PTX_REVERSE,
  PTX_FUNNEL,
  PTX_COMPARE,
  PTX_SELECT,
  PTX_MOVE,
  PTX_CONVERT,
  PTX_MEANINGS,
} ptx_meaning;

typedef struct ptx_type {
  char name[8];
  uint8_t bits, lanes;
  ptx_kind kind;
  kiln_scalar lane;
} ptx_type;

typedef struct ptx_row {
  char name[12];
  uint32_t kinds, bits, may, must;
  char operands[8];
  ptx_meaning meaning;
  ir_opcode code;
} ptx_row;

typedef struct ptx_compare {
  char name[8];
  ir_predicate predicate;
  bool unordered, is_unsigned;
} ptx_compare;

typedef enum ptx_operand_kind { PTX_NONE, PTX_REGISTERS, PTX_NUMBER, PTX_SPECIAL } ptx_operand_kind;

/// A register, `{a, b}` and `p|q` are so many registers.
typedef struct ptx_operand {
  ptx_operand_kind kind;
  uint8_t count;
  int16_t registers[PTX_MAX_PARTS]; ///< -1: `_`
  bool is_real;                     ///< of a number: `real` is meant, else `bits`
  uint64_t bits;                    ///< SPECIAL: ptx_special
  double real;
} ptx_operand;

typedef struct ptx_step {
  const ptx_row *row;
  const ptx_type *type, *from; ///< cvt has two; else from is type
  const ptx_compare *compare;
  uint32_t modifiers;
  int16_t guard; ///< predicate, or -1
  bool unless;   ///< done where the guard is false
  uint8_t count;
  ptx_operand operands[PTX_MAX_OPERANDS];
} ptx_step;

typedef struct ptx_register {
  const char *name; ///< in the text; NULL: an operand of the assembly, or no longer visible
  uint16_t length;
  int16_t number; ///< of `name<n>`: which; -1: plain
  uint8_t bits;
  uint8_t depth; ///< of braces
  bool written;
} ptx_register;

typedef struct ptx_program {
  ptx_register registers[PTX_MAX_REGISTERS]; ///< outputs, inputs, declared ones
  unsigned register_count, step_count;
  ptx_step steps[PTX_MAX_STEPS];
  const char *fault; ///< what is not known, in the text; NULL: all is
  unsigned fault_length;
} ptx_program;

/// Reads `text`. The caller has put the bits of outputs and inputs into the first `outputs + inputs`
/// registers. False, with the fault, where something is not known.
bool kiln_ptx_read(ptx_program *p, const char *text, unsigned outputs, unsigned inputs);
/// The value of a special register, which is the target's to make: `bits` wide, or NULL with the builder's
/// error set.
typedef ir_value *ptx_special_value(expanding *x, ptx_special special, unsigned bits);
/// Emits the program on integers of the registers' bits, all of `shape`: values of the inputs after the
/// outputs in `values`, where the outputs are left.
void kiln_ptx_emit(expanding *x, const ptx_program *p, ir_type shape, ptx_special_value *special,
                   ir_value **values);

#endif
