// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln header: writes a C header with one typed function per kernel, so that a changed parameter list fails
// at compilation or look-up, never at launch.
#include <ctype.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bundle/header.h"
#include "tools/kiln-tool/commands.h"

// The type of a parameter in C: i1 is a byte, halves and fp8 are their bits.
static const char *const c_types[KILN_SCALAR_COUNT] = {
    [KILN_I1] = "uint8_t",  [KILN_I8] = "int8_t",    [KILN_I16] = "int16_t",   [KILN_I32] = "int32_t",
    [KILN_I64] = "int64_t", [KILN_F16] = "uint16_t", [KILN_BF16] = "uint16_t", [KILN_F32] = "float",
    [KILN_F64] = "double",  [KILN_E4M3] = "uint8_t", [KILN_E5M2] = "uint8_t",
};

// Names of parameters end in an underscore, so that they cannot be keywords; names that belong to a parameter
// do not, so that they cannot be other parameters.
static void put_identifier(kiln_buffer *out, const char *text) {
  for (; *text; text++) kiln_buffer_u8(out, (uint8_t)(isalnum((unsigned char)*text) ? *text : '_'));
}

// A bundle may have any bytes in a name: they stay inside the string literal.
void header_put_literal(kiln_buffer *out, const char *text) {
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c < 0x20 || c > 0x7e || strchr("\"\\?", c)) kiln_buffer_format(out, "\\%03o", c);
    else kiln_buffer_u8(out, c);
  }
}

void header_put_comment(kiln_buffer *out, const char *text) {
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    kiln_buffer_u8(out, c < 0x20 || c == 0x7f || strchr("\\?", c) ? '.' : c); // '?': trigraphs
  }
}

static void put_param_text(kiln_buffer *out, const kiln_param_record *p) {
  static const char *const stars[] = {"", "*", "**"};
  header_put_literal(out, p->name);
  kiln_buffer_format(out, ": %s%s", p->view_rank ? "view " : stars[p->pointer],
                     kiln_scalars[p->scalar].spelling);
}

void header_put_params(kiln_buffer *out, const kiln_interface *in) {
  for (uint32_t i = 0; i < in->param_count; i++) {
    if (i) kiln_buffer_format(out, ", ");
    put_param_text(out, &in->params[i]);
  }
}

static void put_field(kiln_buffer *out, const kiln_param_record *p) {
  if (p->view_rank) {
    kiln_buffer_format(out, "  struct { uint64_t base; int64_t extents[%u], strides[%u]; } ", p->view_rank,
                       p->view_rank);
  } else {
    kiln_buffer_format(out, "  %s ", p->pointer ? "uint64_t" : c_types[p->scalar]);
  }
  put_identifier(out, p->name);
  kiln_buffer_format(out, "_;\n");
}

// Parameters of the function: pointers as void *, so that device memory of any framework fits; views as base,
// extents, strides.
static void put_argument(kiln_buffer *out, const kiln_param_record *p) {
  const char *constant = p->access == 1 ? "const " : "";
  kiln_buffer_format(out, ", ");
  if (p->view_rank || p->pointer) kiln_buffer_format(out, "%svoid *", constant);
  else kiln_buffer_format(out, "%s ", c_types[p->scalar]);
  put_identifier(out, p->name);
  kiln_buffer_format(out, "_");
  if (!p->view_rank) return;
  kiln_buffer_format(out, ", const int64_t ");
  put_identifier(out, p->name);
  kiln_buffer_format(out, "_extents[%u], const int64_t ", p->view_rank);
  put_identifier(out, p->name);
  kiln_buffer_format(out, "_strides[%u]", p->view_rank);
}

static void put_assignment(kiln_buffer *out, const kiln_param_record *p) {
  kiln_buffer name = {0};
  put_identifier(&name, p->name);
  kiln_buffer_u8(&name, 0);
  const char *n = name.failed ? "" : (const char *)name.bytes;
  if (p->view_rank) {
    kiln_buffer_format(out, "  packed.args.%s_.base = (uint64_t)(uintptr_t)%s_;\n", n, n);
    kiln_buffer_format(out,
                       "  for (unsigned i = 0; i < %u; i++) packed.args.%s_.extents[i] = %s_extents[i], "
                       "packed.args.%s_.strides[i] = %s_strides[i];\n",
                       p->view_rank, n, n, n, n);
  } else {
    kiln_buffer_format(
        out, p->pointer ? "  packed.args.%s_ = (uint64_t)(uintptr_t)%s_;\n" : "  packed.args.%s_ = %s_;\n", n,
        n);
  }
  kiln_buffer_deinit(&name);
}

void header_put_view_checks(kiln_buffer *out, const kiln_interface *in) {
  for (uint32_t i = 0; i < in->param_count; i++) {
    if (!in->params[i].view_rank) continue;
    kiln_buffer name = {0};
    put_identifier(&name, in->params[i].name);
    kiln_buffer_u8(&name, 0);
    const char *n = name.failed ? "" : (const char *)name.bytes;
    kiln_buffer_format(
        out,
        "  if (!%s_extents || !%s_strides) return refuse(err, \"%s: its extents or strides are NULL\");\n", n,
        n, n);
    kiln_buffer_deinit(&name);
  }
}

void header_put_arguments(kiln_buffer *out, const kiln_interface *in) {
  for (uint32_t i = 0; i < in->param_count; i++) put_argument(out, &in->params[i]);
}

void header_put_block(kiln_buffer *out, const kiln_interface *in, const char *name) {
  kiln_buffer_format(out, "typedef struct %s_args {\n", name);
  for (uint32_t i = 0; i < in->param_count; i++) put_field(out, &in->params[i]);
  if (!in->param_count) kiln_buffer_format(out, "  uint64_t none_;\n");
  kiln_buffer_format(out, "} %s_args;\n", name);
  if (in->param_count) {
    const kiln_param_record *last = &in->params[in->param_count - 1];
    kiln_buffer_format(out, "KILN_HEADER_CHECK(%s_args, ", name);
    put_identifier(out, last->name);
    kiln_buffer_format(out, "_, %u, %u)\n", last->offset, in->block_bytes);
  }
}

void header_put_packing(kiln_buffer *out, const kiln_interface *in, const char *name) {
  kiln_buffer_format(out,
                     "  union { %s_args args; uint8_t block[%u]; } packed;\n"
                     "  memset(&packed, 0, sizeof packed);\n",
                     name, in->block_bytes ? in->block_bytes : 8);
  for (uint32_t i = 0; i < in->param_count; i++) put_assignment(out, &in->params[i]);
}

static void put_kernel(kiln_buffer *out, const view_kernel *k, const char *name) {
  const kiln_interface *in = &k->interface;
  kiln_buffer_format(out, "\n// ");
  header_put_comment(out, in->name);
  kiln_buffer_format(out, "\n");
  header_put_block(out, in, name);
  kiln_buffer_format(
      out, "static inline kiln_status %s_get(kiln_device *device, kiln_kernel **out, kiln_error *err) {\n",
      name);
  kiln_buffer_format(out, "  static const kiln_signature signature = {UINT64_C(0x%016llx), \"",
                     (unsigned long long)kiln_interface_abi(in));
  header_put_params(out, in);
  kiln_buffer_format(out, "\"};\n  return kiln_kernel_get(device, \"");
  header_put_literal(out, in->name);
  kiln_buffer_format(out, "\", &signature, out, err);\n}\n");
  kiln_buffer_format(out, "static inline kiln_status %s(kiln_kernel *kernel, kiln_stream stream", name);
  header_put_arguments(out, in);
  kiln_buffer_format(out, ", kiln_error *err) {\n");
  header_put_packing(out, in, name);
  kiln_buffer_format(out, "  return kiln_launch_packed(kernel, stream, &packed, %u, err);\n}\n",
                     in->block_bytes);
}

// ------------------------------------------------------------------------------------------- names

void header_keep_text(void *text) { (void)text; } // the arena's

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

// A kernel `add_get` next to a kernel `add` would define the same function.
static bool is_taken(void *const *taken, const char *name, kiln_arena *arena) {
  static const char *const suffixes[] = {"", "_get", "_args"};
  for (unsigned i = 0; i < 3; i++)
    if (tfind(kiln_arena_format(arena, "%s%s", name, suffixes[i]), taken, by_text)) return true;
  return false;
}

void header_reserve(void **taken, const char *name, kiln_arena *arena) {
  tsearch(name, taken, by_text);
  tsearch(kiln_arena_format(arena, "%s_get", name), taken, by_text);
  tsearch(kiln_arena_format(arena, "%s_args", name), taken, by_text);
}

// The prefix and the kernel's own part of its symbol, with a number if that name is taken.
const char *header_function_name(void **taken, const view_kernel *k, const char *prefix, kiln_arena *arena) {
  const char *symbol = k->interface.symbol;
  kiln_buffer own = {0};
  put_identifier(&own, strncmp(symbol, "kiln_", 5) ? symbol : symbol + 5);
  kiln_buffer_u8(&own, 0);
  const char *base = own.failed ? "" : (const char *)own.bytes;
  const char *name = kiln_arena_format(arena, "%s%s", prefix, base);
  for (unsigned n = 2; is_taken(taken, name, arena); n++)
    name = kiln_arena_format(arena, "%s%s_%u", prefix, base, n);
  header_reserve(taken, name, arena);
  kiln_buffer_deinit(&own);
  return name;
}

bool header_is_prefix(const char *text) {
  for (const char *c = text; *c; c++)
    if (!isalnum((unsigned char)*c) && *c != '_') return false;
  return isalpha((unsigned char)*text) && strncmp(text, "kiln_", 5);
}

// "app_" for path/to/app.kbundle, so that headers of two bundles can be included together.
const char *header_default_prefix(const char *path, kiln_arena *arena) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  char *prefix = (char *)kiln_arena_format(arena, "%.*s_", (int)strcspn(name, "."), name);
  for (char *c = prefix; *c; c++)
    if (!isalnum((unsigned char)*c)) *c = '_';
  return header_is_prefix(prefix) ? prefix : kiln_arena_format(arena, "bundle_%s", prefix);
}

static void put_header(kiln_buffer *out, const bundle_view *v, const char *prefix) {
  void *taken = NULL;
  kiln_buffer_format(out, "// Made by `kiln header`. One function a kernel: NAME_get looks it up and "
                          "compares the parameter lists, NAME launches it.\n"
                          "#pragma once\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n\n"
                          "#if __has_include(<kiln/kiln.h>)\n#include <kiln/kiln.h>\n#else\n#include "
                          "\"runtime/kiln.h\"\n#endif\n\n" HEADER_CHECK);
  for (uint32_t i = 0; i < v->kernel_count; i++)
    put_kernel(out, &v->kernels[i], header_function_name(&taken, &v->kernels[i], prefix, v->arena));
  kiln_buffer_format(out, "\n#undef KILN_HEADER_CHECK\n#undef KILN_HEADER_ASSERT\n");
  tdestroy(taken, header_keep_text);
}

int kiln_command_header(int argc, char **argv) {
  const char *path = "-", *prefix = NULL;
  const cli_option options[] = {{"out", 'o', CLI_OUTPUT, &path, "FILE", "the header (standard output)"},
                                {"prefix", 0, CLI_TEXT, &prefix, "TEXT",
                                 "prefix of names (default: the bundle's, app_ for app.kbundle)"}};
  const cli_page page =
      CLI_PAGE("kiln header [-o FILE] [--prefix=TEXT] BUNDLE",
               "Writes a typed C header, usable from C++, for the kernels of a bundle.", options);
  cli_list words = {0};
  bundle_view v;
  kiln_error err;
  kiln_buffer out = {0};
  int exit_code = cli_parse_one(&page, argc, argv, "bundle", &words);
  if (exit_code == -1 && prefix && !header_is_prefix(prefix))
    exit_code =
        cli_usage(&page,
                  "--prefix: expected letters, digits and '_', a letter first, not kiln_ (that is the "
                  "library's), found '%s'",
                  prefix);
  if (exit_code == -1) {
    kiln_status status = bundle_view_open(words.items[0], &v, &err);
    if (status == KILN_OK) {
      put_header(&out, &v, prefix ? prefix : header_default_prefix(words.items[0], v.arena));
      status = out.failed ? kiln_fail(&err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted")
                          : cli_write_made(path, words.items[0], out.bytes, out.size, &err);
      bundle_view_close(&v);
    }
    exit_code = status == KILN_OK ? CLI_OK : cli_report(status, &err);
  }
  kiln_buffer_deinit(&out);
  cli_list_deinit(&words);
  return exit_code;
}
