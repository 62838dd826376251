// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the option table: each row is spelled, sent over the wire and back, and refused with a message.
#include <string.h>

#include "compiler/options.h"
#include "tests/harness.h"

static kiln_codegen_options fresh(void) {
  kiln_codegen_options o;
  kiln_codegen_options_init(&o);
  return o;
}

static void value_text(const kiln_codegen_options *o, const char *name, char out[64]) {
  kiln_buffer b = {0};
  const kiln_option_info *info = kiln_option_find(name, strlen(name));
  CHECK(info);
  kiln_option_value(o, info, &b);
  CHECK(b.size < 64);
  memcpy(out, b.size ? b.bytes : (const uint8_t *)"", b.size);
  out[b.size] = 0;
  kiln_buffer_deinit(&b);
}

TEST(options, defaults) {
  kiln_codegen_options o = fresh();
  CHECK_INT(o.optimise, 2);
  CHECK_INT(o.assembler, KILN_ASSEMBLER_NONE);
  CHECK_INT(o.output, 0);
  CHECK_INT(o.debug, 0);
  CHECK(o.assembler_path == NULL);
}

TEST(options, set_and_read_back) {
  static const struct {
    const char *text, *name, *value;
  } cases[] = {
      {"optimise=0", "optimise", "0"},
      {"optimise=3", "optimise", "3"},
      {"ptx-assembler=ptxas", "ptx-assembler", "ptxas"},
      {"ptx-assembler=nvjitlink", "ptx-assembler", "nvjitlink"},
      {"emit=asm", "emit", "asm"},
      {"emit=auto", "emit", "auto"},
      {"debug", "debug", "1"},
      {"debug=off", "debug", "0"},
      {"debug=yes", "debug", "1"},
      {"assembler-path=/x/y=z", "assembler-path", "/x/y=z"},
      {"assembler-path=", "assembler-path", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kiln_codegen_options o = fresh();
    kiln_error err = {0};
    char value[64];
    CHECK_OK(kiln_codegen_options_set(&o, cases[i].text, &err), err);
    value_text(&o, cases[i].name, value);
    CHECK_TEXT(value, cases[i].value);
  }
}

TEST(options, choices_are_the_enumerators) {
  kiln_codegen_options o = fresh();
  CHECK(kiln_codegen_options_set(&o, "ptx-assembler=ptxas", NULL) == KILN_OK &&
        o.assembler == KILN_ASSEMBLER_PTXAS);
  CHECK(kiln_codegen_options_set(&o, "ptx-assembler=nvjitlink", NULL) == KILN_OK &&
        o.assembler == KILN_ASSEMBLER_NVJITLINK);
  static const struct {
    const char *text;
    kiln_format format;
  } forms[] = {{"emit=ptx", KILN_FORMAT_PTX},     {"emit=cubin", KILN_FORMAT_CUBIN},
               {"emit=hsaco", KILN_FORMAT_HSACO}, {"emit=host", KILN_FORMAT_HOST},
               {"emit=ir", KILN_FORMAT_IR},       {"emit=llvm", KILN_FORMAT_LLVM},
               {"emit=asm", KILN_FORMAT_ASM}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    CHECK(kiln_codegen_options_set(&o, forms[i].text, NULL) == KILN_OK && o.output == forms[i].format);
}

TEST(options, refusals) {
  static const struct {
    const char *text, *part;
  } cases[] = {
      {"optimise=4", "--optimise: expected a number from 0 to 3, found '4'"},
      {"optimise=", "expected a number from 0 to 3, found ''"},
      {"optimise=11", "found '11'"},
      {"optimise", "found ''"},
      {"emit=elf", "--emit: expected auto,ptx,cubin,hsaco,host,ir,llvm,asm, found 'elf'"},
      {"debug=maybe", "--debug: expected on or off, found 'maybe'"},
      {"fast=1",
       "no option is called 'fast'; expected one of optimise, ptx-assembler, emit, debug, assembler-path"},
      {"", "no option is called ''"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kiln_codegen_options o = fresh();
    kiln_error err = {0};
    CHECK_INT(kiln_codegen_options_set(&o, cases[i].text, &err), KILN_STATUS_INVALID_ARGUMENT);
    if (!strstr(err.text, cases[i].part))
      FAIL("'%s' gave '%s', expected '%s' in it", cases[i].text, err.text, cases[i].part);
  }
}

TEST(options, wire_form_goes_round) {
  kiln_codegen_options o = fresh(), back;
  kiln_error err = {0};
  o.optimise = 3, o.assembler = KILN_ASSEMBLER_PTXAS, o.output = KILN_FORMAT_CUBIN, o.debug = true,
  o.assembler_path = "/opt/ptxas";
  kiln_buffer b = {0};
  kiln_codegen_options_encode(&o, &b);
  CHECK_OK(kiln_codegen_options_decode(b.bytes, b.size, &back, &err), err);
  CHECK(back.optimise == 3 && back.assembler == KILN_ASSEMBLER_PTXAS && back.output == KILN_FORMAT_CUBIN &&
        back.debug);
  CHECK_TEXT(back.assembler_path, "/opt/ptxas");
  kiln_buffer_deinit(&b);
}

// Every prefix and every single changed byte is read or refused, never more.
TEST(options, damaged_wire_forms) {
  kiln_codegen_options o = fresh(), back;
  o.assembler_path = "/opt/ptxas";
  kiln_buffer b = {0};
  kiln_codegen_options_encode(&o, &b);
  for (size_t i = 0; i < b.size; i++) {
    kiln_error err = {0};
    CHECK_INT(kiln_codegen_options_decode(b.bytes, i, &back, &err), KILN_STATUS_CORRUPT);
    CHECK(err.text[0] && back.assembler_path == NULL);
  }
  for (size_t i = 0; i < b.size; i++)
    for (unsigned v = 0; v < 256; v++) {
      uint8_t kept = b.bytes[i];
      b.bytes[i] = (uint8_t)v;
      kiln_status status = kiln_codegen_options_decode(b.bytes, b.size, &back, NULL);
      CHECK(status == KILN_OK || status == KILN_STATUS_CORRUPT);
      if (status == KILN_OK && back.assembler_path) CHECK(strlen(back.assembler_path) < b.size);
      b.bytes[i] = kept;
    }
  kiln_buffer_deinit(&b);
}

/// What does not decide bytes: everything else is in the key.
static bool is_neutral(const char *name) {
  static const char *const neutral[] = {"assembler-path", "verify-passes", "print-after"};
  for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++)
    if (!strcmp(name, neutral[i])) return true;
  return false;
}

TEST(options, what_is_in_the_key) {
  for (size_t i = 0; i < kiln_option_count(); i++) {
    const kiln_option_info *o = kiln_option_at(i);
    CHECK_INT(o->in_key, !is_neutral(o->name));
    CHECK(o->help[0] != 0);
  }
}
