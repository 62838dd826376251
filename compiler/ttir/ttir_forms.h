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

// ttir_control.c
ttir_handler ttir_form_for, ttir_form_while, ttir_form_if, ttir_form_yield, ttir_form_condition,
    ttir_form_call;
// ttir_arith.c
ttir_handler ttir_form_constant, ttir_form_poison, ttir_form_binary, ttir_form_unary, ttir_form_ternary,
    ttir_form_negate, ttir_form_cmpi, ttir_form_cmpf, ttir_form_select, ttir_form_cast, ttir_form_bitcast,
    ttir_form_clamp, ttir_form_quotient;
// ttir_maths.c
ttir_handler ttir_form_maths, ttir_form_extern;
// ttir_tile.c
ttir_handler ttir_form_pid, ttir_form_range, ttir_form_splat, ttir_form_unsplat, ttir_form_expand,
    ttir_form_broadcast, ttir_form_reshape, ttir_form_trans, ttir_form_join, ttir_form_split, ttir_form_cat,
    ttir_form_dot;
// ttir_combine.c
ttir_handler ttir_form_reduce, ttir_form_gather, ttir_form_histogram;
// ttir_memory.c
ttir_handler ttir_form_addptr, ttir_form_load, ttir_form_store, ttir_form_barrier, ttir_form_assume,
    ttir_form_assert, ttir_form_print, ttir_form_nothing;
// ttir_atomic.c
ttir_handler ttir_form_atomic, ttir_form_cas, ttir_form_atomic_load, ttir_form_atomic_store,
    ttir_form_atomic_poll;
// ttir_asm.c
ttir_handler ttir_form_asm;
// ttir_map.c
ttir_handler ttir_form_map;
// ttir_view.c
ttir_handler ttir_form_opaque, ttir_form_make_view, ttir_form_view_load, ttir_form_view_store,
    ttir_form_view_reduce;
// ttir_pointer.c
ttir_handler ttir_form_make_block, ttir_form_advance;
// ttir_scaled.c
ttir_handler ttir_form_dot_scaled;
// ttir_gather.c
ttir_handler ttir_form_view_gather, ttir_form_view_scatter;

#endif
