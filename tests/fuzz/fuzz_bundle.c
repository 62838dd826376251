// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes what reads untrusted bytes at run time. The first byte selects what the rest is: 0 a bundle as it
// is, 1 a bundle whose checks are corrected first (as a malicious writer would do), 2 a host object for the
// mapper, whose code is not run.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bundle_format.h"
#include "base/digest.h"
#include "runtime/device/host_loader.h"
#include "runtime/kiln.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_KERNELS = 8 };

static void put_check(uint8_t *at, const uint8_t *bytes, size_t size) {
  memcpy(at, kiln_check_of(bytes, size).bytes, KILN_BUNDLE_CHECK);
}

static size_t part(uint64_t total, uint64_t page) {
  uint64_t left = total - page * KILN_BUNDLE_PAGE;
  return left < KILN_BUNDLE_PAGE ? (size_t)left : KILN_BUNDLE_PAGE;
}

// Makes sizes and checks right as far as the parts lie inside the bytes.
static void seal(uint8_t *bytes, size_t size) {
  if (size < KILN_ZIP_LOCAL_SIZE) return;
  size_t at = (size_t)KILN_ZIP_LOCAL_SIZE + kiln_le16(bytes + KILN_ZIP_NAME_SIZE) +
              kiln_le16(bytes + KILN_ZIP_EXTRA_SIZE);
  if (at > size || size - at < KILN_BUNDLE_TOP) return;
  uint8_t *h = bytes + at;
  uint64_t left = size - at, region = kiln_le64(h + KILN_BH_REGION),
           region_size = kiln_le64(h + KILN_BH_REGION_SIZE);
  kiln_put64(h + KILN_BH_FILE_SIZE, size);
  uint64_t pages = (region_size + KILN_BUNDLE_PAGE - 1) / KILN_BUNDLE_PAGE,
           tops = (pages * 8 + KILN_BUNDLE_PAGE - 1) / KILN_BUNDLE_PAGE;
  if (region <= left && region_size <= left - region && KILN_BUNDLE_TOP + (tops + pages) * 8 <= region) {
    uint8_t *top = h + KILN_BUNDLE_TOP, *checks = top + tops * 8;
    kiln_put32(h + KILN_BH_PAGE_COUNT, (uint32_t)pages);
    kiln_put32(h + KILN_BH_TOP_COUNT, (uint32_t)tops);
    for (uint64_t i = 0; i < pages; i++)
      put_check(checks + i * 8, h + region + i * KILN_BUNDLE_PAGE, part(region_size, i));
    for (uint64_t i = 0; i < tops; i++)
      put_check(top + i * 8, checks + i * KILN_BUNDLE_PAGE, part(pages * 8, i));
    put_check(h + KILN_BH_TOP_CHECK, top, tops * 8);
  }
  put_check(h + KILN_BH_CHECK, h, KILN_BH_CHECK);
}

static void use_kernel(kiln_device *device, const char *name) {
  kiln_kernel *kernel;
  kiln_report *report;
  kiln_choice choice;
  kiln_error err;
  if (kiln_explain(device, name, &report, &err) == KILN_OK) kiln_report_free(report);
  if (kiln_kernel_get(device, name, NULL, &kernel, &err) != KILN_OK) return;
  uint8_t *block = calloc(1, kiln_block_size(kernel) + 1);
  if (!block) abort();
  if (kiln_choose(kernel, block, kiln_block_size(kernel), &choice, &err) == KILN_OK && !choice.config)
    abort();
  if (kiln_preload(kernel, &err) == KILN_OK &&
      kiln_launch_packed(kernel, NULL, block, kiln_block_size(kernel), &err) != KILN_OK && !*err.text)
    abort();
  free(block);
}

static void use_bundle(const uint8_t *bytes, size_t size) {
  kiln_library *library;
  kiln_device *device;
  kiln_preflight preflight;
  kiln_error err;
  if (kiln_open_memory(bytes, size, &library, &err) != KILN_OK) return;
  static const char *const devices[] = {"null", "null:sm_90", "null:x86-64-v3"};
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    if (kiln_device_open(library, devices[d], &device, &err) != KILN_OK) abort();
    for (size_t i = 0; i < MOST_KERNELS; i++) {
      const char *name = kiln_kernel_name(library, i);
      if (name) use_kernel(device, name);
    }
    if (kiln_kernel_count(library) < 1000 && kiln_device_preflight(device, &preflight, &err) != KILN_OK &&
        !*err.text)
      abort();
    kiln_device_close(device);
  }
  kiln_close(library);
}

static int32_t never(const uint32_t program_id[3], int32_t is_waiting) { return *program_id && is_waiting; }

static void use_object(const uint8_t *bytes, size_t size) {
  kiln_host_object object;
  void *function;
  kiln_error err;
  if (kiln_host_object_map(bytes, size, "kiln_one_f32", never, &object, &function, &err) != KILN_OK) {
    if (!*err.text || object.base) abort();
    return;
  }
  if ((uint8_t *)function < (uint8_t *)object.base ||
      (uint8_t *)function >= (uint8_t *)object.base + object.size)
    abort();
  kiln_host_object_unmap(&object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  uint8_t *copy = malloc(size); // of its own size, so that reads past the end are seen
  if (!copy) abort();
  memcpy(copy, data + 1, size - 1);
  if (*data % 3 == 1) seal(copy, size - 1);
  (*data % 3 == 2 ? use_object : use_bundle)(copy, size - 1);
  free(copy);
  return 0;
}
