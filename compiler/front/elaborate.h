// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elaboration: one walk over a kernel's syntax tree that binds names, evaluates what is known at compile
// time, inlines functions, types and emits. This walk is the check. Shared by the elaborate_*.c files.
//
// An error is reported once, where it is found; its value is KILN_VALUE_ERROR, which everything that uses it
// passes on in silence.
#ifndef KILN_COMPILER_FRONT_ELABORATE_H
#define KILN_COMPILER_FRONT_ELABORATE_H

#include "base/nearest.h"
#include "compiler/front/ast.h"

typedef enum kiln_value_kind {
  KILN_VALUE_ERROR,
  KILN_VALUE_INT,     ///< integer literal without a type
  KILN_VALUE_REAL,    ///< float literal without a type
  KILN_VALUE_CONST,   ///< scalar of `type` known now: bits; `ir` when it has been emitted already
  KILN_VALUE_RUNTIME, ///< ir
  KILN_VALUE_TYPE,    ///< type
  KILN_VALUE_TEXT,    ///< text
  KILN_VALUE_TARGET,  ///< the reserved constant TARGET
} kiln_value_kind;

typedef struct kiln_value {
  uint8_t kind;
  bool is_pattern; ///< INT written in hex: a bit pattern
  ir_type type;    ///< CONST, RUNTIME, TYPE
  union {
    int64_t integer;
    double real;
    uint64_t bits;
    const char *text;
  };
  ir_value *ir;
} kiln_value;

typedef struct kiln_values {
  kiln_value *items; ///< arena
  uint32_t count;
} kiln_values;

typedef struct kiln_control kiln_control;

typedef struct kiln_binding {
  kiln_atom *atom;
  struct kiln_binding *shadowed; ///< of the same name, further out
  struct kiln_binding *below;    ///< on the stack of bindings
  kiln_value value;
  ir_place place;
  uint32_t frame, scope, order;
  bool is_var;
  kiln_control *control; ///< innermost when it was made
  kiln_control *pending; ///< lives before the break of that loop: passed on when it is read
} kiln_binding;

typedef struct kiln_touch {
  kiln_binding *binding;
  kiln_value before;
} kiln_touch;

/// What a side of an `if` with values yields.
typedef struct kiln_yields {
  kiln_values values;      ///< in the IR once the side has ended
  const kiln_values *like; ///< of the sides before it, whose types these take; NULL in the first
  ir_place place;          ///< of what gave the values
} kiln_yields;

/// A branch or loop being elaborated: which outer variables it has assigned, and for loops what passes the
/// break.
struct kiln_control {
  kiln_control *outer;
  kiln_touch *touched;
  uint32_t touched_count, touched_capacity;
  bool is_loop, has_break;
  struct kiln_loop *loop; ///< of a loop that takes a break
  kiln_yields *yields;    ///< of a side of an `if` with values, else NULL
};

typedef struct kiln_elab {
  kiln_arena *arena;    ///< of the kernel
  kiln_module *module;  ///< where names are looked up now
  kiln_module *library; ///< NULL until needed
  const char *file;     ///< of the user's source
  kiln_diagnostics *d;
  const kiln_target *target; ///< NULL: TARGET, WARP, SMEM are errors
  ir_builder b;
  ir_kernel *kernel; ///< NULL outside of kernels
  bool is_check;     ///< constants are looked at for their errors: what needs a target is passed over
  bool has_builder;  ///< false while only compile-time values are evaluated
  kiln_binding *top;
  kiln_control *control, *base; ///< innermost; innermost around the function being inlined
  uint32_t frame, frames, scope, order, depth, calls;
  uint64_t steps;           ///< left before the instance is too large
  const char *library_call; ///< name of the library function that the user's text calls, or NULL
  ir_place library_place;
  bool in_kernel;         ///< not inside a function
  kiln_binding *returned; ///< hidden flag of a kernel that returns early, or NULL
  kiln_values *returns;   ///< where a function's `return` puts values; NULL in a kernel
  bool ended;             ///< a `return` or `yield` has been met: nothing more of this block is reached
} kiln_elab;

enum {
  KILN_MOST_SPLIT = 8
}; ///< blocks that share a loop: as many as every Hopper processor takes in a cluster
enum { KILN_ELAB_DEPTH = 1000, KILN_ELAB_CALLS = 64, KILN_ELAB_STEPS = 2000000, KILN_ELAB_VALUES = 256 };

// elaborate.c
void kiln_elab_init(kiln_elab *e, kiln_arena *arena, kiln_module *module, kiln_diagnostics *d,
                    const kiln_target *target);
/// Reports and yields an error value. Inside the library the place is the user's call.
kiln_value kiln_elab_error(kiln_elab *e, ir_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
uint32_t kiln_elab_open_scope(kiln_elab *e, kiln_binding **out_top);
void kiln_elab_close_scope(kiln_elab *e, kiln_binding *top, uint32_t scope);
kiln_binding *kiln_elab_bind(kiln_elab *e, kiln_atom *atom, ir_place place, kiln_value value);
kiln_binding *kiln_elab_find(const kiln_elab *e, const kiln_atom *atom);
kiln_value kiln_elab_name(kiln_elab *e, const kiln_node *n);
/// One of the constants that the language itself has.
bool kiln_elab_is_constant(const char *name);
/// Considers every name that could stand where the elaborator is.
void kiln_elab_suggest(const kiln_elab *e, kiln_nearest *n);
/// What a message about an unknown `word` ends with: "; did you mean 'x'?" with the nearest of `known`, or
/// `lead` and all of them. `known` has words between blanks; what a parenthesis says of one is passed over.
const char *kiln_elab_meant(kiln_elab *e, const char *word, const char *lead, const char *known);
/// The error for an attribute that a `thing` does not have.
void kiln_elab_unknown_attribute(kiln_elab *e, const kiln_node *attribute, const char *thing,
                                 const char *known);
/// The definition of a name in this module, or in the library.
kiln_item *kiln_elab_item(kiln_elab *e, const kiln_atom *atom);
/// Inlines a function.
kiln_values kiln_elab_inline(kiln_elab *e, kiln_item *item, const kiln_value *args, uint32_t count,
                             ir_place place);

// elaborate_value.c
bool kiln_value_is_known(kiln_value v);
kiln_value kiln_value_int(int64_t v);
kiln_value kiln_value_real(double v);
kiln_value kiln_value_const(ir_type type, uint64_t bits);
kiln_value kiln_value_bool(bool v);
kiln_value kiln_value_type(ir_type type);
kiln_value kiln_value_runtime(ir_value *v);
/// "f32[128]", "an integer literal": for messages.
const char *kiln_value_text(kiln_value v, char out[IR_TYPE_TEXT]);
/// CONST of an integer type as a number.
int64_t kiln_value_const_int(kiln_value v);
double kiln_value_const_real(kiln_value v);
/// Wraps an emitted result; when it is NULL reports the builder's error at `place`.
kiln_value kiln_elab_result(kiln_elab *e, ir_place place, ir_value *v);
/// A literal as a constant of `element`; typed values of that element pass; others are an error that begins
/// with `what`.
kiln_value kiln_elab_as_element(kiln_elab *e, ir_place place, kiln_value v, ir_type element,
                                const char *what);
/// The value in the IR. Literals become i32 or f32.
ir_value *kiln_elab_runtime(kiln_elab *e, ir_place place, kiln_value v);
/// The type that the value has or would take.
bool kiln_elab_type_of(kiln_elab *e, ir_place place, kiln_value v, ir_type *out);
/// The value with element and shape of `want`: literals typed, scalars splatted, extents of 1 broadcast.
ir_value *kiln_elab_fit(kiln_elab *e, ir_place place, kiln_value v, ir_type want, const char *what);
/// Brings the values to one element type and one shape. False after an error.
bool kiln_elab_unify(kiln_elab *e, ir_place place, kiln_value *const *values, uint32_t count,
                     const char *what);
/// The same for shapes only.
bool kiln_elab_unify_shapes(kiln_elab *e, ir_place place, ir_value **values, uint32_t count,
                            const char *what);
/// Refuses what types allow and nobody means: integers divided by a zero that is known, unsigned forms of
/// floats. `name` is how the text has it.
bool kiln_elab_is_sensible(kiln_elab *e, ir_place place, ir_opcode code, uint32_t flags, const char *name,
                           kiln_value left, kiln_value right);
/// A typed constant is emitted at once, so that printed kernels read back operation by operation.
kiln_value kiln_elab_emit_const(kiln_elab *e, kiln_value v);

// elaborate_expr.c
kiln_value kiln_elab_eval(kiln_elab *e, const kiln_node *n);
/// Calls may yield several values.
kiln_values kiln_elab_eval_all(kiln_elab *e, const kiln_node *n, kiln_value *one);
bool kiln_elab_type(kiln_elab *e, const kiln_node *n, ir_type *out);
/// A compile-time integer of at least `least` and at most `most`; `what` names it in messages.
bool kiln_elab_integer(kiln_elab *e, const kiln_node *n, int64_t least, int64_t most, const char *what,
                       int64_t *out);
/// A promise that a value of `type` is a multiple of `*out`, a number above 0.
bool kiln_elab_divisor(kiln_elab *e, const kiln_node *n, ir_type type, const char *what, int64_t *out);
bool kiln_elab_known_bool(kiln_elab *e, const kiln_node *n, const char *what, bool *out);
/// log2 of an extent.
bool kiln_elab_extent(kiln_elab *e, const kiln_node *n, uint8_t *out_log2);
/// Sets rank and extents of `type` from items.
bool kiln_elab_shape(kiln_elab *e, ir_place place, kiln_list items, bool is_view, ir_type *type);
kiln_value kiln_elab_binary(kiln_elab *e, ir_place place, kiln_token_kind op, kiln_value left,
                            kiln_value right);
kiln_value kiln_elab_compare(kiln_elab *e, ir_place place, ir_predicate predicate, uint32_t flags,
                             kiln_value left, kiln_value right);
kiln_value kiln_elab_cast(kiln_elab *e, ir_place place, kiln_value v, ir_type element, uint32_t flags,
                          ir_round round);

// elaborate_value.c
/// Compile-time arithmetic; false: not foldable, emit it.
bool kiln_fold_binary(kiln_elab *e, ir_place place, ir_opcode code, kiln_value left, kiln_value right,
                      kiln_value *out);
bool kiln_fold_compare(kiln_elab *e, ir_place place, ir_predicate predicate, bool is_unsigned,
                       kiln_value left, kiln_value right, kiln_value *out);
kiln_value kiln_fold_cast(const kiln_elab *e, kiln_value v, ir_type element, uint32_t flags, ir_round round);

// elaborate_call.c
kiln_values kiln_elab_call(kiln_elab *e, const kiln_node *n, kiln_value *one);
bool kiln_elab_is_operation(const char *name);
/// Of a call: that the operation has the form that is named, as `reduce` has `reduce.add`.
void kiln_elab_check_form(kiln_elab *e, const kiln_node *n);
/// In order of name; NULL beyond the last.
const char *kiln_elab_operation_name(size_t index);
/// Inlines `fn` as the combiner of a reduction over `types`: a block that yields as many values as there are
/// types.
ir_block *kiln_elab_combiner(kiln_elab *e, kiln_item *fn, const ir_type *types, uint32_t count,
                             ir_place place);

// elaborate_statement.c, elaborate_loop.c
/// Values for the names of a binding, as many as there are names: of expressions, where a call may have
/// several, or of an 'if'. On a mismatch all are errors.
kiln_values kiln_elab_values_for(kiln_elab *e, const kiln_node *n);
void kiln_elab_block(kiln_elab *e, const kiln_node *block);
/// What follows a statement in its block and, when that is the block of a 'when', in the blocks around it.
typedef struct kiln_rest {
  kiln_list list;
  uint32_t from;
  const struct kiln_rest *outer;
} kiln_rest;
/// The statements of `list` from `from` on, as of a function or of a loop that takes a break: no scope is
/// opened. True when an 'if' among them that may return was elaborated with all that follows it, `outer`
/// included.
bool kiln_elab_statements(kiln_elab *e, const kiln_rest *rest);
void kiln_elab_loop(kiln_elab *e, const kiln_node *n);
void kiln_elab_for(kiln_elab *e, const kiln_node *n);
void kiln_elab_break(kiln_elab *e, const kiln_node *n);
kiln_value kiln_elab_condition(kiln_elab *e, const kiln_node *n, const char *what);
void kiln_elab_assign(kiln_elab *e, kiln_binding *binding, ir_place place, kiln_value v);
void kiln_elab_open_control(kiln_elab *e, kiln_control *c, bool is_loop);
void kiln_elab_close_control(kiln_elab *e);
/// Reads a loop's attributes into `attrs`.
/// `counter`: the type of what counts, which an attribute may speak of.
void kiln_elab_loop_attributes(kiln_elab *e, kiln_list attributes, ir_type counter, ir_attrs *attrs);
/// Gets a binding's value, passing it over the break of its loop when it must.
kiln_value kiln_elab_read(kiln_elab *e, kiln_binding *binding);

// library.c
/// A module whose items are read from mathlib.kiln when they are asked for.
kiln_module *kiln_library_open(kiln_arena *arena);
/// In order of name; NULL beyond the last.
const char *kiln_library_name(size_t index);
kiln_item *kiln_library_item(kiln_module *library, const char *name, size_t length, kiln_diagnostics *d);

#endif
