// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a model of AOTInductor calls of the CUDA runtime and of PyTorch's functions for CUDA, over the driver
// in tests/emulation/cuda_interpreted.c. Loaded before all else (LD_PRELOAD); a tensor "on cuda" is one of
// the CPU to PyTorch, whose memory is the driver's, so PyTorch never reads it.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes" // they are NVIDIA's and PyTorch's

enum { CPU = 0, CUDA = 1, TO_DEVICE = 1, TO_HOST = 2 };

int cuMemAlloc_v2(uint64_t *out, size_t size);
int cuMemFree_v2(uint64_t address);
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size);
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size);

PUBLIC int cuCtxGetDevice(int *out) { return *out = 0; }
// No cubin is loaded or launched.
PUBLIC int cuModuleLoad(void **out, const char *path) { return (void)path, *out = NULL, 1; }
PUBLIC int cuModuleLoadData(void **out, const void *image) { return (void)image, *out = NULL, 1; }
PUBLIC int cuLaunchKernelEx(const void *config, void *function, void **arguments, void **extra) {
  return (void)config, (void)function, (void)arguments, (void)extra, 1;
}
PUBLIC int cudaGetDevice(int *out) { return *out = 0; }
PUBLIC int cudaSetDevice(int device) { return device; }
PUBLIC int cudaGetLastError(void) { return 0; }
PUBLIC const char *cudaGetErrorString(int result) { return result ? "an error" : "no error"; }
PUBLIC int cudaMalloc(void **out, size_t size) {
  uint64_t address = 0;
  int result = size ? cuMemAlloc_v2(&address, size) : 0;
  return *out = (void *)(uintptr_t)address, result;
}
PUBLIC int cudaFree(void *memory) { return cuMemFree_v2((uintptr_t)memory); }
PUBLIC int cudaMemcpy(void *to, const void *from, size_t size, int kind) {
  if (kind == TO_DEVICE) return cuMemcpyHtoD_v2((uintptr_t)to, from, size);
  if (kind == TO_HOST) return cuMemcpyDtoH_v2(to, (uintptr_t)from, size);
  return 1;
}
PUBLIC int cudaEventCreate(void **out) { return *out = NULL, 0; }
PUBLIC int cudaEventDestroy(void *event) { return (void)event, 0; }
PUBLIC int cudaEventQuery(void *event) { return (void)event, 0; }
PUBLIC int cudaEventSynchronize(void *event) { return (void)event, 0; }
PUBLIC int cudaEventRecord(void *event, void *stream) { return (void)event, (void)stream, 0; }

PUBLIC int aoti_torch_create_cuda_guard(int32_t device, void **out) { return *out = NULL, device; }
PUBLIC int aoti_torch_delete_cuda_guard(void *guard) { return (void)guard, 0; }
PUBLIC int aoti_torch_create_cuda_stream_guard(void *stream, int32_t device, void **out) {
  return (void)stream, *out = NULL, device;
}
PUBLIC int aoti_torch_delete_cuda_stream_guard(void *guard) { return (void)guard, 0; }
PUBLIC int aoti_torch_get_current_cuda_stream(int32_t device, void **out) { return *out = NULL, device; }

typedef int from_blob(void *data, int64_t rank, const int64_t *sizes, const int64_t *strides, int64_t offset,
                      int32_t dtype, int32_t type, int32_t index, void **out);
typedef int empty_strided(int64_t rank, const int64_t *sizes, const int64_t *strides, int32_t dtype,
                          int32_t type, int32_t index, void **out);

PUBLIC int aoti_torch_create_tensor_from_blob(void *data, int64_t rank, const int64_t *sizes,
                                              const int64_t *strides, int64_t offset, int32_t dtype,
                                              int32_t type, int32_t index, void **out) {
  from_blob *theirs = (from_blob *)dlsym(RTLD_NEXT, "aoti_torch_create_tensor_from_blob");
  return theirs(data, rank, sizes, strides, offset, dtype, CPU, type == CUDA ? 0 : index, out);
}

PUBLIC int aoti_torch_empty_strided(int64_t rank, const int64_t *sizes, const int64_t *strides, int32_t dtype,
                                    int32_t type, int32_t index, void **out) {
  void *data = NULL;
  size_t last = 0;
  if (type != CUDA)
    return ((empty_strided *)dlsym(RTLD_NEXT, "aoti_torch_empty_strided"))(rank, sizes, strides, dtype, type,
                                                                           index, out);
  for (int64_t k = 0; k < rank; k++) last += (size_t)((sizes[k] - 1) * strides[k]);
  return cudaMalloc(&data, 8 * (last + 1)) ||
         aoti_torch_create_tensor_from_blob(data, rank, sizes, strides, 0, dtype, CPU, 0, out);
}
