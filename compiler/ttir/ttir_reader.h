// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of the Triton IR reader share: the reader's state, and the handler of each form of
// operation.
//
// The reader makes one walk over the text and emits as it goes; there is no syntax tree. Where the order of
// the text is not the order of emission (blocks of a function, calls), it goes back and reads the piece
// again.
//
// The first failure is reported and sets `failed`; from then on the look-ahead is the end of the text and
// every function returns at once.
#ifndef KILN_COMPILER_TTIR_READER_H
#define KILN_COMPILER_TTIR_READER_H

#include "compiler/ttir/ttir.h"
#include "compiler/ttir/ttir_lex.h"

enum {
  TTIR_MAX_DEPTH = 128,    ///< regions and calls inside one another
  TTIR_MAX_VALUES = 256,   ///< operands or results of one operation
  TTIR_MAX_ENTRIES = 32,   ///< entries of one attribute dictionary
  TTIR_MAX_READ = 1 << 20, ///< operations read for one kernel, inlined and duplicated ones included
};

/// A function of the module: where its parts stand in the text.
typedef struct ttir_function {
  const char *name; ///< arena
  uint32_t length;
  bool is_public;
  ttir_lexer params; ///< at the opening parenthesis
  ttir_lexer body;   ///< at the opening brace
} ttir_function;

struct ttir_module {
  kiln_arena *arena; ///< borrowed
  const char *file;  ///< borrowed
  const char *text;  ///< borrowed
  size_t size;
  ttir_function *functions; ///< arena
  uint32_t function_count, function_capacity;
  bool has_blocks;   ///< some function may have more than one block
  uint32_t *publics; ///< arena, indexes into functions
  uint32_t public_count;
};

/// A name in scope. `text` is borrowed from the source.
typedef struct ttir_name {
  const char *text;
  uint32_t length, hash;
  uint32_t count;
  uint32_t shadowed; ///< index + 1 of the next older name in the same slot
  union {
    ir_value *one;   ///< count 1
    ir_value **many; ///< arena
  } values;
} ttir_name;

/// An attribute dictionary: texts borrowed from the source.
typedef struct ttir_entry {
  const char *name, *value;
  uint32_t name_length, value_length;
} ttir_entry;
typedef struct ttir_dictionary {
  ttir_entry entries[TTIR_MAX_ENTRIES];
  uint32_t count;
} ttir_dictionary;

typedef struct ttir_row ttir_row;

/// A facet of a descriptor value that the IR does not carry: found by the view.
typedef struct ttir_view_fact {
  const ir_value *view;
  bool is_unsigned, pads_nan;
} ttir_view_fact;

/// Triton's contract for descriptors: their memory begins at a multiple of so many bytes, and so do its rows,
/// whose elements follow each other.
enum { TTIR_DESCRIPTOR_BYTES = 16 };

enum { TTIR_SLOTS = 1024 };

typedef struct ttir_reader {
  const ttir_module *module;
  kiln_arena *arena;   ///< borrowed: of the kernel
  kiln_diagnostics *d; ///< borrowed
  ttir_lexer lex;
  ir_builder b;
  bool failed;
  bool old_e4m3; ///< f8E4M3FNUZ is how Triton 3.1 writes f8E4M3FN
  uint32_t depth, read;

  ttir_name *names; ///< arena: a stack; leaving a region pops
  uint32_t name_count, name_capacity;
  uint32_t name_floor;        ///< names below belong to the calling functions
  uint32_t slots[TTIR_SLOTS]; ///< index + 1 of the newest name of a hash

  const ttir_row *row; ///< of the operation being read
  uint32_t line;       ///< of the operation being read
  ir_value *results[TTIR_MAX_VALUES];
  uint32_t result_count;
  ttir_dictionary dictionary; ///< attributes of the operation being read

  ttir_view_fact *views; ///< arena
  uint32_t view_count, view_capacity;

} ttir_reader;

/// A row of ttir_ops.def.
struct ttir_row {
  char name[48];
  uint8_t form;      ///< ttir_form
  uint8_t code;      ///< ir_opcode, where the form asks for one
  uint8_t bool_code; ///< the same operation on i1
  uint32_t flags;    ///< flags of the operation, or what the form says
};

/// The row of an operation's name, or NULL.
const ttir_row *ttir_find_row(const char *name, size_t length);

// ------------------------------------------------------------------------------------ reader: text

/// Reports an error at the operation being read (or at the look-ahead, when that stands on a later line) and
/// stops the reader.
void ttir_error(ttir_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/// Reports what the builder refused.
void ttir_builder_error(ttir_reader *r);
bool ttir_peek(const ttir_reader *r, char mark);
bool ttir_peek_word(const ttir_reader *r, const char *word);
bool ttir_accept(ttir_reader *r, char mark);
bool ttir_accept_word(ttir_reader *r, const char *word);
void ttir_expect(ttir_reader *r, char mark);
void ttir_expect_word(ttir_reader *r, const char *word);
/// The look-ahead as a word; steps on. Its text is "" when it is none.
ttir_token ttir_take(ttir_reader *r, ttir_kind kind, const char *what);
int64_t ttir_integer(ttir_reader *r);
ttir_type ttir_read_type(ttir_reader *r, bool elided);
/// `: TYPE`.
ttir_type ttir_colon_type(ttir_reader *r);
/// Skips `loc(...)` when it stands here.
void ttir_skip_loc(ttir_reader *r);

/// A word of the text and our number for it.
typedef struct ttir_keyword {
  const char *word;
  uint8_t value;
} ttir_keyword;
/// The number of the word at the look-ahead; an error that names `what` when the table lacks it.
uint8_t ttir_read_keyword(ttir_reader *r, const ttir_keyword *table, size_t count, const char *what);

/// Reads `{a = 1 : i32, b}` or `<{...}>` when it stands here; adds to `out`, whose count starts at zero.
void ttir_read_dictionary(ttir_reader *r, ttir_dictionary *out);
const ttir_entry *ttir_entry_find(const ttir_dictionary *dictionary, const char *name);
/// The integer value of an entry (`3 : i32`, `true`), or `absent`.
int64_t ttir_entry_int(const ttir_dictionary *dictionary, const char *name, int64_t absent);
/// The text value of an entry without quotes, copied with escapes resolved; NULL when absent.
const char *ttir_entry_text(ttir_reader *r, const ttir_dictionary *dictionary, const char *name);
/// A copy of the inside of a quoted text, with escapes resolved; ends at a quote.
const char *ttir_unquote(kiln_arena *arena, const char *from, uint32_t length);
/// The integers of `array<i32: 1, 0>` or `[1, 0]`; at most `capacity`. Returns the count.
uint32_t ttir_entry_list(const ttir_dictionary *dictionary, const char *name, int64_t *out,
                         uint32_t capacity);

// ---------------------------------------------------------------------------------- reader: values

/// `[%a, %b]`: the values as i64. Returns their count.
uint32_t ttir_indices(ttir_reader *r, ir_value **out, uint32_t capacity);
/// Base, extents and strides of a view as values: 1 + 2 * rank of them. False when they could not be made.
bool ttir_view_parts(ttir_reader *r, ir_value *view, ir_value **out);
/// Load and store through a block pointer, after the operands and attributes: `value` is NULL for a load.
void ttir_block_access(ttir_reader *r, ir_value *pointer, ir_value *value, const ir_attrs *attrs);

/// `%name` or `%name#1`.
ir_value *ttir_value(ttir_reader *r);
/// `%a, %b, ...` at least one; returns the count.
uint32_t ttir_values(ttir_reader *r, ir_value **out, uint32_t capacity);
/// `%a, %b, %c`: exactly `count`.
bool ttir_operands(ttir_reader *r, ir_value **out, uint32_t count);
/// Binds a name to one value, or to several (`%x#0`, `%x#1`).
void ttir_define(ttir_reader *r, ttir_token name, ir_value *const *values, uint32_t count);
uint32_t ttir_scope(const ttir_reader *r);
void ttir_leave(ttir_reader *r, uint32_t scope);
/// Makes `value` the (next) result of the operation being read.
void ttir_give(ttir_reader *r, ir_value *value);
/// All results of `op`; NULL: none.
void ttir_give_results(ttir_reader *r, const ir_op *op);
/// Checks that `value` has the type the text states.
void ttir_check_type(ttir_reader *r, const ir_value *value, ir_type stated);
/// Reads `{..} : (T, ..) -> T`: checks the operands' types, gives the result's. The dictionary is the
/// reader's.
ir_type ttir_read_operand_types(ttir_reader *r, ir_value *const *v, uint32_t count);
/// ir_emit with failures reported. NULL when it failed.
ir_op *ttir_emit(ttir_reader *r, ir_opcode code, const ir_attrs *attrs, ir_value *const *operands,
                 size_t count, const ir_type *given);
ir_op *ttir_emit_regions(ttir_reader *r, ir_opcode code, const ir_attrs *attrs, ir_value *const *operands,
                         size_t count, ir_block *const *regions, size_t region_count);
/// A constant of `bits` in the shape and element of `like`.
ir_value *ttir_splat_bits(ttir_reader *r, ir_type like, uint64_t bits);
/// The integer of a scalar's or an element's width.
ir_type ttir_bits_of(ir_type type);
ir_value *ttir_splat_float(ttir_reader *r, ir_type like, double value);
/// `value` in the shape of `like`: splatted when it is a scalar and `like` is not.
ir_value *ttir_spread(ttir_reader *r, ir_value *value, ir_type like);
/// A mask or default that is a scalar stands for every lane: `v[from..count)` in the shape of `v[0]`.
void ttir_spread_all(ttir_reader *r, ir_value **v, uint32_t from, uint32_t count);

/// `: (T, U) -> (V, W)` or `-> V`: types of operands are checked; results follow from the rules.
void ttir_read_signature(ttir_reader *r, ir_value *const *operands, uint32_t count);

// ----------------------------------------------------------------------------------------- control

/// Hints on the only result of the operation being read, from its attributes.
void ttir_hint_result(ttir_reader *r);
/// Hints on the arguments of a loop's body, from the loop's attributes. `first` and `step` of the counter that is
/// argument 0; NULL: the loop has none.
void ttir_hint_arguments(ttir_reader *r, ir_block *body, const ir_value *first, const ir_value *step);
/// Statements up to (not past) the end of the enclosing region: `}` or a block label.
void ttir_statements(ttir_reader *r);
/// Opens a region: emission goes to the new block, names are scoped. `ttir_close_region` gives both back.
typedef struct ttir_region {
  ir_block *block, *outer;
  uint32_t scope;
} ttir_region;
ttir_region ttir_open_region(ttir_reader *r);
void ttir_close_region(ttir_reader *r, const ttir_region *region);
/// `^bb0(%a: T loc(..), ...):` Adds arguments to the open region and names them. Returns the count.
uint32_t ttir_block_label(ttir_reader *r, ir_block *block);
/// Reads the function's body at the lexer, after its brace and with its arguments named; yields what it
/// returns. Returns the count of values.
uint32_t ttir_body(ttir_reader *r, ir_value *out_values[TTIR_MAX_VALUES]);
/// The function of that name, or NULL.
const ttir_function *ttir_find_function(const ttir_module *module, const char *name, uint32_t length);

/// Follows pointers from parameters to loads, stores and atomics and sets the access mode of each pointer and
/// view parameter.
void ttir_set_access(ir_kernel *kernel, kiln_arena *scratch);

#endif
