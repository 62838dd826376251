// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gives code objects to other readers: LLVM's llvm-readobj and, as code object version 4, AMD's
// libamd-comgr as Debian ships it (5.2, which knows versions up to 4). A reader that is not installed is a
// skip.
#include <dlfcn.h>

#include "tests/runtime/fixture.h"

enum { COMGR_EXECUTABLE = 8 };
typedef struct comgr_handle {
  uint64_t handle;
} comgr_handle;

static const char *const kernels[][2] = {
    {"elementwise", "add[T=f32]"},
    {"softmax", "softmax[T=f32]"},
    {"transpose", "transpose[T=f32]"},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static const char *compile(unsigned kernel, const char *target) {
  char *out;
  const char *path = kiln_test_path("k.hsaco");
  if (kiln_test_run(&out, "%s/bin/kiln compile -q --no-cache -t %s -k '%s' kernels/%s.kiln -o %s",
                    kiln_test_build(), target, kernels[kernel][1], kernels[kernel][0], path))
    FAIL("%s for %s: %s", kernels[kernel][1], target, out);
  free(out);
  return path;
}

// The processor that comgr reads from the object's flags; "" when it does not take the object.
static void comgr_processor(void *comgr, const char *path, char *out, size_t capacity) {
  int (*create)(int, comgr_handle *), (*set)(comgr_handle, size_t, const char *),
      (*metadata)(comgr_handle, comgr_handle *);
  int (*isa)(comgr_handle, size_t *, char *);
  *(void **)&create = dlsym(comgr, "amd_comgr_create_data");
  *(void **)&set = dlsym(comgr, "amd_comgr_set_data");
  *(void **)&metadata = dlsym(comgr, "amd_comgr_get_data_metadata");
  *(void **)&isa = dlsym(comgr, "amd_comgr_get_data_isa_name");
  CHECK(create && set && metadata && isa);
  comgr_handle data, notes;
  size_t size = 0, length = 0;
  char *object = kiln_test_read(path, &size);
  out[0] = 0;
  CHECK(object != NULL);
  CHECK_INT(create(COMGR_EXECUTABLE, &data), 0);
  CHECK_INT(set(data, size, object), 0);
  if (!metadata(data, &notes) && !isa(data, &length, NULL) && length <= capacity)
    CHECK_INT(isa(data, &length, out), 0);
  free(object);
}

static void check_comgr(const char *target) {
  char name[64], got[200], want[100];
  void *comgr = dlopen("libamd_comgr.so.2", RTLD_NOW);
  if (!comgr) SKIP("libamd_comgr.so.2 is not installed (Debian: libamd-comgr2)");
  snprintf(name, sizeof name, "%s:v4", target);
  snprintf(want, sizeof want, "amdgcn-amd-amdhsa--%s", target);
  for (unsigned i = 0; i < KERNELS; i++) {
    comgr_processor(comgr, compile(i, name), got, sizeof got);
    CHECK_TEXT(got, want);
  }
}

TEST(vendor, comgr_takes_gfx906) { check_comgr("gfx906"); }
TEST(vendor, comgr_takes_gfx90a) { check_comgr("gfx90a"); }

// The versions in the header: ABI version 2 is code object 4, 3 is 5, 4 is 6.
TEST(vendor, readobj_takes_every_version) {
  static const char *const targets[][2] = {{"gfx906:v4", "2"}, {"gfx90a:v4", "2"},     {"gfx942", "3"},
                                           {"gfx1100", "3"},   {"gfx11-generic", "4"}, {"gfx950", "3"},
                                           {"gfx1250", "3"},   {"gfx9-4-generic", "4"}};
  char *out, want[40];
  kiln_test_need("llvm-readobj-22");
  for (size_t t = 0; t < sizeof targets / sizeof *targets; t++)
    for (unsigned i = 0; i < KERNELS; i++) {
      const char *path = compile(i, targets[t][0]);
      if (kiln_test_run(&out, "llvm-readobj-22 --file-header --notes --symbols --dynamic-table %s", path))
        FAIL("%s: %s", targets[t][0], out);
      snprintf(want, sizeof want, "ABIVersion: %s", targets[t][1]);
      if (!strstr(out, want) || !strstr(out, ".kernarg_segment_size") || strstr(out, "warning:"))
        FAIL("%s, %s: expected %s and metadata without warnings:\n%.2000s", targets[t][0], kernels[i][1],
             want, out);
      free(out);
    }
}
