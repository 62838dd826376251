// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes and reads the notes about launches in place of a kernel.
#include "base/launches.h"

#include <stdlib.h>
#include <string.h>

#include "base/expr.h"

static const char let_word[] = "let ", scratch_word[] = "scratch ";

static void put_code(kiln_buffer *out, kiln_span code) { kiln_expr_to_hex(code.bytes, code.size, out); }

void kiln_launches_encode(const kiln_interface *in, kiln_buffer *out) {
  for (uint32_t i = 0; i < in->value_count; i++) {
    kiln_buffer_format(out, "%s", let_word);
    put_code(out, in->values[i].value);
    if (in->values[i].condition.size) kiln_buffer_u8(out, ' ');
    put_code(out, in->values[i].condition);
    kiln_buffer_u8(out, '\n');
  }
  kiln_buffer_format(out, "%s", scratch_word);
  put_code(out, in->scratch);
  for (uint32_t i = 0; i < in->launch_count; i++) {
    const kiln_launch_record *l = &in->launches[i];
    kiln_buffer_format(out, "\n%s ", l->kernel);
    put_code(out, l->condition);
    for (uint32_t j = 0; j < l->arg_count; j++) {
      kiln_buffer_format(out, l->args[j].value.size ? " " : " =%u", l->args[j].param);
      put_code(out, l->args[j].value);
    }
  }
}

// ------------------------------------------------------------------------------------------ reading

typedef struct reading {
  kiln_arena *arena;
  const kiln_interface *interface;
  const char *at; ///< within a line
  uint32_t value_count;
  bool is_wrong;
} reading;

/// The next word of the line; "" at its end.
static const char *word(reading *r) {
  size_t length = strcspn(r->at, " \n");
  const char *text = kiln_arena_text(r->arena, r->at, length);
  r->at += length;
  r->at += *r->at == ' ';
  return text ? text : "";
}

/// Whether expressions can read all that the code reads: integers and addresses.
static bool reads_integers(const kiln_interface *in, kiln_span code) {
  kiln_reader r = kiln_reader_of(code.bytes, code.size);
  while (r.left) {
    int64_t at;
    if (kiln_expr_take(&r, &at) != KILN_EXPR_PARAM || at >= in->param_count) continue;
    const kiln_param_record *p = &in->params[at];
    if (!p->pointer && !p->view_rank &&
        !(kiln_scalars[p->scalar].type_class & (KILN_CLASS_INT | KILN_CLASS_BOOL)))
      return false;
  }
  return true;
}

static kiln_span code_of(reading *r, const char *hex) {
  size_t digits = strspn(hex, "0123456789abcdef");
  kiln_span code = {kiln_expr_from_hex(r->arena, hex, digits), digits / 2};
  r->is_wrong |= !code.bytes || hex[digits] || digits % 2 ||
                 !kiln_expr_verify(code.bytes, code.size, r->interface->param_count + 1 + r->value_count) ||
                 !reads_integers(r->interface, code);
  return code;
}

static void read_launch(reading *r, kiln_launch_record *out) {
  out->kernel = word(r);
  out->condition = code_of(r, word(r));
  out->arg_count = *r->at && *r->at != '\n'; // the words that are left
  for (const char *c = r->at; *c && *c != '\n'; c++) out->arg_count += *c == ' ';
  out->args = KILN_NEW_ARRAY(r->arena, kiln_launch_argument, out->arg_count);
  r->is_wrong |= !out->args;
  for (uint32_t i = 0; i < out->arg_count && !r->is_wrong; i++) {
    const char *text = word(r);
    char *end = NULL;
    if (*text != '=') {
      out->args[i].value = code_of(r, text);
      continue;
    }
    unsigned long param = strtoul(text + 1, &end, 10);
    r->is_wrong |= !text[1] || *end || param >= r->interface->param_count;
    out->args[i].param = (uint32_t)param;
  }
}

// Takes the word at the start of a line.
static bool begins_with(reading *r, const char *word) {
  size_t length = strlen(word);
  bool is = !strncmp(r->at, word, length);
  if (is) r->at += length;
  return is;
}

static void read_values(reading *r, kiln_launch_value *values) {
  while (!r->is_wrong && begins_with(r, let_word)) {
    r->is_wrong = r->value_count == KILN_MOST_VALUES;
    kiln_launch_value v = {.value = code_of(r, word(r))};
    if (*r->at && *r->at != '\n') v.condition = code_of(r, word(r));
    r->is_wrong |= *r->at != '\n';
    if (!r->is_wrong) values[r->value_count++] = v, r->at++;
  }
}

bool kiln_launches_decode(kiln_arena *arena, const char *text, kiln_interface *in) {
  reading r = {.arena = arena, .interface = in, .at = text};
  kiln_launch_record *launches = KILN_NEW_ARRAY(arena, kiln_launch_record, KILN_MOST_LAUNCHES);
  kiln_launch_value *values = KILN_NEW_ARRAY(arena, kiln_launch_value, KILN_MOST_VALUES);
  kiln_span scratch = {0};
  uint32_t count = 0;
  if (!launches || !values) return false;
  read_values(&r, values);
  r.is_wrong |= !begins_with(&r, scratch_word);
  if (!r.is_wrong) scratch = code_of(&r, word(&r));
  while (!r.is_wrong && *r.at == '\n') {
    r.at++;
    r.is_wrong |= count == KILN_MOST_LAUNCHES;
    if (!r.is_wrong) read_launch(&r, &launches[count++]);
  }
  if (r.is_wrong || *r.at || kiln_arena_failed(arena)) return false;
  in->scratch = scratch, in->launches = launches, in->launch_count = count;
  in->values = values, in->value_count = r.value_count;
  return true;
}
