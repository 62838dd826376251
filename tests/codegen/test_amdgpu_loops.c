// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks the inner loops of AMDGPU code as text: which instructions move their data, in what order, and
// what stands outside of the loops.
#include <stdlib.h>

#include "tests/codegen/amdgpu_kernels.h"

// Hot loops are innermost loops with products: from a label to the last branch back to it.
typedef struct span {
  const char *begin, *end;
} span;

enum { MOST_LOOPS = 64 };

static const char *label_of(const char *text, const char *branch, const char *end_of_line) {
  const char *name = memchr(branch, '.', (size_t)(end_of_line - branch));
  char label[40];
  if (!name) return NULL;
  size_t length = strcspn(name, " ;\n");
  snprintf(label, sizeof label, "\n%.*s:", (int)length, name);
  return strstr(text, label);
}

static size_t find_loops(const char *text, span *loops) {
  size_t count = 0;
  for (const char *at = strstr(text, "s_"); at; at = strstr(at + 1, "s_")) {
    if (strncmp(at, "s_cbranch", 9) != 0 && strncmp(at, "s_branch", 8) != 0) continue;
    span s = {label_of(text, at, strchr(at, '\n')), at};
    size_t i = 0;
    if (!s.begin || s.begin > at) continue;
    while (i < count && loops[i].begin != s.begin) i++;
    CHECK(i < MOST_LOOPS);
    loops[i] = s;
    count += i == count;
  }
  return count;
}

static bool span_has(const span *s, const char *word) {
  const char *found = strstr(s->begin, word);
  return found && found < s->end;
}

static size_t count_in(const span *s, const char *word) {
  size_t count = 0;
  for (const char *at = strstr(s->begin, word); at && at < s->end; at = strstr(at + 1, word)) count++;
  return count;
}

static bool is_innermost(const span *loops, size_t count, size_t which) {
  for (size_t i = 0; i < count; i++)
    if (i != which && loops[i].begin >= loops[which].begin && loops[i].end <= loops[which].end) return false;
  return true;
}

// `whole` are names of instructions that move 16 bytes.
static bool moves(const span *s, const char *const *kinds, const char *const *whole, const char **out_kind) {
  bool any = false, is_whole = false;
  for (; *kinds; kinds++)
    if (span_has(s, *kinds)) any = true, *out_kind = *kinds;
  for (; *whole; whole++) is_whole |= span_has(s, *whole);
  return !any || is_whole;
}

static void check_hot_loops(const compiled *c, const char *kernel, const char *target) {
  static const char *const shared[] = {"ds_read", "ds_load", NULL},
                           *const whole_shared[] = {"_b128",
                                                    "ds_read2_b64",
                                                    "ds_load_2addr_b64",
                                                    "read2st64_b64",
                                                    "ds_load_2addr_stride64_b64",
                                                    NULL},
                           *const global[] = {"global_load", "buffer_load", "flat_load", NULL},
                           *const whole_global[] = {"load_dwordx4", "load_b128", NULL},
                           *const none[] = {".vgpr_spill_count:", ".private_segment_fixed_size:"};
  const char *text = (const char *)c->artifact.code.bytes;
  span loops[MOST_LOOPS];
  size_t count = find_loops(text, loops), hot = 0;
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    const char *at = strstr(text, none[i]);
    if (!at) FAIL("%s for %s: no %s", kernel, target, none[i]);
    if (strtol(strchr(at, ':') + 1, NULL, 10) != 0)
      FAIL("%s for %s: %.*s", kernel, target, (int)strcspn(at, "\n"), at);
  }
  for (size_t i = 0; i < count; i++) {
    const char *kind = "";
    if (!is_innermost(loops, count, i)) continue;
    if (!span_has(&loops[i], "v_mfma") && !span_has(&loops[i], "v_wmma")) continue;
    hot++;
    if (!moves(&loops[i], shared, whole_shared, &kind) || !moves(&loops[i], global, whole_global, &kind))
      FAIL("%s for %s: a loop with products has %s of less than 16 bytes only", kernel, target, kind);
    // scalars saved in lanes of a vector register
    if (span_has(&loops[i], "v_writelane") || span_has(&loops[i], "v_readlane"))
      FAIL("%s for %s: a loop with products saves scalars", kernel, target);
  }
  if (!hot) FAIL("%s for %s: no loop with matrix instructions", kernel, target);
}

/// Processors, and what the instructions of their loops are called.
typedef struct machine {
  const char *target, *load, *read, *store, *product, *barrier;
  const char *wide[3]; ///< a load, a read and a store of 16 bytes
} machine;

#define CDNA(target)                                                       \
  {                                                                        \
    target, "buffer_load", "ds_read", "ds_write", "v_mfma", "s_barrier", { \
      "buffer_load_dwordx4", "ds_read_b128", "ds_write_b128"               \
    }                                                                      \
  }
#define RDNA(target, barrier)                                          \
  {                                                                    \
    target, "buffer_load", "ds_load", "ds_store", "v_wmma", barrier, { \
      "buffer_load_b128", "ds_load_b128", "ds_store_b128"              \
    }                                                                  \
  }
static const machine machines[] = {CDNA("gfx90a"), CDNA("gfx942"), CDNA("gfx950"),
                                   RDNA("gfx1100", "s_barrier"), RDNA("gfx1201", "s_barrier_wait")};
enum { MACHINES = sizeof machines / sizeof *machines, CDNAS = 3 };

// What the library gives when nobody chooses.
TEST(amdgpu_loops, hot_loops_of_the_library) {
  static const struct {
    const char *file, *name;
    bool is_quick;
  } hot[] = {{"gemm", "gemm[T=bf16,ACT=0,BIAS=true]", true},
             {"gemm", "gemm[T=f16,ACT=0,BIAS=true]", false},
             {"gemm", "gemm_i8", true},
             {"gemm", "gemm_split_k[T=bf16]", false},
             {"gemm", "gemm_batched[T=bf16]", false},
             {"gemm", "gemm_fp8[S=e4m3,T=e4m3,FAST=true]", false},
             {"attention", "attention[T=bf16,D=128,CAUSAL=true]", true},
             {"attention", "attention[T=f16,D=128,CAUSAL=false]", false},
             {"attention", "attention[T=bf16,D=64,CAUSAL=true]", true},
             {"attention", "attention[T=f16,D=64,CAUSAL=false]", false},
             {"attention", "attention_general[T=bf16,D=128]", false},
             {"attention", "attention_general[T=bf16,D=256]", false},
             {"attention", "attention_general[T=bf16,D=32]", false},
             {"attention", "attention_general[T=bf16,D=64]", true},
             {"attention", "attention_packed[T=bf16,D=64]", false},
             {"attention", "attention_packed[T=bf16,D=128]", true},
             {"attention", "paged_attention[T=bf16,D=128,PAGE=16]", true},
             {"attention", "paged_attention_parts[T=bf16,D=128,PAGE=16]", false},
             {"attention_backward", "attention_backward_queries[T=bf16,D=128]", true},
             {"attention_backward", "attention_backward_queries[T=f16,D=64]", true},
             {"attention_backward", "attention_backward_keys[T=bf16,D=64]", true},
             {"attention_backward", "attention_backward_keys[T=bf16,D=128]", true},
             {"attention_backward", "attention_backward_keys[T=f16,D=128]", false},
             {"attention_backward", "attention_backward[T=bf16,D=64]", true},
             {"attention_backward", "attention_backward[T=bf16,D=128]", true}};
  for (size_t k = 0; k < sizeof hot / sizeof *hot; k++)
    for (size_t i = 0; i < MACHINES; i++) {
      const char *target = machines[i].target;
      compiled c = {.is_best = true};
      kiln_error err = {0};
      if (!llvm_has(target) || !(hot[k].is_quick || kiln_test_full())) continue;
      if (try_compile(&c, hot[k].file, hot[k].name, target, KILN_FORMAT_ASM, &err) != KILN_OK)
        FAIL("%s for %s: %s", hot[k].name, target, err.text);
      kiln_buffer_u8(&c.artifact.code, 0);
      check_hot_loops(&c, hot[k].name, target);
      release(&c);
    }
}

// With all 512 registers LLVM moves accumulators in and out of the upper half around matrix instructions: 80
// moves for the 4 of this kernel.
TEST(amdgpu_loops, accumulators_stay_where_products_find_them) {
  static const char *const targets[] = {"gfx90a", "gfx942", "gfx950", "gfx9-4-generic"};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    compiled c = {.is_best = false};
    kiln_error err = {0};
    if (!llvm_has(targets[i])) continue;
    if (try_compile(&c, "gemm", "gemm[T=bf16,ACT=0,BIAS=true]", targets[i], KILN_FORMAT_ASM, &err) != KILN_OK)
      FAIL("%s: %s", targets[i], err.text);
    kiln_buffer_u8(&c.artifact.code, 0);
    const char *text = (const char *)c.artifact.code.bytes;
    if (!strstr(text, "v_mfma_") || strstr(text, "v_accvgpr")) FAIL("%s moves accumulators", targets[i]);
    release(&c);
  }
}

static compiled loop_in(const char *file, const char *name, const char *target, kiln_format format,
                        span *out) {
  compiled c = {.is_best = false};
  kiln_error err = {0};
  span loops[MOST_LOOPS];
  CHECK_OK(try_compile(&c, file, name, target, format, &err), err);
  kiln_buffer_u8(&c.artifact.code, 0);
  if (format != KILN_FORMAT_ASM) return c;
  CHECK(find_loops((const char *)c.artifact.code.bytes, loops) == 1);
  *out = loops[0];
  return c;
}

// Queries for which a thread has no room beside sums, probabilities and what is loaded ahead: they stay in
// shared memory, and the loop reads them from there (store_operands.c). What the store needs is computed after the
// loop, and sums of gfx11 begin with a constant, not with registers of zeros: nothing spills. That the
// results are right is shown under emulation.
TEST(amdgpu_loops, queries_without_room_in_registers_stay_in_shared_memory) {
  static const char *const targets[] = {"gfx1100", "gfx1201"}, *const names[] = {
                                                                   "wide_attention[D=64,N=64]",
                                                                   "wide_attention[D=128,N=32]"};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
    for (size_t k = 0; k < sizeof names / sizeof *names && llvm_has(targets[i]); k++) {
      span s;
      compiled c = loop_in("../tests/codegen/wide_attention", names[k], targets[i], KILN_FORMAT_ASM, &s);
      check_hot_loops(&c, names[k], targets[i]);
      CHECK(count_in(&s, "], 0\n") > 0);
      release(&c);
    }
}

static uint32_t number_of(const char *text, const char *key) {
  const char *at = strstr(text, key);
  CHECK(at);
  return (uint32_t)strtoul(at + strlen(key), NULL, 10);
}

// What keeps vectors in memory within 256 registers is compiled again with all 512, its text, too. Scalars,
// which go to lanes of a vector, are no reason: with all registers a loop moves its accumulators.
TEST(amdgpu_loops, the_text_is_the_code_of_the_object) {
  static const char *const targets[] = {"gfx90a", "gfx942"};
  static const struct {
    const char *name, *config;
    bool is_wide;
  } cases[] = {{"attention_general[T=bf16,D=256]", "BM=64,BN=32,FORM=0,warps=4,stages=2", true},
               {"attention_packed[T=bf16,D=128]", NULL, false}};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
    for (size_t k = 0; k < sizeof cases / sizeof *cases && llvm_has(targets[i]); k++) {
      compiled object = {.config = cases[k].config}, text = {.config = cases[k].config};
      kiln_error err = {0};
      compile_object(&object, "attention", cases[k].name, targets[i]);
      CHECK_OK(try_compile(&text, "attention", cases[k].name, targets[i], KILN_FORMAT_ASM, &err), err);
      kiln_buffer_u8(&text.artifact.code, 0);
      const char *listing = (const char *)text.artifact.code.bytes;
      CHECK((object.facts.agprs > 0) == cases[k].is_wide);
      CHECK_INT(number_of(listing, ".agpr_count:"), object.facts.agprs);
      CHECK_INT(number_of(listing, ".vgpr_count:"), object.facts.vgprs);
      CHECK_INT(text.artifact.info.spill_bytes, object.artifact.info.spill_bytes);
      release(&object), release(&text);
    }
}

static bool has_line(const char *text, const char *const *all, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!strstr(text, all[i])) return false;
  return true;
}

// Loops of products whose pointers promise 2 GiB: buffer loads and 16-byte accesses of shared memory, no
// other loads, no spills. That the results are right is shown under emulation, ragged and with rows below the
// base.
TEST(amdgpu_loops, loads_of_near_memory_are_buffer_loads) {
  static const char *const loops[] = {"product_near[T=f16,R=f32,BY=0]", "product_near[T=f16,R=f32,BY=1]",
                                      "product_near[T=bf16,R=f32,BY=0]"};
  for (const machine *m = machines; m < machines + MACHINES; m++)
    for (size_t k = 0; k < sizeof loops / sizeof *loops && llvm_has(m->target); k++) {
      compiled c = {.is_best = false};
      kiln_error err = {0};
      CHECK_OK(try_compile(&c, "../tests/emulation/cases", loops[k], m->target, KILN_FORMAT_ASM, &err), err);
      kiln_buffer_u8(&c.artifact.code, 0);
      const char *text = (const char *)c.artifact.code.bytes;
      if (!has_line(text, m->wide, 3) || strstr(text, "global_load") || strstr(text, "scratch_load"))
        FAIL("%s for %s:\n%s", loops[k], m->target, text);
      release(&c);
    }
}

// What a loop adds of constants is the scalar offset of gfx9's buffer loads, so that no base is computed
// again; and a mask that holds nowhere after the last iteration is not joined with the loop's condition.
TEST(amdgpu_loops, loops_advance_near_memory_by_one_scalar) {
  for (size_t i = 0; i < CDNAS; i++) {
    const char *target = machines[i].target;
    compiled c = {.is_best = false};
    kiln_error err = {0};
    span loops[MOST_LOOPS];
    size_t count = 0;
    if (!llvm_has(target)) continue;
    CHECK_OK(
        try_compile(&c, "../tests/emulation/cases", "product_counted[BY=1]", target, KILN_FORMAT_ASM, &err),
        err);
    kiln_buffer_u8(&c.artifact.code, 0);
    const char *text = (const char *)c.artifact.code.bytes;
    CHECK(find_loops(text, loops) == 1);
    for (const char *at = strstr(loops[0].begin, "\ts_"); at && at < loops[0].end;
         at = strstr(at + 1, "\ts_")) {
      count += strncmp(at + 1, "s_wait", 6) != 0 && strncmp(at + 1, "s_barrier", 9) != 0 &&
               strncmp(at + 1, "s_nop", 5) != 0;
    }
    // The counter, what is left, two offsets, the slot and its copy, the comparison, the branch.
    if (count > 8) FAIL("%s: %zu scalar instructions:\n%s", target, count, text);
    release(&c);
  }
}

/// The instruction after `from` in the span; its end where there is none.
static const char *next_in(const span *s, const char *from, const char *word) {
  const char *at = strstr(from, word);
  return at && at < s->end ? at : s->end;
}

static const char *last_in(const span *s, const char *word) {
  const char *last = s->end;
  for (const char *at = strstr(s->begin, word); at && at < s->end; at = strstr(at + 1, word)) last = at;
  return last;
}

static compiled loop_of(const char *name, const char *target, kiln_format format, span *out) {
  return loop_in("../tests/emulation/cases", name, target, format, out);
}

// Resources of gfx9's buffer loads have their four scalars before the loop, also where several have the same
// size and format. One copy in a loop is the slot's.
TEST(amdgpu_loops, resources_are_put_together_outside) {
  static const struct {
    const char *name;
    size_t most;
  } cases[] = {{"counted_products[T=bf16,M=64]", 0}, {"counted_products[T=f16,M=128]", 1}};
  for (const machine *m = machines; m < machines + CDNAS; m++)
    for (size_t k = 0; k < sizeof cases / sizeof *cases && llvm_has(m->target); k++) {
      span s;
      compiled c =
          loop_in("../tests/codegen/counted_products", cases[k].name, m->target, KILN_FORMAT_ASM, &s);
      CHECK(span_has(&s, "buffer_load_dwordx"));
      if (count_in(&s, "\ts_mov_b32") > cases[k].most)
        FAIL("%s for %s:\n%s", cases[k].name, m->target, (const char *)c.artifact.code.bytes);
      release(&c);
    }
}

// Two slots: an iteration meets once. Its loads are on their way before most products are issued, what it
// stores to the other slot comes after all that it reads, and it waits for its loads after products.
TEST(amdgpu_loops, loops_with_two_slots_meet_once) {
  static const char *const names[] = {"product_near[T=f16,R=f32,BY=0]", "product_near[T=bf16,R=f32,BY=0]"};
  for (const machine *m = machines; m < machines + MACHINES; m++)
    for (size_t k = 0; k < sizeof names / sizeof *names && llvm_has(m->target); k++) {
      span s;
      compiled c = loop_of(names[k], m->target, KILN_FORMAT_ASM, &s);
      const char *text = (const char *)c.artifact.code.bytes, *last_load = last_in(&s, m->load),
                 *store = next_in(&s, s.begin, m->store);
      if (count_in(&s, m->barrier) != 1)
        FAIL("%s for %s meets %zu times:\n%s", names[k], m->target, count_in(&s, m->barrier), text);
      if (span_has(&s, "gl0_inv") || span_has(&s, "global_inv"))
        FAIL("%s for %s drops a cache:\n%s", names[k], m->target, text);
      if (store < last_in(&s, m->read) || next_in(&s, last_load, m->product) > store)
        FAIL("%s for %s:\n%s", names[k], m->target, text);
      release(&c);
    }
}

// The order of a loop's body stands in the IR, and follows from what the body holds; where there are fewer
// than four products there is nothing to order.
TEST(amdgpu_loops, loops_with_products_are_ordered) {
  static const struct {
    const char *target;
    unsigned products;
  } rows[] = {{"gfx90a", 4}, {"gfx942", 4}, {"gfx950", 0}, {"gfx1100", 8}, {"gfx1201", 8}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    span s;
    unsigned found = 0;
    if (!llvm_has(rows[i].target)) continue;
    compiled c = loop_of("product_near[T=f16,R=f32,BY=0]", rows[i].target, KILN_FORMAT_LLVM, &s);
    const char *text = (const char *)c.artifact.code.bytes;
    for (const char *at = text; (at = strstr(at, "group.barrier(i32 8, i32 1,")); at++) found++;
    if (found != rows[i].products) FAIL("%s: %u groups of a product:\n%s", rows[i].target, found, text);
    release(&c);
  }
}

// A matrix that lies across the reduced index turns as gfx950 reads it, from two slots or, where the tile is as small as
// that of bytes here, from one; the others turn it in registers.
TEST(amdgpu_loops, matrices_turn_as_they_are_read) {
  static const struct {
    const char *name, *target, *read;
    bool turns;
  } rows[] = {{"product_near[T=f16,R=f32,BY=1]", "gfx950", "ds_read_b64_tr_b16", true},
              {"product_counted[BY=1]", "gfx950", "ds_read_b64_tr_b16", true},
              {"product_near[T=i8,R=i32,BY=1]", "gfx950", "ds_read_b64_tr_b8", true},
              {"product_bytes", "gfx950", "ds_read_b64_tr_b8", true},
              {"product_near[T=f16,R=f32,BY=0]", "gfx950", "_tr_", false},
              {"product_near[T=i8,R=i32,BY=1]", "gfx942", "_tr_", false},
              {"product_near[T=f16,R=f32,BY=1]", "gfx942", "_tr_", false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    span s;
    if (!llvm_has(rows[i].target)) continue;
    compiled c = loop_of(rows[i].name, rows[i].target, KILN_FORMAT_ASM, &s);
    if (span_has(&s, rows[i].read) != rows[i].turns ||
        (rows[i].turns && (span_has(&s, "ds_write_b16") || span_has(&s, "ds_write_b8"))))
      FAIL("%s for %s:\n%s", rows[i].name, rows[i].target, (const char *)c.artifact.code.bytes);
    release(&c);
  }
}

// Four columns of bytes in four words become four rows by eight instructions.
TEST(amdgpu_loops, bytes_turn_by_permutations) {
  static const char *const targets[] = {"gfx90a", "gfx942", "gfx1100", "gfx1201"};
  enum { WORDS = 128 * 128 / 4 / 256 };
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    span s;
    if (!llvm_has(targets[i])) continue;
    compiled c = loop_of("product_bytes", targets[i], KILN_FORMAT_ASM, &s);
    const size_t threads = targets[i][3] == '1' ? 128 : 256, words = WORDS * 256 / threads;
    if (count_in(&s, "v_perm_b32") != 2 * words || span_has(&s, "_sdwa") || span_has(&s, "v_or"))
      FAIL("product_bytes for %s:\n%s", targets[i], (const char *)c.artifact.code.bytes);
    release(&c);
  }
}
