// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln embed: writes an assembler file that puts a bundle into a program, for kiln_open_memory.
#include <ctype.h>

#include "base/digest.h"
#include "tools/bundle/view.h"
#include "tools/kiln-tool/commands.h"

static bool is_symbol(const char *text) {
  if (!isalpha((unsigned char)*text) && *text != '_') return false;
  for (; *text; text++)
    if (!isalnum((unsigned char)*text) && *text != '_') return false;
  return true;
}

// The assembler's strings: quotes and backslashes are escaped, bytes outside of ASCII and control characters
// are octal.
static void put_path(kiln_buffer *out, const char *path) {
  for (; *path; path++) {
    unsigned char c = (unsigned char)*path;
    if (c == '"' || c == '\\') kiln_buffer_format(out, "\\%c", c);
    else if (c < 32 || c > 126) kiln_buffer_format(out, "\\%03o", c);
    else kiln_buffer_u8(out, c);
  }
}

// The digest makes it another file when the bundle is another one: build systems look at what they are told of (Bazel: of
// dependency files), and no dependency file has what the assembler includes.
static void put_source(kiln_buffer *out, const char *path, const kiln_buffer *bundle, const char *symbol) {
  kiln_digest digest = kiln_digest_of(bundle->bytes, bundle->size);
  char hex[KILN_DIGEST_HEX + 1];
  kiln_digest_hex(&digest, hex);
  kiln_buffer_format(out,
                     "# Made by `kiln embed`: extern const unsigned char %s[], %s_end[];\n# %s\n\t.section "
                     ".rodata.%s,\"a\",%%progbits\n\t.balign 64\n",
                     symbol, symbol, hex, symbol);
  kiln_buffer_format(
      out,
      "\t.globl %s\n\t.globl %s_end\n\t.hidden %s\n\t.hidden %s_end\n\t.type %s,%%object\n%s:\n\t.incbin \"",
      symbol, symbol, symbol, symbol, symbol, symbol);
  put_path(out, path);
  kiln_buffer_format(
      out, "\"\n%s_end:\n\t.size %s, . - %s\n\t.byte 0\n\t.section .note.GNU-stack,\"\",%%progbits\n", symbol,
      symbol, symbol);
}

static int embed(const char *bundle, const char *path, const char *symbol) {
  bundle_view v;
  kiln_error err = {0};
  kiln_buffer out = {0}, file = {0};
  kiln_status status = bundle_view_open(bundle, &v, &err);
  if (status == KILN_OK) {
    status = kiln_bundle_check_all(v.bundle, &err);
    bundle_view_close(&v);
  }
  if (status == KILN_OK) {
    status = cli_read_file(bundle, "", (size_t)1 << 40, &file, &err);
  }
  if (status == KILN_OK) {
    put_source(&out, bundle, &file, symbol);
    status = out.failed ? kiln_fail(&err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted")
                        : cli_write_made(path, bundle, out.bytes, out.size, &err);
  }
  kiln_buffer_deinit(&out);
  kiln_buffer_deinit(&file);
  return status == KILN_OK ? CLI_OK : cli_report(status, &err);
}

int kiln_command_embed(int argc, char **argv) {
  const char *path = "-", *symbol = "kiln_bundle";
  const cli_option options[] = {
      {"out", 'o', CLI_OUTPUT, &path, "FILE", "the assembler file (standard output)"},
      {"symbol", 0, CLI_TEXT, &symbol, "NAME", "symbol of the bytes; NAME_end follows them (kiln_bundle)"}};
  const cli_page page = CLI_PAGE("kiln embed [-o FILE.S] [--symbol NAME] BUNDLE",
                                 "Writes an assembler file that includes a bundle by the path given, for "
                                 "kiln_open_memory(NAME, NAME_end - NAME, ...).",
                                 options);
  cli_list words = {0};
  int code = cli_parse_one(&page, argc, argv, "bundle", &words);
  if (code == -1 && !is_symbol(symbol))
    code = cli_usage(&page, "expected a C name as symbol, found '%s'", symbol);
  if (code == -1) code = embed(words.items[0], path, symbol);
  cli_list_deinit(&words);
  return code;
}
