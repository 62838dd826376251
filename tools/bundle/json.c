// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints bundles as JSON, for `kiln inspect --json` and the other commands with --json.
#include "tools/bundle/json.h"

#include <sodium/utils.h>
#include <stdio.h>

#include "base/expr.h"
#include "tools/kiln-tool/commands.h"

typedef unsigned long long ull;

static const char *separator(bool first) { return first ? "" : ", "; }

void json_member(kiln_buffer *out, bool first, const char *key, const char *text) {
  kiln_buffer_format(out, "%s\"%s\": ", separator(first), key);
  cli_json_text(out, text);
}

static void put_param(kiln_buffer *out, const kiln_param_record *p) {
  static const char *const accesses[] = {"value", "in", "out", "inout", "accum"};
  kiln_buffer_format(out, "{");
  json_member(out, true, "name", p->name);
  json_member(out, false, "type", kiln_scalars[p->scalar].spelling);
  json_member(out, false, "access", accesses[p->access]);
  kiln_buffer_format(
      out, ", \"pointer\": %u, \"rank\": %u, \"offset\": %u, \"size\": %u, \"align\": %u, \"div\": %lld",
      p->pointer, p->view_rank, p->offset, p->size, p->align ? p->align : 1,
      (long long)(p->div ? p->div : 1));
  if (p->rows) kiln_buffer_format(out, ", \"rows\": %u", p->rows);
  if (p->has_range) kiln_buffer_format(out, ", \"range\": [%lld, %lld]", (long long)p->lo, (long long)p->hi);
  kiln_buffer_format(out, "}");
}

static void put_grid(kiln_buffer *out, const kiln_interface *in, const kiln_config_record *c,
                     const char *const *names) {
  char text[400];
  if (!c->grid[0].size && !c->grid[1].size && !c->grid[2].size) { // given by the caller
    kiln_buffer_format(out, "null");
    return;
  }
  for (unsigned axis = 0; axis < 3; axis++) {
    const kiln_span *g = &c->grid[axis];
    bool valid = kiln_expr_verify(g->bytes, g->size, in->param_count);
    kiln_buffer_format(out, "%s", axis ? ", " : "[");
    cli_json_text(out, !g->size ? "1"
                       : valid  ? kiln_expr_text(g->bytes, g->size, names, in->param_count, text, sizeof text)
                                : "?");
  }
  kiln_buffer_format(out, "]");
}

static void put_interface(kiln_buffer *out, const kiln_interface *in) {
  const char *names[256 + 1];
  uint32_t named = in->param_count <= 256 ? in->param_count : 256;
  for (uint32_t i = 0; i < named; i++) names[i] = in->params[i].name;
  json_member(out, false, "symbol", in->symbol);
  kiln_buffer_format(out, ", \"abi\": \"%016llx\", \"block_bytes\": %u, \"params\": [",
                     (ull)kiln_interface_abi(in), in->block_bytes);
  for (uint32_t i = 0; i < in->param_count; i++) {
    kiln_buffer_format(out, "%s", separator(!i));
    put_param(out, &in->params[i]);
  }
  kiln_buffer_format(out, "], \"configs\": [");
  for (uint32_t i = 0; i < in->config_count; i++) {
    kiln_buffer_format(out, "%s{", separator(!i));
    json_member(out, true, "text", in->configs[i].text);
    kiln_buffer_format(out, ", \"grid\": ");
    put_grid(out, in, &in->configs[i], names);
    kiln_buffer_format(out, "}");
  }
  kiln_buffer_format(out, "], \"variants\": [");
  for (uint32_t i = 0; i < in->variant_count; i++) {
    kiln_buffer_format(out, "%s", separator(!i));
    cli_json_text(out, in->variants[i].text);
  }
  kiln_buffer_format(out, "]");
}

void json_code(kiln_buffer *out, const view_code *c) {
  char digest[2 * KILN_DIGEST_SIZE + 1];
  kiln_buffer_format(out, "{");
  json_member(out, true, "target", c->target);
  json_member(out, false, "format", kiln_format_name(c->info.format));
  kiln_buffer_format(out,
                     ", \"config\": %u, \"variant\": %u, \"raw\": %u, \"stored\": %u, \"block_threads\": %u, "
                     "\"registers\": %u, \"scalar_registers\": %u, "
                     "\"spill_bytes\": %u, \"shared_bytes\": %u, \"wave\": %u",
                     c->entry.config, c->entry.variant, c->blob.raw, c->blob.stored, c->info.block_threads,
                     c->info.registers, c->info.scalar_registers, c->info.spill_bytes, c->info.shared_bytes,
                     c->info.wave);
  json_member(out, false, "producer", c->info.producer);
  json_member(out, false, "digest", sodium_bin2hex(digest, sizeof digest, c->blob.digest, KILN_DIGEST_SIZE));
  kiln_buffer_format(out, "}");
}

void json_kernel(kiln_buffer *out, const view_kernel *k, const char *target) {
  kiln_buffer_format(out, "{");
  json_member(out, true, "name", k->name);
  put_interface(out, &k->interface);
  kiln_buffer_format(out, ", \"codes\": [");
  bool first = true;
  for (uint32_t i = 0; i < k->code_count; i++) {
    if (target && strcmp(k->codes[i].target, target)) continue;
    kiln_buffer_format(out, "%s\n   ", first ? "" : ",");
    json_code(out, &k->codes[i]);
    first = false;
  }
  kiln_buffer_format(out, "]}");
}

kiln_status json_bundle(kiln_buffer *out, const bundle_view *v, kiln_error *err) {
  const uint8_t *header = v->bundle->header, *slot = header + KILN_BH_SIZE;
  char key[2 * 32 + 1];
  json_member(out, true, "bundle", v->bundle->name);
  kiln_buffer_format(out, ", \"bytes\": %zu, \"format\": \"%u.%u\", \"signed_by\": ", v->bundle->size,
                     kiln_le16(header + KILN_BH_MAJOR), kiln_le16(header + KILN_BH_MINOR));
  if (kiln_le32(slot + KILN_BG_KIND) == 1)
    cli_json_text(out, sodium_bin2hex(key, sizeof key, slot + KILN_BG_KEY, 32));
  else kiln_buffer_format(out, "null");
  kiln_buffer_format(out, ", \"version\": %llu", (unsigned long long)v->statement.version);
  json_member(out, false, "name", v->statement.name);
  kiln_buffer_format(out, ",\n \"notes\": {");
  for (uint32_t i = 0; i < v->note_count; i++) {
    kiln_buffer_format(out, "%s", separator(!i));
    cli_json_text(out, v->notes[i].key);
    kiln_buffer_format(out, ": ");
    cli_json_text(out, bundle_view_note(v, &v->notes[i]));
  }
  kiln_buffer_format(out, "},\n \"targets\": [");
  for (uint32_t i = 0; i < v->bundle->section_count[KILN_BUNDLE_TARGETS]; i++) {
    const char *name = kiln_bundle_target_at(v->bundle, i, err);
    if (!name) return KILN_STATUS_CORRUPT;
    kiln_buffer_format(out, "%s", separator(!i));
    cli_json_text(out, name);
  }
  kiln_buffer_format(out, "]");
  return KILN_OK;
}

int json_print(kiln_buffer *out) {
  kiln_error err;
  kiln_buffer_format(out, "\n");
  bool failed = out->failed;
  if (!failed) fwrite(out->bytes, 1, out->size, stdout);
  kiln_buffer_deinit(out);
  if (!failed) return CLI_OK;
  kiln_fail(&err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  return cli_report(err.status, &err);
}
