// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel as text for people who look at passes: every operation in one form, with the types of its results.
// Unlike a kernel printed in its own language it shows whatever is there, also what does not verify and
// operations of the machine stage. Nothing reads it back.
//
//   %7: f32[128] = load %5, %6 cache=cg
//   %8: f32[256] @(1 | 2 4 8 16 32 | 64 128) = neg %7   (a layout: what each bit of
//       the register's number, of the lane's and of the warp's adds to the number of the element there)
//   %9: i32 = for %0, %1, %2, %3 stages=3 (%10: i32, %11: i32) {
//     ...
//   }
#include <inttypes.h>
#include <string.h>

#include "compiler/ir/ir.h"

static void put_value(kiln_buffer *out, const ir_value *v) {
  if (v) kiln_buffer_format(out, "%%%u", v->id);
  else kiln_buffer_format(out, "%%none");
}

static void put_layout(kiln_buffer *out, const kiln_layout *l) {
  const unsigned counts[] = {l->registers, l->lanes, l->warps};
  const uint32_t *basis = l->basis;
  for (unsigned kind = 0; kind < 3; kind++) {
    kiln_buffer_format(out, kind ? " |" : " @(");
    for (unsigned i = 0; i < counts[kind]; i++) kiln_buffer_format(out, kind || i ? " %u" : "%u", *basis++);
  }
  kiln_buffer_format(out, ")");
}

static void put_typed(kiln_buffer *out, const ir_value *v) {
  char text[IR_TYPE_TEXT];
  kiln_buffer_format(out, "%%%u: %s", v->id, ir_type_text(v->type, text));
  if (v->layout) put_layout(out, v->layout);
}

// -------------------------------------------------------------------------------------- attributes

static const char *const predicates[] = {"eq", "ne", "lt", "le", "gt", "ge"};
static const char *const rounds[] = {"nearest", "zero", NULL};
const char *const ir_cache_words[] = {"default", "ca", "cg", "cv", "wb", "cs", "wt", NULL};
const char *const ir_evict_words[] = {"normal", "first", "last", NULL};
const char *const ir_order_words[] = {"relaxed", "acquire", "release", "acq_rel", NULL};
const char *const ir_scope_words[] = {"gpu", "cta", "system", NULL};
const char *const ir_precision_words[] = {"ieee", "tf32", "tf32x3", "fast", NULL};

/// Other attributes of one byte: printed where they are not 0, by their words where they have some.
static const struct {
  const char *name;
  size_t offset;
  const char *const *words;
} byte_fields[] = {
    {"round", offsetof(ir_attrs, round), rounds},
    {"cache", offsetof(ir_attrs, cache), ir_cache_words},
    {"evict", offsetof(ir_attrs, evict), ir_evict_words},
    {"order", offsetof(ir_attrs, order), ir_order_words},
    {"scope", offsetof(ir_attrs, scope), ir_scope_words},
    {"precision", offsetof(ir_attrs, precision), ir_precision_words},
    {"pack", offsetof(ir_attrs, pack), NULL},
    {"stages", offsetof(ir_attrs, stages), NULL},
    {"unroll", offsetof(ir_attrs, unroll), NULL},
    {"split", offsetof(ir_attrs, split), NULL},
    {"spread", offsetof(ir_attrs, spread), NULL},
};

static const char *const flags[] = {"unsigned", "precise",  "nan",     "reverse", "volatile",  "saturate_off",
                                    "other",    "pure",     "flatten", "ftz",     "in_order",  "mapped",
                                    "a_mn",     "b_mn",     "async",   "partial", "multicast", "feeds",
                                    "turned",   "overlaid", "beside",  "shared",  "adds",      "queued",
                                    "ragged",   "engine"};

static void put_text(kiln_buffer *out, const char *name, const char *text) {
  if (!text) return;
  kiln_buffer_format(out, " %s=\"", name);
  for (; *text; text++) {
    if (*text == '\n') kiln_buffer_format(out, "\\n");
    else kiln_buffer_u8(out, (uint8_t)*text);
  }
  kiln_buffer_u8(out, '"');
}

static bool has_axis(ir_opcode code) {
  return code == IR_PID || code == IR_NPID || code == IR_EXPAND || code == IR_REDUCE || code == IR_SCAN ||
         code == IR_DIM || code == IR_BLOCK || code == IR_GATHER || code == IR_COPY;
}

static bool is_view_access(ir_opcode code) {
  return code == IR_VIEW_LOAD || code == IR_VIEW_STORE || code == IR_VIEW_ATOMIC;
}

/// NULL: there is none for it.
static const char *word_of(const char *const *words, unsigned n) {
  while (words && n && *words) words++, n--;
  return words && !n ? *words : NULL;
}

static void put_attributes(kiln_buffer *out, const ir_op *op) {
  const ir_attrs *a = &op->attrs;
  if (has_axis(op->code) && (op->code != IR_COPY || a->spread)) kiln_buffer_format(out, " axis=%u", a->axis);
  if (op->code == IR_ALLOC) kiln_buffer_format(out, " at=%" PRIu64, a->bits);
  if (a->stride) kiln_buffer_format(out, " stride=%u", a->stride);
  if (op->code == IR_ALLOC && a->axis) kiln_buffer_format(out, " axis=%u", a->axis);
  if (op->code == IR_BAR_EXPECT) kiln_buffer_format(out, " bytes=%u", (unsigned)(a->bits & 0xffffffff));
  if (op->code == IR_MMA_WAIT || op->code == IR_FETCH_WAIT) kiln_buffer_format(out, " out=%" PRIu64, a->bits);
  if (op->code == IR_ROLES)
    kiln_buffer_format(out, " registers=%u,%u", (unsigned)(a->bits & 0xffff), (unsigned)(a->bits >> 32));
  for (size_t i = 0; i < sizeof byte_fields / sizeof *byte_fields; i++) {
    uint8_t n = ((const uint8_t *)a)[byte_fields[i].offset];
    if (!n) continue;
    kiln_buffer_format(out, " %s=", byte_fields[i].name);
    const char *word = word_of(byte_fields[i].words, n);
    if (word) kiln_buffer_format(out, "%s", word);
    else kiln_buffer_format(out, "%u", n);
  }
  if (a->divisible) kiln_buffer_format(out, " div=%" PRId64, a->divisible);
  if (a->contiguous) kiln_buffer_format(out, " contig=%" PRId64, a->contiguous);
  if (a->first) kiln_buffer_format(out, " first=%" PRId64, a->first);
  if (a->first && is_view_access(op->code)) kiln_buffer_format(out, " axis=%u", a->axis);
  if (a->across) kiln_buffer_format(out, " across=%" PRId64, a->across);
  for (unsigned i = 0; op->code == IR_TRANS && i < op->operands[0]->type.rank; i++)
    kiln_buffer_format(out, "%s%u%s", i ? ", " : " [", a->perm[i],
                       i + 1 == op->operands[0]->type.rank ? "]" : "");
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
    if (a->flags >> i & 1) kiln_buffer_format(out, " %s", flags[i]);
  put_text(out, "text", a->text);
  put_text(out, "constraints", a->constraints);
}

static void put_constant(kiln_buffer *out, const ir_op *op) {
  ir_type type = op->results[0].type;
  unsigned width = ir_type_bits(type);
  uint64_t bits = op->attrs.bits;
  if (ir_type_class(type) & (KILN_CLASS_FLOAT | KILN_CLASS_FP8))
    kiln_buffer_format(out, " %.17g (0x%" PRIx64 ")", ir_bits_to_float(type.scalar, bits), bits);
  else
    kiln_buffer_format(out, " %" PRId64,
                       width == 1 ? (int64_t)(bits & 1) : (int64_t)(bits << (64 - width)) >> (64 - width));
}

/// The kind of comparisons and combinations belongs to the name: cmp.lt, reduce.add.
static const char *kind_of(const ir_op *op) {
  switch (op->code) {
  case IR_CMP: return op->attrs.kind < 6 ? predicates[op->attrs.kind] : "?";
  case IR_REDUCE:
  case IR_SCAN:
  case IR_ATOMIC:
  case IR_VIEW_ATOMIC: return op->attrs.kind < IR_COMBINE_COUNT ? ir_combines[op->attrs.kind].text : "?";
  default: return NULL;
  }
}

// -------------------------------------------------------------------------------------- operations

typedef struct printing {
  kiln_buffer *out;
  const ir_fault *fault; // NULL: none
} printing;

static void put_block(printing *p, const ir_block *block, unsigned depth);

static void put_regions(printing *p, const ir_op *op, unsigned depth) {
  for (uint32_t i = 0; i < op->region_count; i++) {
    const ir_block *block = op->regions[i];
    kiln_buffer_format(p->out, i ? "%*s} (" : " (", i ? (int)(2 * depth) : 0, "");
    for (uint32_t k = 0; k < block->arg_count; k++) {
      if (k) kiln_buffer_format(p->out, ", ");
      put_typed(p->out, block->args[k]);
    }
    kiln_buffer_format(p->out, ") {\n");
    put_block(p, block, depth + 1);
  }
  if (op->region_count) kiln_buffer_format(p->out, "%*s}", (int)(2 * depth), "");
}

static void put_op(printing *p, const ir_op *op, unsigned depth) {
  const char *kind = kind_of(op);
  kiln_buffer_format(p->out, "%*s", (int)(2 * depth), "");
  for (uint32_t i = 0; i < op->result_count; i++) {
    if (i) kiln_buffer_format(p->out, ", ");
    put_typed(p->out, &op->results[i]);
  }
  kiln_buffer_format(p->out, "%s%s%s%s", op->result_count ? " = " : "", ir_ops[op->code].text,
                     kind ? "." : "", kind ? kind : "");
  for (uint32_t i = 0; i < op->operand_count; i++) {
    kiln_buffer_format(p->out, i ? ", " : " ");
    put_value(p->out, op->operands[i]);
  }
  if (op->code == IR_CONST && op->result_count) put_constant(p->out, op);
  put_attributes(p->out, op);
  put_regions(p, op, depth);
  kiln_buffer_u8(p->out, '\n');
  if (p->fault && p->fault->op == op)
    kiln_buffer_format(p->out, "%*s^ %s\n", (int)(2 * depth), "", p->fault->text);
}

static void put_block(printing *p, const ir_block *block, unsigned depth) {
  for (const ir_op *op = block->first; op; op = op->next) put_op(p, op, depth);
}

// ------------------------------------------------------------------------------------------ kernel

static void put_param(kiln_buffer *out, const ir_param *p, const ir_value *v) {
  static const char *const modes[] = {"", "in ", "out ", "inout ", "accum "};
  char text[IR_TYPE_TEXT];
  kiln_buffer_format(out, "  %%%u %s: %s%s", v->id, p->name ? p->name : "", modes[p->access],
                     ir_type_text(v->type, text));
  if (p->noalias) kiln_buffer_format(out, " noalias");
  if (p->within) kiln_buffer_format(out, " within");
  if (p->align) kiln_buffer_format(out, " align=%u", p->align);
  if (p->rows) kiln_buffer_format(out, " rows=%u", p->rows);
  if (p->div > 1) kiln_buffer_format(out, " div=%" PRId64, p->div);
  if (p->has_range) kiln_buffer_format(out, " range=%" PRId64 "..%" PRId64, p->lo, p->hi);
  kiln_buffer_u8(out, '\n');
}

void ir_print(ir_kernel *kernel, const ir_fault *fault, kiln_buffer *out) {
  printing p = {out, fault};
  ir_number(kernel);
  kiln_buffer_format(out, "kernel %s warps=%u stages=%u%s%s\n", kernel->name, kernel->warps, kernel->stages,
                     kernel->fp_strict ? " strict" : "", kernel->fp_flush ? " flush" : "");
  for (uint32_t i = 0; i < kernel->param_count && i < kernel->body->arg_count; i++)
    put_param(out, &kernel->params[i], kernel->body->args[i]);
  kiln_buffer_format(out, "{\n");
  put_block(&p, kernel->body, 1);
  kiln_buffer_format(out, "}\n");
  if (fault && !fault->op) kiln_buffer_format(out, "^ %s\n", fault->text);
}
