// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stands for PyTorch's stable interface for C, as far as a library of operations (kiln/_torch_library.py)
// calls it: tensors are structs of the test's, and what is thrown comes back as a text.
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes" // they are PyTorch's

typedef struct tensor {
  void *data;
  int64_t size, stride;
  int32_t dtype, type, index;
} tensor;

typedef void boxed(uint64_t *stack, uint64_t inputs, uint64_t outputs);
static boxed *operation;
static jmp_buf thrown;
static char text[1200];
static int streams_asked[64];

PUBLIC int aoti_torch_library_init_fragment(const char *n, const char *f, uint32_t l, void **out) {
  return (void)n, (void)f, (void)l, *out = NULL, 0;
}
PUBLIC int aoti_torch_library_init_impl(const char *n, const char *k, const char *f, uint32_t l, void **out) {
  return (void)n, (void)k, (void)f, (void)l, *out = NULL, 0;
}
PUBLIC int aoti_torch_library_def(void *l, const char *schema) { return (void)l, (void)schema, 0; }
PUBLIC int aoti_torch_library_impl(void *l, const char *name, boxed *function) {
  return (void)l, (void)name, operation = function, 0;
}
PUBLIC int aoti_torch_get_data_ptr(tensor *t, void **out) { return *out = t->data, 0; }
PUBLIC int aoti_torch_get_dim(tensor *t, int64_t *out) { return (void)t, *out = 1, 0; }
PUBLIC int aoti_torch_get_sizes(tensor *t, int64_t **out) { return *out = &t->size, 0; }
PUBLIC int aoti_torch_get_strides(tensor *t, int64_t **out) { return *out = &t->stride, 0; }
PUBLIC int aoti_torch_get_dtype(tensor *t, int32_t *out) { return *out = t->dtype, 0; }
PUBLIC int aoti_torch_get_device_type(tensor *t, int32_t *out) { return *out = t->type, 0; }
PUBLIC int aoti_torch_get_device_index(tensor *t, int32_t *out) { return *out = t->index, 0; }
PUBLIC int aoti_torch_is_contiguous(tensor *t, bool *out) { return *out = t->stride == 1, 0; }
PUBLIC int aoti_torch_delete_tensor_object(tensor *t) { return (void)t, 0; }
PUBLIC int aoti_torch_zero_(tensor *t) { return (void)t, 1; }
PUBLIC int aoti_torch_empty_strided(int64_t rank, const int64_t *sizes, const int64_t *strides, int32_t dtype,
                                    int32_t type, int32_t index, tensor **out) {
  return (void)rank, (void)sizes, (void)strides, (void)dtype, (void)type, (void)index, *out = NULL, 1;
}
PUBLIC int aoti_torch_get_current_cuda_stream(int32_t index, void **out) {
  return streams_asked[index % 64]++, *out = NULL, 0;
}
PUBLIC _Noreturn void throw_it(const char *what) __asm__("_ZSt21__throw_runtime_errorPKc");
PUBLIC _Noreturn void throw_it(const char *what) {
  snprintf(text, sizeof text, "%s", what);
  longjmp(thrown, 1);
}

/// Calls the operation; "" or what it throws.
PUBLIC const char *stable_call(uint64_t *stack, uint64_t inputs) {
  *text = 0;
  if (!setjmp(thrown)) operation(stack, inputs, 0);
  return text;
}
PUBLIC int stable_streams(int index) { return streams_asked[index]; }
