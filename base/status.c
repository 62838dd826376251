// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Formats errors and names status codes.
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/control_characters.h"
#include "base/texts.h"

static const uint8_t numbers[] = {
#define STATUS(name, number, text, advice) number,
#include "base/status.def"
#undef STATUS
};
// Of each row name, text and advice.
enum { NAME, TEXT, ADVICE, COLUMNS };
static const char texts[] =
#define STATUS(name, number, text, advice) #name "\0" text "\0" advice "\0"
#include "base/status.def"
#undef STATUS
    "UNKNOWN\0a status this release does not know\0";

static const char *text_of(kiln_status status, unsigned column) {
  unsigned row = 0;
  while (row < sizeof numbers && numbers[row] != (unsigned)status) row++;
  return kiln_text_at(texts, row * COLUMNS + column);
}

// What a message quotes may come from a file or a server: it must not drive the terminal that shows it.
static void show_controls(kiln_error *err) {
  char raw[KILN_ERROR_TEXT];
  if (kiln_is_plain(err->text)) return;
  memcpy(raw, err->text, sizeof raw);
  kiln_show_controls(raw, false, err->text, sizeof err->text);
}

static void set(kiln_error *err, kiln_status status, uint32_t operation, const char *format, va_list args) {
  if (!err) return;
  err->status = status;
  err->operation = operation;
  vsnprintf(err->text, sizeof err->text, format, args);
  show_controls(err);
}

kiln_status kiln_fail(kiln_error *err, kiln_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  set(err, status, 0, format, args);
  va_end(args);
  return status;
}

kiln_status kiln_fail_at(kiln_error *err, kiln_status status, uint32_t number, const char *format, ...) {
  va_list args;
  va_start(args, format);
  set(err, status, number + 1, format, args);
  va_end(args);
  return status;
}

kiln_status kiln_context(kiln_error *err, kiln_status status, const char *format, ...) {
  if (err) {
    char old[KILN_ERROR_TEXT];
    va_list args;
    memcpy(old, err->text, sizeof old);
    va_start(args, format);
    int used = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    if (used >= 0 && (size_t)used < sizeof err->text)
      snprintf(err->text + used, sizeof err->text - (size_t)used, ": %.*s", KILN_ERROR_TEXT - used, old);
    err->status = status;
    show_controls(err);
  }
  return status;
}

kiln_status kiln_status_of_errno(int error_number) {
  switch (error_number) {
  case 0: return KILN_OK;
  case ENOMEM: return KILN_STATUS_OUT_OF_MEMORY;
  case ENOENT:
  case ENOTDIR: return KILN_STATUS_NOT_FOUND;
  case EEXIST: return KILN_STATUS_EXISTS;
  case ENOSPC:
  case EDQUOT:
  case EFBIG: return KILN_STATUS_NO_SPACE;
  case EACCES:
  case EPERM:
  case EROFS: return KILN_STATUS_DENIED;
  case ETIMEDOUT: return KILN_STATUS_TIMEOUT;
  case EINVAL: return KILN_STATUS_INVALID_ARGUMENT;
  default: return KILN_STATUS_IO;
  }
}

const char *kiln_status_name(kiln_status status) { return text_of(status, NAME); }
const char *kiln_status_text(kiln_status status) { return text_of(status, TEXT); }
const char *kiln_status_advice(kiln_status status) { return text_of(status, ADVICE); }
