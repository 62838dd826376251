// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel as text, at every stage after the front end: all that a pass may read of it, printed and read
// back. docs/kir.md describes it to people; passes/stages.h has what stands above the kernel in a file.
//
//   kernel kiln_k warps=4 stages=2 strict grid=65535,1,1
//     %0 x: in *f32 noalias align=16
//     %1 n: i32 range=0..1024
//     layout l0 of 128: (1 2 | 4 8 16 32 64 | 0 0)
//   {
//     %2: i32[128] = iota !0
//     %3: f32[128] @l0 = load %2 @l0, %4 cache=cg !7
//     %5: i32 = for %6, %7, %8, %9 stages=3 (%10: i32, %11: i32) {
//       yield %11
//     } with full
//   }
//
// After a type and after an operand stands the layout, where there is one: of the value, and the one that
// the operation takes. Attributes are rows of attrs.def; `?flags=2` is one that no row names. `!7` is what
// messages call the operation, its number in the canonical form, and `@12:3` after that its place in the
// source. `with` introduces notes, which belong to whoever gives an ir_text_notes.
#ifndef KILN_COMPILER_IR_TEXT_H
#define KILN_COMPILER_IR_TEXT_H

#include "compiler/ir/attrs.h"
#include "compiler/ir/ir.h"

// ------------------------------------------------------------------------------------------- words

typedef enum ir_token_kind {
  IR_TOKEN_END,
  IR_TOKEN_WORD,   ///< letters, digits and _.- after a letter or _
  IR_TOKEN_NUMBER, ///< 12, -3, 0x1f, 1.5e-7
  IR_TOKEN_VALUE,  ///< %12, %sum
  IR_TOKEN_TEXT,   ///< "..."
  IR_TOKEN_SIGN,   ///< any other single character
} ir_token_kind;

/// A text that is read word by word. The first failure is kept, with its place; then every function returns
/// false, and the words have ended.
typedef struct ir_words {
  kiln_arena *arena; ///< borrowed
  const char *at, *end, *line_begin;
  uint32_t line, last_line; ///< that of the word before
  ir_token_kind kind;       ///< of the word that is next
  const char *start;
  size_t length;
  ir_place place;   ///< of that word; of the failure after one
  kiln_error error; ///< status KILN_OK until something failed
} ir_words;

void ir_words_open(ir_words *w, kiln_arena *arena, const char *text, size_t size);
/// Goes on to the next word.
void ir_words_next(ir_words *w);
/// Whether the next word is this one.
bool ir_words_at(const ir_words *w, const char *word);
/// The same, and goes on after it.
bool ir_words_take(ir_words *w, const char *word);
/// Goes on after it, or fails.
bool ir_words_expect(ir_words *w, const char *word);
/// An integer in the range.
bool ir_words_number(ir_words *w, int64_t least, int64_t most, int64_t *out);
/// 64 bits: an integer of either sign.
bool ir_words_bits(ir_words *w, uint64_t *out);
/// What stands between quotes; no NUL is in it.
bool ir_words_text(ir_words *w, const char **out);
/// The rest of the line without blanks around it, which ends the word before.
bool ir_words_line(ir_words *w, const char **out);
/// Fails at the next word, or at `place`: "expected ..., found ...". Returns false.
bool ir_words_fail(ir_words *w, const char *expected);
bool ir_words_fail_at(ir_words *w, ir_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// ---------------------------------------------------------------------------------------- printing

typedef struct ir_printing ir_printing;
typedef struct ir_reading ir_reading;

/// What passes keep in addition to a kernel's own fields. Notes of an operation are about it, its first result or its
/// first region's first argument.
typedef struct ir_text_notes {
  /// Appends lines, each with a word of `lines` as its first; nothing where the kernel has none.
  void (*put_kernel)(const ir_kernel *kernel, kiln_buffer *out);
  /// Appends words, each with a blank before it.
  void (*put_op)(ir_printing *p, const ir_kernel *kernel, const ir_op *op);
  /// Reads a line that begins with `word`, after that; false without a failure where it knows no such line.
  bool (*read_line)(ir_reading *r, const char *word);
  /// Reads what is next after `with`, and all that belongs to the operation.
  bool (*read_op)(ir_reading *r, ir_op *op);
  /// When the whole kernel is read, and verified: puts the notes where they belong.
  bool (*finish)(ir_reading *r, ir_kernel *kernel);
} ir_text_notes;

/// Appends the kernel, as ir_print does, with notes (NULL: none).
void ir_text_print(ir_kernel *kernel, const ir_fault *fault, const ir_text_notes *notes, kiln_buffer *out);
/// Where notes go.
kiln_buffer *ir_printing_out(const ir_printing *p);
/// Appends " @l3".
void ir_printing_layout(ir_printing *p, const kiln_layout *layout);
/// Appends a text between quotes.
void ir_text_quote(const char *text, kiln_buffer *out);

// ----------------------------------------------------------------------------------------- reading

/// A kernel while it is read.
struct ir_reading {
  ir_words w;
  const ir_text_notes *notes; ///< NULL: none
  ir_kernel *kernel;
  void *noted; ///< of the notes' functions
  struct ir_names *names;
  const kiln_layout **layouts; ///< arena
  uint32_t layout_count, layout_capacity;
  uint32_t depth, operations, kernel_line;
  ir_builder b;
};

/// Reads from "kernel" to the "}" that ends it, and verifies. Whatever the text is, it is read or refused.
/// `r->w` is open; its error has the place.
bool ir_text_read(ir_reading *r, const ir_text_notes *notes);
/// A type; what stands after the name of a layout, "@l3" (NULL where none does).
bool ir_read_type(ir_reading *r, ir_type *out);
bool ir_read_layout(ir_reading *r, const kiln_layout **out);
/// A value that may be defined later: `out` is set before notes->finish is called.
bool ir_read_value_later(ir_reading *r, ir_value **out);

#endif
