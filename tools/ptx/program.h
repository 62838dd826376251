// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A module as the parser leaves it. All of it lies in the module's arena.
#ifndef KILN_TOOLS_PTX_PROGRAM_H
#define KILN_TOOLS_PTX_PROGRAM_H

#include "tools/ptx/ptx.h"

enum { PTX_OPERANDS = 8, PTX_TYPES = 4, PTX_WORDS = 8, PTX_LANES = 32, PTX_NONE = -1 };

typedef enum ptx_type {
#define TYPE(name, bits, kind) PTX_TYPE_##name,
#include "tools/ptx/modifiers.def"
#undef TYPE
  PTX_TYPE_COUNT
} ptx_type;

/// What the bits of a type mean.
typedef enum ptx_class {
  PTX_CLASS_NONE,
  PTX_CLASS_BITS,
  PTX_CLASS_UNSIGNED,
  PTX_CLASS_SIGNED,
  PTX_CLASS_FLOAT,
  PTX_CLASS_PAIR,     ///< two floats in one register
  PTX_CLASS_INTEGERS, ///< two integers in one register
  PTX_CLASS_PRED
} ptx_class;

typedef struct ptx_type_facts {
  const char *name;
  uint8_t bits; ///< of a register that holds it
  ptx_class kind;
} ptx_type_facts;
extern const ptx_type_facts ptx_types[PTX_TYPE_COUNT];

typedef enum ptx_rounding { ROUND_NONE, ROUND_N, ROUND_Z, ROUND_M, ROUND_P, ROUND_A } ptx_rounding;
typedef enum ptx_space {
  SPACE_GENERIC,
  SPACE_GLOBAL,
  SPACE_SHARED,
  SPACE_LOCAL,
  SPACE_PARAM,
  SPACE_CONST,
  SPACE_CLUSTER ///< shared memory of any block of the cluster, which includes the block's own
} ptx_space;
typedef enum ptx_compare {
  COMPARE_NONE,
  COMPARE_EQ,
  COMPARE_NE,
  COMPARE_LT,
  COMPARE_LE,
  COMPARE_GT,
  COMPARE_GE,
  COMPARE_EQU,
  COMPARE_NEU,
  COMPARE_LTU,
  COMPARE_LEU,
  COMPARE_GTU,
  COMPARE_GEU,
  COMPARE_NUM,
  COMPARE_NAN
} ptx_compare;
typedef enum ptx_half { HALF_NONE, HALF_LO, HALF_HI, HALF_WIDE } ptx_half;
typedef enum ptx_order {
  ORDER_NONE,
  ORDER_WEAK,
  ORDER_RELAXED,
  ORDER_ACQUIRE,
  ORDER_RELEASE,
  ORDER_BOTH,
  ORDER_SC
} ptx_order;
typedef enum ptx_scope { SCOPE_NONE, SCOPE_CTA, SCOPE_CLUSTER, SCOPE_GPU, SCOPE_SYS } ptx_scope;
/// Words that name what an instruction does beyond its opcode: the operation of an atomic, the mode of a
/// shuffle or a vote, the second word of cp.async and its kind.
typedef enum ptx_word {
  WORD_NONE,
#define WORD(name) WORD_##name,
#include "tools/ptx/modifiers.def"
#undef WORD
} ptx_word;

/// Groups of modifiers, as bits: a row of opcodes.def says which it takes.
enum {
  M_TYPE = 1 << 0,
  M_ROUND = 1 << 1,
  M_FTZ = 1 << 2,
  M_SAT = 1 << 3,
  M_APPROX = 1 << 4,
  M_HALF = 1 << 5,
  M_COMPARE = 1 << 6,
  M_BOOL = 1 << 7,
  M_SPACE = 1 << 8,
  M_VECTOR = 1 << 9,
  M_CACHE = 1 << 10,
  M_ORDER = 1 << 11,
  M_SCOPE = 1 << 12,
  M_WORD = 1 << 13,
  M_SYNC = 1 << 14,
  M_ALIGNED = 1 << 15,
  M_UNI = 1 << 16,
  M_SHAPE = 1 << 17,
  M_COUNT = 1 << 18,
  M_TRANS = 1 << 19,
  M_LAYOUT = 1 << 20,
  M_CARRY = 1 << 21,
  M_NAN = 1 << 22,
  M_INTEGRAL = 1 << 23,
  M_TO = 1 << 24,
  M_MODE = 1 << 25,
  M_RELU = 1 << 26,
  M_MULTICAST = 1 << 27,
  M_INTEGERS = 1 << 28,
  M_LOADED = 1 << 29, ///< caches of loads alone
  M_STORED = 1 << 30, ///< of stores alone
};

typedef enum ptx_operand_kind {
  OPERAND_NONE,
  OPERAND_REGISTER,
  OPERAND_IMMEDIATE,
  OPERAND_VECTOR,
  OPERAND_ADDRESS,
  OPERAND_SPECIAL, ///< a read-only register: `index` is a ptx_special
  OPERAND_LABEL,
  OPERAND_SINK
} ptx_operand_kind;

typedef enum ptx_special {
#define SPECIAL(name, text) SPECIAL_##name,
#include "tools/ptx/specials.def"
#undef SPECIAL
  SPECIAL_COUNT
} ptx_special;

typedef struct ptx_operand {
  ptx_operand_kind kind;
  bool is_negated;           ///< !%p
  char part[6];              ///< of a video instruction: .b0, .h1, .b3210; empty: all
  uint8_t immediate_bits;    ///< 0: an integer; 32, 64: a float spelled as such
  int32_t index;             ///< register, special register, target; ADDRESS: base register or PTX_NONE
  int32_t second;            ///< REGISTER: q of `p|q`, else PTX_NONE
  ptx_space space;           ///< ADDRESS of a symbol, IMMEDIATE that is one: where it lies
  int32_t variable;          ///< its number until the module is complete, then PTX_NONE
  uint64_t immediate;        ///< IMMEDIATE; ADDRESS: what is added
  struct ptx_operand *items; ///< VECTOR; ADDRESS: coordinates after a tensor map; LABEL of brx: its targets
  uint32_t count;
} ptx_operand;

typedef struct ptx_exec ptx_exec;
typedef struct ptx_instruction ptx_instruction;
typedef uint64_t ptx_element(const ptx_instruction *i, const uint64_t *s);
typedef void ptx_handler(ptx_exec *x);

/// A row of opcodes.def.
typedef struct ptx_opcode {
  const char *name;
  const char *shape; ///< see opcodes.def
  uint32_t groups;   ///< of modifiers it takes
  bool joins;        ///< lanes wait for each other: the whole warp, or those that its mask names
  ptx_element *element;
  ptx_handler *handler;
} ptx_opcode;
extern const ptx_opcode ptx_opcodes[];
extern const uint32_t ptx_opcode_count;

struct ptx_instruction {
  const ptx_opcode *op;
  const char *spelling; ///< opcode and modifiers
  uint32_t line, column;
  uint32_t file, source_line, source_column; ///< .loc; file 0: none
  int32_t guard;                             ///< predicate register or PTX_NONE
  bool guard_negated;
  // Modifiers.
  ptx_type types[PTX_TYPES];
  uint32_t type_count;
  ptx_rounding rounding;
  ptx_compare compare;
  ptx_half half;
  ptx_space space, to_space;
  ptx_order order;
  ptx_scope scope;
  uint8_t vector; ///< .v2, .v4; 0: none
  uint8_t count;  ///< .x1, .x2, .x4
  uint8_t word_count;
  bool ftz, sat, approx, full, has_sync, is_aligned, is_trans, carries, keeps_nan, is_integral, is_to,
      is_volatile, is_relu, is_multicast;
  ptx_word boolean; ///< WORD_and, WORD_or, WORD_xor of setp
  ptx_word words[PTX_WORDS];
  uint16_t shape[3]; ///< m, n, k
  uint8_t layouts;   ///< bits: 1 the second is row, in order
  uint8_t mode;      ///< prmt
  ptx_operand operands[PTX_OPERANDS];
  uint32_t operand_count;
  uint32_t loop; ///< a loop with several entries in which it stands, by number; 0: none
};

typedef struct ptx_parameter {
  const char *name;
  uint32_t offset, size;
} ptx_parameter;

/// A variable outside of registers.
typedef struct ptx_variable {
  const char *name;
  ptx_space space;
  uint32_t align;
  uint64_t size, address;
  bool is_dynamic; ///< extern and without a size
} ptx_variable;

typedef struct ptx_kernel {
  const char *name;
  ptx_parameter *parameters;
  uint32_t parameter_count, parameter_capacity, parameter_bytes;
  ptx_instruction *code;
  uint32_t code_count, code_capacity;
  uint8_t *register_bits; ///< 1 for predicates
  uint32_t register_count, register_capacity;
  uint32_t block[3];
  uint32_t cluster[3]; ///< 0: the text says nothing
  bool is_block_exact, is_entry, is_cluster_explicit;
  uint32_t most_registers, least_blocks; ///< .maxnreg, .minnctapersm; 0: the text says nothing
  uint32_t local_bytes;
  uint32_t shared_bytes;   ///< static, with the gaps between variables
  uint32_t dynamic_offset; ///< where dynamic shared memory begins
} ptx_kernel;

struct ptx_module {
  kiln_arena *arena;
  ptx_memory *memory; ///< borrowed
  const char *name;
  const char **files; ///< by number of .file
  uint32_t file_count;
  ptx_variable *variables;
  uint32_t variable_count, variable_capacity;
  ptx_kernel *kernels;
  uint32_t kernel_count, kernel_capacity;
};

static inline bool ptx_has_word(const ptx_instruction *i, ptx_word word) {
  for (uint32_t k = 0; k < i->word_count; k++)
    if (i->words[k] == word) return true;
  return false;
}
static inline uint32_t ptx_bits(ptx_type type) { return ptx_types[type].bits; }
static inline uint64_t ptx_mask_bits(uint32_t bits) { return bits >= 64 ? ~0ull : (1ull << bits) - 1; }

#endif
