// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares host code of kernels built by hand with plain C.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "compiler/ir/ir.h"
#include "tests/codegen/host_mapping.h"

static const char *const targets[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};

typedef struct built {
  kiln_arena *arena;
  ir_kernel *kernel;
  ir_builder b;
} built;

static built begin(const char *name) {
  built k = {.arena = kiln_arena_create()};
  k.kernel = ir_kernel_create(k.arena, name);
  k.kernel->warps = 4;
  k.b = (ir_builder){.arena = k.arena, .block = k.kernel->body};
  return k;
}

static ir_value *param(built *k, ir_type type) {
  return ir_add_param(k->kernel, &(ir_param){.name = "p", .type = type, .access = IR_ACCESS_NONE});
}

static ir_value *emit(built *k, ir_opcode code, const ir_attrs *attrs, ir_value *a, ir_value *b, ir_value *c,
                      const ir_type *given) {
  ir_value *x[3] = {a, b, c};
  static const ir_attrs none;
  ir_op *op = ir_emit(&k->b, code, attrs ? attrs : &none, x, c ? 3 : b ? 2 : a ? 1 : 0, given, NULL, 0);
  if (!op) FAIL("%s: %s", ir_ops[code].text, k->b.error.text);
  return op->result_count ? &op->results[0] : NULL;
}

static ir_type tile(kiln_scalar scalar, unsigned log2) {
  return (ir_type){.scalar = (uint8_t)scalar, .rank = 1, .log2 = {(uint8_t)log2}};
}

static kiln_artifact compile(built *k, const char *target_name, unsigned optimise) {
  kiln_target target;
  kiln_error err = {0};
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  CHECK_OK(ir_verify(k->kernel, "test", &err), err);
  CHECK_OK(kiln_target_parse(target_name, &target, &err), err);
  kiln_codegen_options_init(&options);
  options.optimise = (uint8_t)optimise;
  if (kiln_codegen(k->kernel, &target, &options, &artifact, &err) != KILN_OK)
    FAIL("%s: %s", target_name, err.text);
  return artifact;
}

// z = x + y over n elements, blocks of 1024.
static built build_add(void) {
  built k = begin("kiln_add");
  ir_type p = ir_pointer_type(KILN_F32), tp = {.scalar = KILN_F32, .pointer = 1, .rank = 1, .log2 = {10}};
  ir_value *x = param(&k, p), *y = param(&k, p), *z = param(&k, p), *n = param(&k, ir_scalar_type(KILN_I32));
  ir_value *base = ir_binary(&k.b, IR_MUL, 0, emit(&k, IR_PID, NULL, NULL, NULL, NULL, NULL),
                             ir_const_int(&k.b, KILN_I32, 1024));
  ir_value *i = ir_binary(&k.b, IR_ADD, 0, ir_splat(&k.b, base, tile(KILN_I32, 10)), ir_iota(&k.b, 10));
  ir_value *live = ir_compare(&k.b, IR_LT, 0, i, ir_splat(&k.b, n, tile(KILN_I32, 10)));
  ir_value *a = emit(&k, IR_LOAD, NULL, emit(&k, IR_PTRADD, NULL, ir_splat(&k.b, x, tp), i, NULL, NULL), live,
                     NULL, NULL);
  ir_value *c = emit(&k, IR_LOAD, NULL, emit(&k, IR_PTRADD, NULL, ir_splat(&k.b, y, tp), i, NULL, NULL), live,
                     NULL, NULL);
  emit(&k, IR_STORE, NULL, emit(&k, IR_PTRADD, NULL, ir_splat(&k.b, z, tp), i, NULL, NULL),
       ir_binary(&k.b, IR_ADD, 0, a, c), live, NULL);
  return k;
}

TEST(host_basic, adds_vectors) {
  enum { N = 5000 };
  static float x[N], y[N], z[N + 64];
  for (unsigned t = 0; t < 3; t++)
    for (unsigned level = 0; level < 4; level += 3) {
      if (!mapping_can_run(targets[t])) SKIP("this machine does not run %s", targets[t]);
      built k = build_add();
      kiln_artifact artifact = compile(&k, targets[t], level);
      kiln_host_kernel *run = mapping_open(&artifact.code, "kiln_add");
      for (int i = 0; i < N + 64; i++) {
        if (i < N) x[i] = (float)i, y[i] = (float)(2 * i);
        z[i] = -1;
      }
      struct {
        float *x, *y, *z;
        int32_t n;
      } args = {x, y, z, N};
      CHECK_INT(mapping_run(run, &args, (uint32_t[]){(N + 1023) / 1024, 1, 1}, artifact.info.scratch_bytes),
                0);
      for (int i = 0; i < N + 64; i++)
        if (z[i] != (i < N ? (float)(3 * i) : -1.0f))
          FAIL("%s -O%u: z[%d] is %g", targets[t], level, i, (double)z[i]);
      kiln_artifact_deinit(&artifact);
      kiln_arena_destroy(k.arena);
    }
}
