// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that every kernel of kernels/ states how many elements each of its buffers needs (@size; views say it by extents and
// strides), so that every caller who knows a buffer's size can refuse one that is too small. That what they
// state is enough and no more than callers have, kernel-check compares at each launch.
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "compiler/front.h"
#include "tests/harness.h"

/// What no launch expression can say (docs/runtime.md): data, or a float, decides.
static struct {
  const char *kernel, *parameter;
  unsigned seen;
} open_ones[] = {{"paged_attention", "k_cache", 0},
                 {"paged_attention", "v_cache", 0},
                 {"paged_attention_parts", "k_cache", 0},
                 {"paged_attention_parts", "v_cache", 0},
                 {"rotary", "cosines", 0},
                 {"rotary", "sines", 0},
                 {"gemm_general", "c", 0}};
enum { OPEN = sizeof open_ones / sizeof *open_ones };
static unsigned buffers, instances;

static bool is_open(const char *kernel, const char *parameter) {
  size_t length = strcspn(kernel, "[");
  for (size_t i = 0; i < OPEN; i++)
    if (strlen(open_ones[i].kernel) == length && !strncmp(open_ones[i].kernel, kernel, length) &&
        !strcmp(open_ones[i].parameter, parameter))
      return ++open_ones[i].seen;
  return false;
}

static void look_at(const char *path, const kiln_interface *in) {
  instances++;
  for (uint32_t p = 0; p < in->param_count; p++) {
    const kiln_param_record *param = &in->params[p];
    if (!param->pointer || param->view_rank) continue;
    buffers++;
    if (!param->needs.size && !is_open(in->name, param->name))
      FAIL("%s: %s: '%s' does not state its size", path, in->name, param->name);
  }
}

static void open_source(const char *path) {
  size_t size;
  char *text = kiln_test_read(path, &size);
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  const kiln_front_options options = {0};
  CHECK(text && arena);
  kiln_unit *unit = kiln_unit_open(arena, path, text, size, &options, &d);
  if (!unit) FAIL("%s: %s", path, d.count ? d.items[0].text : "refused");
  for (size_t i = 0; i < kiln_unit_instance_count(unit); i++) look_at(path, kiln_unit_interface(unit, i));
  kiln_arena_destroy(arena);
  free(text);
}

TEST(library_sizes, every_buffer_states_its_size) {
  glob_t found;
  CHECK_INT(glob("kernels/*.kiln", 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; i++) open_source(found.gl_pathv[i]);
  printf("%u buffers of %u instances in %zu sources\n", buffers, instances, found.gl_pathc);
  globfree(&found);
  CHECK(instances >= 256 && buffers >= 997);
  for (size_t i = 0; i < OPEN; i++)
    if (!open_ones[i].seen)
      FAIL("'%s' of %s states its size: it does not belong into the list", open_ones[i].parameter,
           open_ones[i].kernel);
}
