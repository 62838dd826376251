// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lines of assembly as their assembler shows them, with registers in place of $0, against the texts of `asm`.
#include "compiler/codegen/blame.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
  const char *at, *end;
} text;

static text trimmed(text t) {
  while (t.at < t.end && isspace((unsigned char)*t.at)) t.at++;
  while (t.end > t.at && isspace((unsigned char)t.end[-1])) t.end--;
  return t;
}

/// The length of an operand ($0, ${0:h}) at the start of `pattern`; 0: there is none.
static size_t operand_length(text pattern) {
  const char *p = pattern.at;
  if (pattern.end - p < 2 || *p != '$') return 0;
  if (isdigit((unsigned char)p[1])) {
    for (p++; p < pattern.end && isdigit((unsigned char)*p);) p++;
    return (size_t)(p - pattern.at);
  }
  const char *close = p[1] == '{' ? memchr(p, '}', (size_t)(pattern.end - p)) : NULL;
  return close ? (size_t)(close + 1 - p) : 0;
}

/// Whether `line` is `pattern` with a register or a number for each operand, which holds neither a comma nor
/// a space. After an operand the shortest text that goes on fitting is taken, again and again, as for file
/// names with stars.
static bool fits(text pattern, text line) {
  const char *retry_pattern = NULL, *retry_line = NULL;
  while (line.at < line.end) {
    size_t operand = operand_length(pattern);
    if (operand) {
      pattern.at += operand;
      retry_pattern = pattern.at, retry_line = line.at;
      continue;
    }
    if (pattern.end - pattern.at >= 2 && pattern.at[0] == '$' && pattern.at[1] == '$') pattern.at++;
    if (pattern.at < pattern.end && *pattern.at == *line.at) {
      pattern.at++, line.at++;
      continue;
    }
    if (!retry_line || *retry_line == ',' || isspace((unsigned char)*retry_line)) return false;
    pattern.at = retry_pattern, line.at = ++retry_line;
  }
  while (operand_length(pattern)) pattern.at += operand_length(pattern);
  return pattern.at == pattern.end;
}

typedef struct search {
  text line;          // no text at all: any
  const ir_op *found; // the first
} search;

static void visit(ir_op *op, void *context) {
  search *s = context;
  if (op->code != IR_ASM || s->found || !op->attrs.assembly.text) return;
  if (!s->line.at) s->found = op;
  for (const char *at = op->attrs.assembly.text; *at && !s->found;) {
    text pattern = {at, at + strcspn(at, "\n")};
    at = *pattern.end ? pattern.end + 1 : pattern.end;
    pattern = trimmed(pattern);
    if (pattern.at < pattern.end && fits(pattern, s->line)) s->found = op;
  }
}

static const ir_op *find(ir_kernel *kernel, text line) {
  search s = {.line = trimmed(line)};
  ir_walk(kernel->body, visit, &s);
  return s.found;
}

/// "<inline asm>:1:2: what; the line; a caret": lines of LLVM's are joined by semicolons, and a line may have
/// its own.
static const ir_op *find_quoted(ir_kernel *kernel, const char *message) {
  const char *line = strchr(message, ';');
  if (!line) return NULL;
  line++;
  for (const char *end = line + strlen(line); end > line; end--) {
    if (*end && *end != ';') continue;
    const ir_op *op = find(kernel, (text){line, end});
    if (op) return op;
  }
  return NULL;
}

/// "..., line 27; ...": the first of the numbered lines that is an `asm` of the kernel's.
static const ir_op *find_numbered(ir_kernel *kernel, const char *emitted, size_t size, const char *message,
                                  bool *has_line) {
  static const char mark[] = ", line ";
  for (const char *at = message; (at = strstr(at, mark));) {
    at += sizeof mark - 1;
    text line = {emitted, emitted + size};
    for (unsigned long n = strtoul(at, NULL, 10); n > 1 && line.at < line.end; n--) {
      const char *next = memchr(line.at, '\n', (size_t)(line.end - line.at));
      line.at = next ? next + 1 : line.end;
    }
    const char *end = memchr(line.at, '\n', (size_t)(line.end - line.at));
    if (end) line.end = end;
    *has_line = true;
    const ir_op *op = trimmed(line).at < trimmed(line).end ? find(kernel, line) : NULL;
    if (op) return op;
  }
  return NULL;
}

kiln_status kiln_blame_assembly(ir_kernel *kernel, const char *emitted, size_t size, kiln_status status,
                                kiln_error *err) {
  if (status != KILN_STATUS_INTERNAL || err->operation) return status;
  const char *inline_assembly = strstr(err->text, "<inline asm>:");
  bool has_line = inline_assembly != NULL;
  const ir_op *op = inline_assembly ? find_quoted(kernel, inline_assembly) : NULL;
  if (emitted && !op) op = find_numbered(kernel, emitted, size, err->text, &has_line);
  if (!op && has_line) op = find(kernel, (text){0});
  if (!op) return status;
  kiln_context(err, KILN_STATUS_SOURCE, "operation %u (asm)", ir_operation(op));
  err->operation = ir_operation(op) + 1;
  return KILN_STATUS_SOURCE;
}
