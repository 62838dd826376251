// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the common part of code generation: machines, modules, linking, reading back, identity.
#include <llvm-c/Core.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/codegen.h"
#include "compiler/codegen/backend.h"
#include "compiler/codegen/finish/finish.h"
#include "compiler/codegen/llvm/llvm_module.h"
#include "tests/harness.h"
#include "tests/codegen/llvm_rows.h"

static kiln_target parse(const char *text) {
  kiln_target t;
  kiln_error err = {0};
  CHECK_OK(kiln_target_parse(text, &t, &err), err);
  return t;
}

// Textual IR as emitted bytes for a target.
static void emit_text(const kiln_target *target, const char *text, LLVMCodeGenFileType type,
                      kiln_buffer *out) {
  kiln_error err = {0}, caught = {0};
  LLVMTargetMachineRef machine;
  const char *layout;
  CHECK_OK(kiln_llvm_machine(target, 2, &machine, &layout, &err), err);
  LLVMContextRef context = kiln_llvm_context(&caught);
  LLVMModuleRef module = kiln_llvm_module(context, target, layout);
  CHECK_OK(kiln_llvm_link_text(context, module, text, strlen(text), "test", &err), err);
  CHECK_OK(kiln_llvm_verify(module, "test", &err), err);
  CHECK_OK(kiln_llvm_optimise(module, machine, kiln_llvm_passes[2], &err), err);
  CHECK_OK(kiln_llvm_emit(module, machine, type, out, &err), err);
  CHECK_INT(caught.status, KILN_OK);
  LLVMDisposeModule(module);
  LLVMContextDispose(context);
}

static const char amd_kernel[] = "define amdgpu_kernel void @k(ptr addrspace(1) %p, i32 %n, i64 %m) #0 {\n"
                                 "store i32 %n, ptr addrspace(1) %p\n ret void\n}\n"
                                 "attributes #0 = { \"amdgpu-no-implicitarg-ptr\" }\n";
static const char host_kernel[] =
    "@t = internal constant [2 x i32] [i32 3, i32 4]\n"
    "define i32 @k(ptr %a, ptr %p, ptr %g, ptr %s) {\n"
    "%i = load i32, ptr %p\n %e = getelementptr [2 x i32], ptr @t, i32 0, i32 %i\n %v = load i32, ptr %e\n"
    "ret i32 %v\n}\n";

TEST(codegen_common, a_machine_for_every_processor) {
  for (size_t i = 0; i < kiln_processor_count(); i++) {
    if (!llvm_has(kiln_processor_at(i)->name)) continue;
    kiln_target t = parse(kiln_processor_at(i)->name);
    LLVMTargetMachineRef machine = NULL, again = NULL;
    const char *layout = NULL;
    kiln_error err = {0};
    CHECK_OK(kiln_llvm_machine(&t, 2, &machine, &layout, &err), err);
    CHECK(machine && layout[0]);
    CHECK_OK(kiln_llvm_machine(&t, 2, &again, &layout, &err), err);
    CHECK(machine == again);
    CHECK_OK(kiln_llvm_machine(&t, 0, &again, &layout, &err), err);
    CHECK(machine != again);
  }
}

TEST(codegen_common, code_objects_link_and_read_back) {
  static const char *const targets[] = {"gfx906",  "gfx908",  "gfx90a", "gfx942:sramecc+:xnack-",
                                        "gfx1030", "gfx1100", "gfx1201"};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    kiln_target t = parse(targets[i]);
    kiln_buffer object = {0}, linked = {0}, again = {0};
    kiln_error err = {0};
    kiln_amdgpu_facts facts;
    char id[96];
    emit_text(&t, amd_kernel, LLVMObjectFile, &object);
    CHECK_OK(kiln_finish_link(kiln_backend_of(&t), false, object.bytes, object.size, &linked, &err), err);
    CHECK_OK(kiln_finish_link(kiln_backend_of(&t), false, object.bytes, object.size, &again, &err), err);
    CHECK(linked.size == again.size && memcmp(linked.bytes, again.bytes, linked.size) == 0);
    CHECK_OK(kiln_amdgpu_read_facts(linked.bytes, linked.size, "k", &facts, &err), err);
    CHECK_INT(facts.kernarg_bytes, 24);
    CHECK_INT(facts.wave, t.wave);
    CHECK_INT(facts.lds_bytes, 0);
    snprintf(id, sizeof id, "amdgcn-amd-amdhsa--%s", targets[i]);
    CHECK_TEXT(facts.target, id);
    kiln_buffer_deinit(&object);
    kiln_buffer_deinit(&linked);
    kiln_buffer_deinit(&again);
  }
}

TEST(codegen_common, damaged_code_objects_are_refused) {
  kiln_target t = parse("gfx942");
  kiln_buffer object = {0}, linked = {0};
  kiln_error err = {0};
  kiln_amdgpu_facts facts;
  emit_text(&t, amd_kernel, LLVMObjectFile, &object);
  CHECK_OK(kiln_finish_link(kiln_backend_of(&t), false, object.bytes, object.size, &linked, &err), err);
  uint8_t *copy = malloc(linked.size);
  CHECK(copy);
  for (size_t i = 0; i < linked.size; i += i < 64 ? 1 : 13) {
    memcpy(copy, linked.bytes,
           i); // an own allocation of that size, so that reading past it shows under the sanitizer
    CHECK(kiln_amdgpu_read_facts(copy, i, "k", &facts, &err) != KILN_OK);
  }
  uint64_t state = 7;
  for (int i = 0; i < 3000; i++) {
    memcpy(copy, linked.bytes, linked.size);
    for (int j = 0; j < 3; j++)
      copy[kiln_test_random(&state) % linked.size] = (uint8_t)kiln_test_random(&state);
    kiln_status status = kiln_amdgpu_read_facts(copy, linked.size, "k", &facts, &err);
    CHECK(status == KILN_OK || status == KILN_STATUS_CORRUPT || status == KILN_STATUS_NOT_FOUND);
  }
  free(copy);
  kiln_buffer_deinit(&object);
  kiln_buffer_deinit(&linked);
}

TEST(codegen_common, host_objects_keep_their_promises) {
  static const char *const targets[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    kiln_target t = parse(targets[i]);
    kiln_buffer object = {0}, linked = {0};
    kiln_error err = {0};
    emit_text(&t, host_kernel, LLVMObjectFile, &object);
    CHECK_OK(kiln_finish_link(kiln_backend_of(&t), false, object.bytes, object.size, &linked, &err), err);
    CHECK_OK(kiln_finish_check_host(linked.bytes, linked.size, "k", &err), err);
    CHECK_INT(kiln_finish_check_host(linked.bytes, linked.size, "other", &err), KILN_STATUS_CORRUPT);
    CHECK_TEXT(err.text, "host object of other: expected it to be exported, but it is not");
    CHECK_INT(kiln_finish_check_host(object.bytes, object.size, "k", &err), KILN_STATUS_CORRUPT);
    kiln_buffer_deinit(&object);
    kiln_buffer_deinit(&linked);
  }
}

TEST(codegen_common, undefined_symbols_do_not_link) {
  kiln_target t = parse("x86-64-v3");
  kiln_buffer object = {0}, linked = {0};
  kiln_error err = {0};
  emit_text(&t,
            "declare double @pow(double, double)\ndefine double @k(double %a) { %r = call double @pow(double "
            "%a, double %a) ret double %r }\n",
            LLVMObjectFile, &object);
  CHECK_INT(kiln_finish_link(kiln_backend_of(&t), false, object.bytes, object.size, &linked, &err),
            KILN_STATUS_TOOL);
  CHECK(strstr(err.text, "undefined symbol: pow") && !strchr(err.text, '\n'));
  CHECK_INT(linked.size, 0);
  // The linker works on after a failure.
  kiln_buffer_clear(&object);
  emit_text(&t, host_kernel, LLVMObjectFile, &object);
  CHECK_OK(kiln_finish_link(kiln_backend_of(&t), false, object.bytes, object.size, &linked, &err), err);
  kiln_buffer_deinit(&object);
  kiln_buffer_deinit(&linked);
}

static void *link_in_thread(void *p) {
  kiln_target t = parse("gfx1100");
  kiln_buffer *out = p, object = {0};
  kiln_error err = {0};
  emit_text(&t, amd_kernel, LLVMObjectFile, &object);
  for (int i = 0; i < 20; i++) {
    kiln_buffer_clear(out);
    CHECK_OK(kiln_finish_link(kiln_backend_of(&t), false, object.bytes, object.size, out, &err), err);
  }
  kiln_buffer_deinit(&object);
  return NULL;
}

TEST(codegen_common, threads_link_the_same_bytes) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  kiln_buffer out[THREADS] = {0};
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, link_in_thread, &out[i]) == 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 1; i < THREADS; i++)
    CHECK(out[i].size == out[0].size && memcmp(out[i].bytes, out[0].bytes, out[0].size) == 0);
  for (int i = 0; i < THREADS; i++) kiln_buffer_deinit(&out[i]);
}

TEST(codegen_common, bad_text_is_an_internal_error_with_words) {
  LLVMContextRef context = LLVMContextCreate();
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext("test", context);
  static const char text[] = "define i32 @f() { ret float 0.0 }";
  kiln_error err = {0};
  CHECK_INT(kiln_llvm_link_text(context, module, text, sizeof text - 1, "prelude", &err),
            KILN_STATUS_INTERNAL);
  CHECK(strstr(err.text, "LLVM: prelude:1:") && !strchr(err.text, '\n'));
  LLVMDisposeModule(module);
  LLVMContextDispose(context);
}

// The vendor's tools, where they are.
static const struct {
  kiln_assembler kind;
  const char *path;
} assemblers[] = {{KILN_ASSEMBLER_NVJITLINK, "/usr/local/cuda/lib64/libnvJitLink.so"},
                  {KILN_ASSEMBLER_PTXAS, "/usr/local/cuda/bin/ptxas"}};

static const char ptx_kernel[] =
    "define ptx_kernel void @k(ptr addrspace(1) %p) { store i32 1, ptr addrspace(1) %p ret void }\n";

TEST(codegen_common, cubins_are_made_and_measured) {
  kiln_target t = parse("sm_80");
  kiln_buffer ptx = {0};
  unsigned tried = 0;
  emit_text(&t, ptx_kernel, LLVMAssemblyFile, &ptx);
  kiln_buffer_u8(&ptx, 0);
  CHECK(strstr((const char *)ptx.bytes, ".visible .entry k("));
  for (size_t i = 0; i < sizeof assemblers / sizeof *assemblers; i++) {
    size_t ignored;
    char *there = kiln_test_read(assemblers[i].path, &ignored);
    if (!there) continue;
    free(there), tried++;
    kiln_codegen_options options;
    kiln_codegen_options_init(&options);
    options.assembler = (uint8_t)assemblers[i].kind, options.assembler_path = assemblers[i].path;
    kiln_buffer out[2] = {0}, producer = {0};
    kiln_code_info info = {0};
    kiln_error err = {0};
    for (int j = 0; j < 2; j++)
      CHECK_OK(kiln_finish_cubin(&t, &options, (const char *)ptx.bytes, &out[j], &info, &producer, &err),
               err);
    CHECK(out[0].size > 500 && memcmp(out[0].bytes, "\177ELF", 4) == 0);
    CHECK(out[0].size == out[1].size && memcmp(out[0].bytes, out[1].bytes, out[0].size) == 0);
    CHECK(info.registers >= 4 && info.registers <= 255);
    CHECK_INT(info.spill_bytes, 0);
    CHECK_INT(kiln_finish_cubin(&t, &options, ".version 8.0\n.target sm_80\nbad\n", &out[0], &info, &producer,
                                &err),
              KILN_STATUS_INTERNAL);
    CHECK(strstr(err.text, "refuses the PTX: ") && !strchr(err.text, '\n'));
    CHECK_INT(kiln_finish_cubin(&t, &options, ".version 99.0\n.target sm_80\n.address_size 64\n", &out[0],
                                &info, &producer, &err),
              KILN_STATUS_TOOL);
    for (int j = 0; j < 2; j++) kiln_buffer_deinit(&out[j]);
    kiln_buffer_deinit(&producer);
  }
  kiln_buffer_deinit(&ptx);
  if (!tried) SKIP("neither libnvJitLink nor ptxas is on this machine");
}

/// Cubins of PTX with the parameters `declared`, or none where there is no assembler.
static kiln_buffer cubin_of(const char *name, const char *declared) {
  char ptx[600], path[300], *out;
  kiln_buffer cubin = {0};
  if (access(assemblers[1].path, X_OK)) SKIP("%s is not on this machine", assemblers[1].path);
  snprintf(ptx, sizeof ptx,
           ".version 8.4\n.target sm_80\n.address_size 64\n.visible .entry %s(%s)\n{ ret; }\n", name,
           declared);
  snprintf(path, sizeof path, "%s/k.ptx", kiln_test_folder());
  kiln_test_write(path, ptx, strlen(ptx));
  if (kiln_test_run(&out, "%s -arch=sm_80 %s -o %s.cubin", assemblers[1].path, path, path)) FAIL("%s", out);
  free(out);
  size_t size;
  char *bytes = kiln_test_read(strcat(path, ".cubin"), &size);
  CHECK(bytes);
  kiln_buffer_bytes(&cubin, bytes, size);
  free(bytes);
  return cubin;
}

static kiln_status check_cubin(const kiln_buffer *cubin, size_t size, const char *name,
                               const char *declared) {
  char ptx[600];
  kiln_error err = {0};
  snprintf(ptx, sizeof ptx, ".visible .entry %s(%s)\n.maxntid 32, 1, 1\n{\n}\n", name, declared);
  return kiln_finish_check_cubin(cubin->bytes, size, ptx, &err);
}

// Each list of parameters is that of its own cubin only.
TEST(codegen_common, cubins_are_held_against_their_ptx) {
  static const char *const lists[] = {
      "",
      ".param .u64 a",
      ".param .u32 a",
      ".param .u64 a, .param .u32 b",
      ".param .u32 b, .param .u64 a",
      ".param .u8 a, .param .u16 b, .param .f32 c, .param .b64 d",
      ".param .u64 .ptr .global .align 16 a, .param .u64 b, .param .f64 c",
      ".param .align 64 .b8 map[128], .param .u32 n",
      ".param .u32 n, .param .align 64 .b8 map[128]",
      ".param .align 8 .b8 map[128], .param .u32 n",
  };
  enum { LISTS = sizeof lists / sizeof *lists };
  kiln_buffer cubins[LISTS];
  for (size_t i = 0; i < LISTS; i++) cubins[i] = cubin_of("k", lists[i]);
  for (size_t i = 0; i < LISTS; i++)
    for (size_t j = 0; j < LISTS; j++) {
      bool same = i == j;
      kiln_status status = check_cubin(&cubins[i], cubins[i].size, "k", lists[j]);
      if ((status == KILN_OK) != same)
        FAIL("the cubin of (%s) for (%s): status %d", lists[i], lists[j], status);
    }
  CHECK_INT(check_cubin(&cubins[0], cubins[0].size, "j", ""), KILN_STATUS_CORRUPT);
  for (size_t i = 0; i < LISTS; i++) kiln_buffer_deinit(&cubins[i]);
}

TEST(codegen_common, no_part_of_a_cubin_is_taken_for_it) {
  static const char list[] = ".param .u64 a, .param .u32 b";
  kiln_buffer cubin = cubin_of("k", list);
  for (size_t size = 0; size < cubin.size; size++) {
    uint8_t *part = malloc(size + 1); // of its own, so that a sanitizer sees reads after it
    memcpy(part, cubin.bytes, size);
    kiln_buffer b = {.bytes = part, .size = size};
    if (check_cubin(&b, size, "k", list) != KILN_STATUS_CORRUPT) FAIL("%zu bytes are taken for all", size);
    free(part);
  }
  CHECK_INT(check_cubin(&cubin, cubin.size, "k", list), KILN_OK);
  for (size_t i = 0; i < cubin.size; i++) { // any answer, no crash
    cubin.bytes[i] ^= 0xff;
    (void)check_cubin(&cubin, cubin.size, "k", list);
    cubin.bytes[i] ^= 0xff;
  }
  kiln_buffer_deinit(&cubin);
}

TEST(codegen_common, no_part_of_a_linked_object_is_taken_for_it) {
  static const struct {
    const char *target, *text;
  } cases[] = {{"gfx942", amd_kernel}, {"x86-64-v3", host_kernel}};
  for (size_t c = 0; c < 2; c++) {
    kiln_target t = parse(cases[c].target);
    kiln_buffer object = {0}, linked = {0};
    kiln_amdgpu_facts facts;
    kiln_error err = {0};
    emit_text(&t, cases[c].text, LLVMObjectFile, &object);
    CHECK_OK(kiln_finish_link(kiln_backend_of(&t), false, object.bytes, object.size, &linked, &err), err);
    if (!c) CHECK_OK(kiln_amdgpu_read_facts(linked.bytes, linked.size, "k", &facts, &err), err);
    for (size_t size = 0; size <= linked.size; size++) {
      uint8_t *part = malloc(size + 1);
      memcpy(part, linked.bytes, size);
      kiln_status status = c ? kiln_finish_check_host(part, size, "k", &err)
                             : kiln_finish_check_amdgpu(part, size, "k", &facts, &err);
      if ((status == KILN_OK) != (size == linked.size))
        FAIL("%s: %zu of %zu bytes: status %d", cases[c].target, size, linked.size, status);
      free(part);
    }
    if (!c) {
      facts.kernarg_bytes++;
      CHECK_INT(kiln_finish_check_amdgpu(linked.bytes, linked.size, "k", &facts, &err), KILN_STATUS_CORRUPT);
      facts.kernarg_bytes--;
      CHECK_INT(kiln_finish_check_amdgpu(linked.bytes, linked.size, "other", &facts, &err),
                KILN_STATUS_CORRUPT);
    }
    kiln_buffer_deinit(&object);
    kiln_buffer_deinit(&linked);
  }
}

TEST(codegen_common, a_missing_assembler_is_named) {
  kiln_target t = parse("sm_90");
  kiln_codegen_options options;
  kiln_codegen_options_init(&options);
  kiln_buffer out = {0}, producer = {0};
  kiln_code_info info = {0};
  kiln_error err = {0};
  CHECK_INT(kiln_finish_cubin(&t, &options, "", &out, &info, &producer, &err), KILN_STATUS_TOOL);
  CHECK_TEXT(err.text,
             "a cubin for sm_90 needs an assembler (--ptx-assembler=nvjitlink or ptxas); PTX needs none");
  options.assembler = KILN_ASSEMBLER_PTXAS;
  CHECK_INT(kiln_finish_cubin(&t, &options, "", &out, &info, &producer, &err), KILN_STATUS_TOOL);
  CHECK_TEXT(err.text,
             "a cubin for sm_90: the file of ptxas is not given (--assembler-path); PTX needs none");
  options.assembler_path = "/nonexistent/ptxas";
  CHECK_INT(kiln_finish_cubin(&t, &options, "", &out, &info, &producer, &err), KILN_STATUS_TOOL);
  CHECK(strstr(err.text, "ptxas cannot be started: /nonexistent/ptxas: No such file"));
  options.assembler = KILN_ASSEMBLER_NVJITLINK;
  CHECK_INT(kiln_finish_cubin(&t, &options, "", &out, &info, &producer, &err), KILN_STATUS_TOOL);
  CHECK(strstr(err.text, "libnvJitLink cannot be loaded: "));
}

static int fatal_pipe[2];
static void on_fatal(const char *reason) {
  if (write(fatal_pipe[1], reason, strlen(reason)) < 0) _exit(1);
  _exit(7);
}

// LLVM gives up on a generic processor without code object 6; the handler gets its words before the process
// would end.
static void provoke_fatal(void) {
  kiln_target t = parse("gfx11-generic");
  kiln_buffer object = {0};
  t.code_object = 5;
  kiln_codegen_on_fatal(on_fatal);
  emit_text(&t, amd_kernel, LLVMObjectFile, &object);
  _exit(1);
}

TEST(codegen_common, fatal_errors_reach_the_handler) {
  char text[300] = "";
  int status;
  CHECK(pipe(fatal_pipe) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) provoke_fatal();
  close(fatal_pipe[1]);
  CHECK(read(fatal_pipe[0], text, sizeof text - 1) > 0);
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  CHECK(strstr(text, "gfx11-generic") || strstr(text, "generic"));
}

TEST(codegen_common, fingerprint_names_llvm_and_build) {
  unsigned major, minor, patch;
  char expected[64];
  LLVMGetVersion(&major, &minor, &patch);
  snprintf(expected, sizeof expected, "llvm=%u.%u.%u build-id=", major, minor, patch);
  const char *text = kiln_codegen_fingerprint();
  CHECK(strncmp(text, expected, strlen(expected)) == 0);
  CHECK_INT(strspn(text + strlen(expected), "0123456789abcdef"), 40);
  CHECK_INT(strlen(text), strlen(expected) + 40);
}
