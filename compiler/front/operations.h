// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations as a source spells them: one row of operations.def each, one handler a form.
#ifndef KILN_COMPILER_FRONT_OPERATIONS_H
#define KILN_COMPILER_FRONT_OPERATIONS_H

#include "compiler/front/elaborate.h"

enum { KILN_CALL_ARGS = 32 };

/// What handles an operation: kiln_operation_NAME, one of handlers.def each.
typedef enum kiln_handler {
#define HANDLER(name) KILN_HANDLER_##name,
#include "compiler/front/handlers.def"
#undef HANDLER
} kiln_handler;

typedef struct kiln_operation kiln_operation;

/// A call of an operation, arguments sorted into positional and named.
typedef struct kiln_call {
  const kiln_operation *operation;
  const kiln_node *node;
  ir_place place;
  const kiln_node *args[KILN_CALL_ARGS];
  uint32_t count;
} kiln_call;

struct kiln_operation {
  char name[16];
  uint8_t handler;     ///< kiln_handler
  uint8_t least, most; ///< positional arguments
  uint8_t code;        ///< ir_opcode, for handlers that serve several
  uint32_t flags;      ///< of the operation
  char named[48];      ///< argument names, separated by blanks
  char form[64];       ///< for messages
};

// Handlers. Each returns what the operation yields.
#define HANDLER(name) kiln_values kiln_operation_##name(kiln_elab *e, const kiln_call *c, kiln_value *one);
#include "compiler/front/handlers.def"
#undef HANDLER

// What handlers share (elaborate_call.c).
kiln_values kiln_call_one(kiln_value v, kiln_value *one);
/// Positional argument `i`, or the one named `name`; NULL when neither is there.
const kiln_node *kiln_call_arg(const kiln_call *c, uint32_t i, const char *name);
const kiln_node *kiln_call_named(const kiln_call *c, const char *name);
/// A named boolean: adds `flag` to `flags` when true. False after an error.
bool kiln_call_flag(kiln_elab *e, const kiln_call *c, const char *name, uint32_t flag, uint32_t *flags);
/// A named word: its index in `words` (ended by NULL), 0 when absent. False after an error.
bool kiln_call_word(kiln_elab *e, const kiln_call *c, const char *name, const char *const *words,
                    uint8_t *out);
/// The value of positional argument `i` in the IR; NULL after an error.
ir_value *kiln_call_value(kiln_elab *e, const kiln_call *c, uint32_t i);
/// The items of argument `i`, which must be a list.
bool kiln_call_list(kiln_elab *e, const kiln_call *c, uint32_t i, const char *what, kiln_list *out);
/// reduce, scan, atomic: kind and flags of the member ("add", "umax"), which is there.
void kiln_call_combine(const kiln_call *c, uint8_t *out_kind, uint32_t *flags);
/// False after an error: the unsigned form of an operation on `element`, which is no integer.
bool kiln_call_takes_unsigned(kiln_elab *e, const kiln_call *c, uint32_t flags, ir_type element);
bool kiln_fold_operation(kiln_elab *e, ir_place place, ir_opcode code, uint32_t flags,
                         const kiln_value *values, uint32_t count, kiln_value *out);

#endif
