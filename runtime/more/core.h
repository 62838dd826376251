// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For the files of libkiln-more, in place of runtime/more/more.h: calls of libkiln go through its table.
#ifndef KILN_RUNTIME_MORE_CORE_H
#define KILN_RUNTIME_MORE_CORE_H

#include "runtime/more/more.h"

#ifdef KILN_APART
extern const kiln_core *kiln_core_table; // runtime/apart/start_more.c

#define kiln_bundle_blob_at (*kiln_core_table->kiln_bundle_blob_at)
#define kiln_bundle_code_at (*kiln_core_table->kiln_bundle_code_at)
#define kiln_bundle_damaged (*kiln_core_table->kiln_bundle_damaged)
#define kiln_bundle_entry (*kiln_core_table->kiln_bundle_entry)
#define kiln_bundle_kernel_at (*kiln_core_table->kiln_bundle_kernel_at)
#define kiln_bundle_kernel_find (*kiln_core_table->kiln_bundle_kernel_find)
#define kiln_bundle_load (*kiln_core_table->kiln_bundle_load)
#define kiln_bundle_no_memory (*kiln_core_table->kiln_bundle_no_memory)
#define kiln_bundle_note (*kiln_core_table->kiln_bundle_note)
#define kiln_bundle_record (*kiln_core_table->kiln_bundle_record)
#define kiln_bundle_region (*kiln_core_table->kiln_bundle_region)
#define kiln_bundle_target_at (*kiln_core_table->kiln_bundle_target_at)
#define kiln_bundle_text (*kiln_core_table->kiln_bundle_text)
#define kiln_bytes_deinit (*kiln_core_table->kiln_bytes_deinit)
#define kiln_check_of (*kiln_core_table->kiln_check_of)
#define kiln_choice_of (*kiln_core_table->kiln_choice_of)
#define kiln_decide (*kiln_core_table->kiln_decide)
#define kiln_device_check (*kiln_core_table->kiln_device_check)
#define kiln_device_rank (*kiln_core_table->kiln_device_rank)
#define kiln_family_of (*kiln_core_table->kiln_family_of)
#define kiln_hook_tell (*kiln_core_table->kiln_hook_tell)
#define kiln_kernel_count (*kiln_core_table->kiln_kernel_count)
#define kiln_kernel_get (*kiln_core_table->kiln_kernel_get)
#define kiln_kernel_load (*kiln_core_table->kiln_kernel_load)
#define kiln_kernel_no_memory (*kiln_core_table->kiln_kernel_no_memory)
#define kiln_launch_packed (*kiln_core_table->kiln_launch_packed)
#define kiln_log (*kiln_core_table->kiln_log)
#define kiln_memo_create (*kiln_core_table->kiln_memo_create)
#define kiln_memo_note (*kiln_core_table->kiln_memo_note)
#define kiln_try_config (*kiln_core_table->kiln_try_config)
#define kiln_read_values (*kiln_core_table->kiln_read_values)
#define kiln_refuse_count (*kiln_core_table->kiln_refuse_count)
#define kiln_refuse_size (*kiln_core_table->kiln_refuse_size)
#endif

// Functions are called kiln_more_NAME here, and kiln_NAME by applications.
#undef KILN_NEED
#define KILN_NEED(pointer, what)                                                 \
  if (__builtin_expect(!(pointer), 0))                                           \
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "kiln_%s: the %s is NULL", \
                   __func__ + sizeof "kiln_more_" - 1, what)

/// All parameters as integers by number; those that are none have some value. refusals.c
void kiln_read_integers(const kiln_kernel *k, const uint8_t *block, int64_t *values);
/// A buffer of `have` elements is smaller than its parameter states. refusals.c
KILN_COLD kiln_status kiln_refuse_elements(const kiln_kernel *k, const kiln_param_record *p, int64_t needed,
                                           size_t have, const uint8_t *block, kiln_error *err);

#endif
