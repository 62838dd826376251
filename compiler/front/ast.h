// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The syntax tree of a module. Made by the parser, read by elaboration and never changed; lives in the
// module's arena.
#ifndef KILN_COMPILER_FRONT_AST_H
#define KILN_COMPILER_FRONT_AST_H

#include "compiler/front/lex.h"

typedef enum kiln_node_kind {
  // Expressions and types.
  KILN_NODE_INTEGER,    ///< integer; flag: hex
  KILN_NODE_REAL,       ///< real
  KILN_NODE_STRING,     ///< text
  KILN_NODE_BOOL,       ///< flag
  KILN_NODE_NAME,       ///< atom
  KILN_NODE_SCALAR,     ///< op: kiln_scalar
  KILN_NODE_POINTER,    ///< *a
  KILN_NODE_VIEW_TYPE,  ///< view a[list]
  KILN_NODE_TYPEOF,     ///< typeof(a)
  KILN_NODE_UNARY,      ///< op a; op: kiln_token_kind
  KILN_NODE_BINARY,     ///< a op b
  KILN_NODE_AS,         ///< a as b
  KILN_NODE_INDEX,      ///< a[list]
  KILN_NODE_CALL,       ///< atom[.member](list)
  KILN_NODE_LIST,       ///< [list]
  KILN_NODE_COLON,      ///< ':' among items
  KILN_NODE_UNDERSCORE, ///< '_' among items
  KILN_NODE_NAMED,      ///< atom = a among arguments
  // Statements.
  KILN_NODE_LET,            ///< names = list, or names = if: a
  KILN_NODE_VAR,            ///< the same
  KILN_NODE_ASSIGN,         ///< names = list
  KILN_NODE_FOR,            ///< atom in a .. b step c, names: attributes, body
  KILN_NODE_WHILE,          ///< a, names: attributes, body
  KILN_NODE_LOOP,           ///< a: NULL or a LET with the heads; names: attributes, body
  KILN_NODE_BREAK,          ///< b: NULL or a LET with what is passed; a: the condition
  KILN_NODE_IF,             ///< a, body, c: NULL or the else block
  KILN_NODE_WHEN,           ///< a, body, c
  KILN_NODE_RETURN,         ///< list
  KILN_NODE_YIELD,          ///< list
  KILN_NODE_CALL_STATEMENT, ///< a
  KILN_NODE_BLOCK,          ///< list
  KILN_NODE_LAUNCH,         ///< atom[names](list), in `launches`
  // Parts of items.
  KILN_NODE_CPARAM,    ///< atom: op (kiln_cparam_kind) a = b
  KILN_NODE_PARAM,     ///< atom: op (ir_access) a; names: attributes
  KILN_NODE_ATTRIBUTE, ///< @atom(list)
} kiln_node_kind;

// What callers choose, what configs do, and of that what @cost alone reads: in the order of how few read
// them.
enum { KILN_CPARAM_VALUE, KILN_CPARAM_TYPE, KILN_CPARAM_TUNE, KILN_CPARAM_COST };

typedef struct kiln_node kiln_node;
typedef struct kiln_list {
  kiln_node **items;
  uint32_t count;
} kiln_list;

struct kiln_node {
  uint8_t kind; ///< kiln_node_kind
  uint8_t op;
  bool flag;
  ir_place place;
  kiln_atom *atom, *member;
  kiln_node *a, *b, *c, *body;
  kiln_list list, names;
  union {
    int64_t integer;
    double real;
    const char *text;
  };
};

typedef enum kiln_item_kind { KILN_ITEM_CONST, KILN_ITEM_FN, KILN_ITEM_KERNEL } kiln_item_kind;

struct kiln_module;
typedef struct kiln_item {
  kiln_item_kind kind;
  kiln_atom *atom;
  ir_place place;
  struct kiln_module *module;
  kiln_list cparams, params, attributes; ///< fn: params are NAMEs with an optional type in `a`
  kiln_node *type, *value;               ///< const
  kiln_node *body;
  kiln_node *launches;     ///< kernel: a BLOCK, what may be launched in its place; NULL
  bool broken;             ///< had syntax errors: known by name, not elaborated
  struct kiln_value *memo; ///< const: its value, while memo_epoch is the module's
  uint32_t memo_epoch;
  bool evaluating; ///< const and fn: being elaborated, which guards against recursion
} kiln_item;

/// One source. A library module has no items at first; kiln_module_item reads them when they are asked for.
typedef struct kiln_module {
  kiln_arena *arena; ///< borrowed
  const char *file;
  kiln_atoms atoms;
  kiln_item **items;
  uint32_t item_count, item_capacity;
  bool is_library;
  uint32_t epoch; ///< counts elaborations
} kiln_module;

/// Parses a source; syntax errors are in `d` and the module holds what could be read.
kiln_module *kiln_parse(kiln_arena *arena, const char *file, const char *text, size_t size,
                        kiln_diagnostics *d);
/// Parses items without the version line into `module`.
void kiln_parse_items(kiln_module *module, const char *text, size_t size, uint32_t line, kiln_diagnostics *d);
/// Parses "name[a = x, b = y]" (an instance on a command line): a CALL node, or NULL.
kiln_node *kiln_parse_instance(kiln_module *module, const char *text, size_t size, kiln_diagnostics *d);

/// Names assigned anywhere in `body`, each once, in order of first assignment.
kiln_list kiln_assigned_names(kiln_arena *arena, kiln_module *module, const kiln_node *body);

#endif
