// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One handler a form of operation; the FORM column of ttir_ops.def names them.
#ifndef KILN_COMPILER_TTIR_FORMS_H
#define KILN_COMPILER_TTIR_FORMS_H

#include "compiler/ttir/ttir_reader.h"

/// What the flags column says besides flags of operations.
enum {
  TTIR_SIGNED = 1 << 15,     ///< casts: i1 is a signed number, true is -1
  TTIR_INT = 1 << 16,        ///< works on integers and i1 only
  TTIR_FLOAT = 1 << 17,      ///< works on floats only; casts: those of 8 bits too
  TTIR_POINTER = 1 << 18,    ///< works on pointers only
  TTIR_TO_INT = 1 << 19,     ///< casts: gives integers or i1
  TTIR_TO_FLOAT = 1 << 20,   ///< casts: gives floats
  TTIR_TO_POINTER = 1 << 21, ///< casts: gives pointers
  TTIR_WIDENS = 1 << 22,     ///< casts: the result has more bits
  TTIR_NARROWS = 1 << 23,    ///< casts: the result has fewer bits
  TTIR_OWN = 0xff8000,
};

typedef enum ttir_form {
#define FORM(name) TTIR_FORM_##name,
#include "compiler/ttir/ttir_forms.def"
#undef FORM
} ttir_form;

#define FORM(name) void ttir_form_##name(ttir_reader *r, const ttir_row *row);
#include "compiler/ttir/ttir_forms.def"
#undef FORM

#endif
