// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inline assembly where it is not the machine's own. PTX that computes registers from registers becomes
// operations (ptx.h), on tiles of the registers of all instances; all else is refused.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "compiler/passes/lower/legality.h"
#include "compiler/passes/lower/ptx.h"

enum { MAX_PACK = 16 };

// -------------------------------------------------------------------------------- special registers

static ir_value *machine_value(expanding *x, ptx_special special, unsigned bits) {
  const kiln_special_register *w = kiln_special_register_of(x->target, special);
  if (!w || w->bits != bits) {
    kiln_fail(&x->b.error, KILN_STATUS_UNSUPPORTED, "the target has no such special register of PTX");
    return NULL;
  }
  ir_attrs attrs = {.assembly = {.text = w->text, .constraints = w->constraints, .pack = 1}};
  ir_type type = ir_scalar_type(w->bits == 64 ? KILN_I64 : KILN_I32);
  ir_op *op = ir_emit(&x->b, IR_ASM, &attrs, NULL, 0, &type, NULL, 0);
  if (!op || w->scale == 1) return op ? &op->results[0] : NULL;
  return x_opi(x, IR_MUL, &op->results[0], w->scale);
}

/// Text that machine_value has put there, or, on AMD's machines, text of their own: the registers or the
/// first instruction say so.
static bool is_own(const ir_op *op, const kiln_target *target) {
  static const char *const amd[] = {"s_", "v_", "ds_", "global_", "flat_", "buffer_"};
  const char *text = op->attrs.assembly.text ? op->attrs.assembly.text : "";
  const kiln_family family = target->processor->family;
  const kiln_target_info *info = kiln_target_info_of(family);
  for (size_t i = 0; i < info->register_count; i++)
    if (kiln_has_special_register(target, &info->registers[i]) && !strcmp(info->registers[i].text, text))
      return true;
  if (kiln_family_of(family)->assembly != KILN_ASSEMBLY_AMD) return false;
  while (isspace((unsigned char)*text)) text++;
  for (size_t i = 0; i < sizeof amd / sizeof *amd; i++)
    if (!strncmp(text, amd[i], strlen(amd[i]))) return true;
  return op->attrs.assembly.constraints && strpbrk(op->attrs.assembly.constraints, "vsa");
}

// --------------------------------------------------------------------------------------- instances

/// Operands and result as registers of one instance.
typedef struct instance {
  ptx_program program;
  unsigned pack, log2;              ///< elements an instance
  unsigned first[MAX_PACK * 2 + 2]; ///< number of the first register of each operand, the result before them
} instance;

/// Registers that `pack` elements of a type take: small ones share 32 bits.
static unsigned registers_of(ir_type type, unsigned pack) {
  unsigned bits = ir_type_bits(type), count = type.rank ? pack : 1, each = bits < 32 ? 32 / bits : 1;
  KILN_ASSERT(each > 0);
  return each < count ? count / each : 1;
}

/// Bits of the register that a constraint asks for; 0: none of PTX.
static unsigned width_of(const char *constraint, size_t length) {
  static const char letters[] = "rfldhc";
  static const uint8_t widths[] = {32, 32, 64, 64, 16, 16};
  const char *at = length == 1 ? memchr(letters, *constraint, sizeof letters - 1) : NULL;
  return at ? widths[at - letters] : 0;
}

/// "=r,=&l,r": the bits of so many outputs and inputs into the program's registers; clobbers are left out.
static bool read_constraints(instance *n, const char *text, unsigned outputs, unsigned inputs) {
  unsigned count = 0;
  while (text && *text) {
    while (*text == ' ') text++;
    size_t length = strcspn(text, ",");
    const char *end = text + length;
    bool is_output = *text == '=', is_clobber = *text == '~';
    if (is_output) text += 1 + (text[1] == '&');
    unsigned bits = is_clobber ? 0 : width_of(text, (size_t)(end - text));
    if (!is_clobber) {
      if (!bits || count == outputs + inputs || is_output != (count < outputs)) return false;
      n->program.registers[count++].bits = (uint8_t)bits;
    }
    text = *end ? end + 1 : end;
  }
  return count == outputs + inputs;
}

/// Elements that a register of the instance holds have to fit it.
static bool fits(const instance *n, ir_type type, unsigned index) {
  unsigned registers = registers_of(type, n->pack), bits = ir_type_bits(type);
  unsigned each = type.rank ? n->pack / registers : 1;
  for (unsigned i = 0; i < registers; i++) {
    unsigned width = n->program.registers[n->first[index] + i].bits;
    if (bits * each > width || (bits >= 32 && bits != width)) return false;
  }
  return !type.pointer && !type.is_view && bits > 1;
}

static bool read_instance(instance *n, const ir_op *op) {
  if (op->result_count != 1 || op->operand_count > MAX_PACK) return false;
  ir_type result = op->results[0].type;
  n->pack = result.rank && op->attrs.assembly.pack ? op->attrs.assembly.pack : 1;
  n->log2 = (unsigned)__builtin_ctz(n->pack);
  bool is_whole = ir_log2_elements(result) >= n->log2 && result.rank + (n->log2 > 0) <= IR_MAX_RANK;
  if (n->pack > MAX_PACK || n->pack & (n->pack - 1) || !is_whole) return false;
  n->first[0] = 0;
  n->first[1] = registers_of(result, n->pack);
  for (uint32_t i = 0; i < op->operand_count; i++)
    n->first[i + 2] = n->first[i + 1] + registers_of(op->operands[i]->type, n->pack);
  unsigned outputs = n->first[1], all = n->first[op->operand_count + 1];
  if (all > PTX_MAX_REGISTERS || !read_constraints(n, op->attrs.assembly.constraints, outputs, all - outputs))
    return false;
  bool ok = fits(n, result, 0);
  for (uint32_t i = 0; ok && i < op->operand_count; i++) {
    ir_type type = op->operands[i]->type;
    ok = fits(n, type, i + 1) && (!type.rank || ir_same_shape(type, result));
  }
  return ok && op->attrs.assembly.text &&
         kiln_ptx_read(&n->program, op->attrs.assembly.text, outputs, all - outputs);
}

kiln_legality kiln_asm_legality(const ir_op *op, const kiln_target *target) {
  instance n;
  bool takes_ptx = kiln_family_of(target->processor->family)->assembly == KILN_ASSEMBLY_PTX;
  if (takes_ptx || is_own(op, target)) return (kiln_legality){.legal = KILN_LEGAL_NATIVE, .reason = ""};
  if (read_instance(&n, op))
    return (kiln_legality){KILN_LEGAL_EXPANDED, "the operations that PTX stands for", KILN_EXPAND_ASM};
  return (kiln_legality){KILN_LEGAL_REFUSED,
                         "of another machine's assembly only PTX that computes registers from registers is "
                         "translated",
                         KILN_EXPAND_NONE};
}

const char *kiln_asm_fault(const ir_op *op, unsigned *out_length) {
  instance n;
  n.program.fault = NULL;
  bool has_fault = !read_instance(&n, op) && n.program.fault;
  *out_length = has_fault ? n.program.fault_length : 0;
  return has_fault ? n.program.fault : "";
}

// --------------------------------------------------------------------------- elements and registers

/// The elements of each group of 2^log2 neighbours on the last axis, as so many tiles: split in even and odd
/// ones, and those again.
static void split(expanding *x, ir_value *v, unsigned log2, ir_value **out, unsigned stride) {
  *out = v;
  if (log2 == 0) return;
  if (!v) {
    for (unsigned i = 1; i < 1u << log2; i++) out[i * stride] = NULL;
    return;
  }
  ir_type pairs = v->type;
  pairs.log2[pairs.rank - 1]--;
  pairs.log2[pairs.rank++] = 1;
  ir_value *reshaped = ir_reshape(&x->b, v, pairs);
  ir_op *op = reshaped ? ir_emit(&x->b, IR_SPLIT, NULL, &reshaped, 1, NULL, NULL, 0) : NULL;
  for (unsigned i = 0; i < 2; i++)
    split(x, op ? &op->results[i] : NULL, log2 - 1, out + i * stride, stride * 2);
}

static ir_value *join(expanding *x, ir_value *const *v, unsigned log2, unsigned stride) {
  if (log2 == 0) return *v;
  ir_value *halves[2] = {join(x, v, log2 - 1, stride * 2), join(x, v + stride, log2 - 1, stride * 2)};
  ir_op *op = halves[0] && halves[1] ? ir_emit(&x->b, IR_JOIN, NULL, halves, 2, NULL, NULL, 0) : NULL;
  if (!op) return NULL;
  ir_type flat = halves[0]->type;
  flat.log2[flat.rank - 1]++;
  return ir_reshape(&x->b, &op->results[0], flat);
}

/// The tile with its elements in one row where the last axis is shorter than a pack.
static ir_type row_of(ir_type type, unsigned log2) {
  if (!type.rank || type.log2[type.rank - 1] >= log2) return type;
  ir_type row = ir_element(type);
  row.rank = 1;
  row.log2[0] = (uint8_t)ir_log2_elements(type);
  return row;
}

/// An operand as the registers of all instances.
static void to_registers(expanding *x, const instance *n, ir_value *v, ir_type shape, unsigned first,
                         ir_value **registers) {
  ir_value *elements[MAX_PACK] = {v};
  ir_type type = v->type;
  unsigned count = registers_of(type, n->pack), bits = ir_type_bits(type), each = 1;
  if (type.rank) {
    split(x, ir_reshape(&x->b, v, row_of(type, n->log2)), n->log2, elements, 1);
    each = n->pack / count;
  }
  for (unsigned i = 0; i < count; i++) {
    kiln_scalar word = ir_integer_of(n->program.registers[first + i].bits);
    ir_value *all = NULL;
    for (unsigned j = 0; j < each; j++) {
      ir_value *one = elements[i * each + j];
      one = one ? x_bits(x, one, ir_integer_of(bits)) : NULL;
      one = one && ir_integer_of(bits) != word ? x_zext(x, one, word) : one;
      if (j && one) one = x_opi(x, IR_SHL, one, (uint64_t)j * bits);
      all = j ? x_op(x, IR_OR, all, one) : one;
    }
    if (all && !type.rank && shape.rank) all = ir_splat(&x->b, all, ir_with_element(shape, all->type));
    registers[first + i] = all;
  }
}

static ir_value *from_registers(expanding *x, const instance *n, ir_type type, ir_value *const *registers) {
  ir_value *elements[MAX_PACK] = {0};
  unsigned count = registers_of(type, n->pack), bits = ir_type_bits(type);
  unsigned each = type.rank ? n->pack / count : 1;
  for (unsigned i = 0; i < count * each; i++) {
    ir_value *word = registers[i / each];
    if (i % each) word = x_opi(x, IR_SHR, word, (uint64_t)(i % each) * bits);
    if (word && ir_type_bits(word->type) != bits) word = x_zext(x, word, ir_integer_of(bits));
    elements[i] = word ? x_bits(x, word, (kiln_scalar)type.scalar) : NULL;
  }
  ir_value *all = join(x, elements, n->log2, 1);
  return all && type.rank ? ir_reshape(&x->b, all, type) : all;
}

ir_value *expand_asm(expanding *x, const ir_op *op) {
  instance n;
  ir_value *registers[PTX_MAX_REGISTERS] = {0};
  if (!read_instance(&n, op)) return NULL; // legality said otherwise
  ir_type type = op->results[0].type, shape = row_of(type, n.log2);
  if (shape.rank) shape.log2[shape.rank - 1] = (uint8_t)(shape.log2[shape.rank - 1] - n.log2);
  for (uint32_t i = 0; i < op->operand_count; i++)
    to_registers(x, &n, op->operands[i], shape, n.first[i + 1], registers);
  if (x->b.error.status == KILN_OK) kiln_ptx_emit(x, &n.program, shape, machine_value, registers);
  return x->b.error.status == KILN_OK ? from_registers(x, &n, type, registers) : NULL;
}
