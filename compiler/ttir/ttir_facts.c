// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launch facts out of the JSON that Triton writes next to a TTIR file.
#include <string.h>

#include "base/json.h"
#include "compiler/ttir/ttir.h"

static uint32_t count_of(const kiln_json *object, const char *name, uint32_t limit, uint32_t absent) {
  int64_t value;
  const kiln_json *field = kiln_json_find(object, name);
  return field && kiln_json_integer(field, &value) && value > 0 && value <= limit ? (uint32_t)value : absent;
}

kiln_status ttir_read_facts(kiln_arena *arena, const char *text, size_t size, ttir_facts *facts,
                            kiln_error *err) {
  const kiln_json *object;
  KILN_TRY(kiln_json_parse(arena, text, size, &object, err));
  if (object->kind != KILN_JSON_OBJECT)
    return kiln_fail(err, KILN_STATUS_SOURCE, "metadata: expected a JSON object");
  uint32_t warps = count_of(object, "num_warps", 64, facts->warps);
  if (warps & (warps - 1))
    return kiln_fail(err, KILN_STATUS_SOURCE, "metadata: expected num_warps to be a power of two, found %u",
                     warps);
  facts->warps = warps;
  facts->stages = count_of(object, "num_stages", 255, facts->stages);
  facts->max_registers = count_of(object, "maxnreg", 1024, facts->max_registers);
  const kiln_json *fusion = kiln_json_find(object, "enable_fp_fusion");
  if (fusion && fusion->kind == KILN_JSON_FALSE) facts->no_fusion = true;
  const kiln_json *target = kiln_json_find(object, "target");
  if (target && target->kind == KILN_JSON_OBJECT)
    facts->is_cuda = strcmp(kiln_json_text(target, "backend", ""), "cuda") == 0;
  uint32_t clusters = count_of(object, "num_ctas", 64, 1);
  if (clusters > 1)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED,
                     "metadata: expected num_ctas 1, found %u: clusters are not supported", clusters);
  return KILN_OK;
}
