// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What all programs of Kiln do in the same way: reading a command line from a table, printing errors, reading
// files, finding the other programs.
#ifndef KILN_TOOLS_COMMON_CLI_H
#define KILN_TOOLS_COMMON_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/output.h"
#include "base/status.h"

/// Exit codes of all programs.
enum {
  CLI_OK = 0,
  CLI_FAILED = 1,   ///< the work failed: diagnostics, a kernel that does not compile, results that differ
  CLI_USAGE = 2,    ///< the command line is wrong
  CLI_INTERNAL = 3, ///< Kiln is at fault
};

/// NUMBER: 0 or more; COUNT: 1 or more; MAYBE: a text that may be left out with its '=', "" then; TIMES: a
/// flag that is counted, into an unsigned; OUTPUT: a text, the name of a file that the command writes; INPUT: a text, and
/// INPUTS: a list, the names of files that the command reads, which no OUTPUT replaces.
typedef enum cli_kind {
  CLI_FLAG,
  CLI_TIMES,
  CLI_TEXT,
  CLI_NUMBER,
  CLI_COUNT,
  CLI_LIST,
  CLI_MAYBE,
  CLI_OUTPUT,
  CLI_INPUT,
  CLI_INPUTS
} cli_kind;

/// Texts of an option that may be given several times. Borrowed from the command line.
typedef struct cli_list {
  const char **items; ///< owned
  size_t count, capacity;
} cli_list;

/// One option. `to` is a bool, const char *, int64_t (of both numbers) or cli_list by kind.
typedef struct cli_option {
  const char *name; ///< without the dashes
  char letter;      ///< 0: none
  cli_kind kind;
  void *to;
  const char *value, *help;
  int64_t most; ///< of numbers; 0: any of 63 bits
} cli_option;

/// The most threads that --jobs takes.
enum { CLI_MOST_JOBS = 1024 };

/// Copies an address from the command line and overwrites its user and password there, since everybody can
/// see the arguments of a process. NULL stays NULL. One address per program.
const char *cli_keep_address(const char *argument);

/// A subcommand's page: what --help prints, and what its options are.
typedef struct cli_page {
  const char *usage;   ///< "kiln build [options] SOURCE..."
  const char *summary; ///< one or more lines
  const cli_option *options;
  size_t option_count;
  const char *more; ///< printed after the options; may be NULL
  /// Takes options that the table lacks ("name=value" or "name"); returns false for an unknown one. May be
  /// NULL.
  bool (*other)(void *context, const char *text, kiln_error *err);
  void *context;
  /// The options that `other` takes, by index, NULL past the last; whether a value has to follow. May be
  /// NULL.
  const char *(*other_name)(size_t index, bool *out_needs_value);
  const char *(*other_help)(void); ///< makes their help text; may be NULL
  /// Of one of them: its help, and in `out_choices` the words that it may have, parted by commas, "" for any.
  /// May be NULL.
  const char *(*other_row)(size_t index, const char **out_choices);
} cli_page;

/// A page whose options are the array `table` and nothing else.
#define CLI_PAGE(text, lines, table) \
  { .usage = text, .summary = lines, .options = table, .option_count = sizeof table / sizeof *table }

/// Reads argv[1..]. --help prints the page; --list-options prints a line for each option, for `kiln completion`:
/// "option", name, letter or "-", of "v" (takes a value), "?" (which may lack) and "*" (may be repeated) those
/// that apply, value, help, parted by tabs. --color is in no table (cli_color). `@file` stands for the words in
/// that file. Positional words go to `words`. Returns -1 to go on, else the exit code (help was printed, or an
/// error).
int cli_parse(const cli_page *page, int argc, char **argv, cli_list *words);
/// The same for exactly one positional word; `what` names it in messages.
int cli_parse_one(const cli_page *page, int argc, char **argv, const char *what, cli_list *words);
/// Says that `path`, the value of `name` ("--save"), gets bytes that the command makes. Where that is standard output,
/// whatever else the command prints goes to standard error from now on, and a second output there, or JSON, is a wrong
/// command line. cli_parse calls it for options of the kind OUTPUT, with their defaults. NULL is no output. Returns -1 to
/// go on, else the exit code.
int cli_take_output(const cli_page *page, const char *name, const char *path);
void cli_list_add(cli_list *list, const char *text);
void cli_list_deinit(cli_list *list);

/// Says when messages on standard error are coloured. `setting`: "auto", "always", "never", or NULL for auto; auto
/// means on a terminal, unless `no_color` is a text or `term` is "dumb". False, and nothing changes, for another
/// setting. --color=WHEN, which every command takes, overrides it.
bool cli_color(const char *setting, const char *no_color, const char *term);

/// Where a source is wrong, and why.
typedef struct cli_place {
  const char *file;      ///< borrowed
  unsigned line, column; ///< from 1; line 0: no place
  char message[300];
} cli_place;

/// Whether cli_report and cli_usage also print {"error": {...}} to standard output: cli_parse turns it on when --json
/// was given, so that a program that reads JSON gets some. A command whose own JSON has the error turns it off.
void cli_json_on_failure(bool on);
/// The place that later errors of sources are about, unless one was said before.
void cli_json_place(const cli_place *place);
/// Appends `, "error": {"code": "KILN-E0012", "message": "...", "file": "...", "line": 3, "column": 7}`. The place and
/// its message are `place`, or those that the text begins with, or with NULL for `place` those of cli_json_place; an
/// error that has none has only code and message.
void cli_json_error(kiln_buffer *out, const kiln_error *err, const cli_place *place);
/// "kiln: error: TEXT [KILN-E0012]" and the advice, on stderr. Returns CLI_FAILED, or CLI_INTERNAL for
/// INTERNAL.
int cli_report(kiln_status status, const kiln_error *err);
/// The same where the command line alone is wrong. Returns CLI_USAGE.
int cli_misuse(kiln_status status, const kiln_error *err);
/// "kiln: error: ..." for a wrong command line. Returns CLI_USAGE.
int cli_usage(const cli_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
/// Reads the value of option `name`, a number of 64 bits without a sign. -1, or what cli_usage returns.
int cli_u64(const cli_page *page, const char *name, const char *value, uint64_t *out);

/// The whole file (path "-": standard input) into `out`, ended by a NUL that size does not count. LIMIT above
/// `most` bytes, and above 1 GiB of what has no size: pipes, devices, files of /proc. A FIFO without a writer
/// is waited for 10 s, then IO.
///
/// With a `magic` that is not "": up to `most` bytes also of what has no size, if it begins with `magic`. Of
/// anything else only the first piece is read, which the reader of the format refuses.
kiln_status cli_read_file(const char *path, const char *magic, size_t most, kiln_buffer *out,
                          kiln_error *err);
/// Opens what is read piece by piece; a FIFO without a writer is waited for as above, and reads as empty
/// then. The caller closes `out_fd`, which is -1 on failure and 0 for "-".
kiln_status cli_open_input(const char *path, int *out_fd, kiln_error *err);
/// No output replaces the file at `path`, which a variable names and this command reads. At most four; borrowed.
void cli_keep(const char *path);
/// Writes through a temporary file in the same folder and a rename; leaves an identical file alone ("-":
/// standard output).
kiln_status cli_write_file(const char *path, const void *bytes, size_t size, kiln_error *err);
/// Opens what is written piece by piece in the same way; kiln_output_close ends it.
kiln_status cli_open_output(const char *path, kiln_output *out, kiln_error *err);
/// cli_write_file of what was made from the file `input`, which it does not replace (INVALID_ARGUMENT).
kiln_status cli_write_made(const char *path, const char *input, const void *bytes, size_t size,
                           kiln_error *err);

/// The path of another program: next to this one, then in ../libexec/kiln. `out` gets a path even if nothing
/// is there. Unless `out_fd` is NULL it is opened for reading instead of asked whether it can be executed,
/// which takes one system call fewer than both; -1 when it is in neither place.
bool cli_find_program(const char *name, char *out, size_t capacity, int *out_fd);
/// The same of a program that is to be run. NOT_FOUND says where it was looked for, DENIED which file cannot be
/// executed.
kiln_status cli_need_program(const char *name, char *out, size_t capacity, kiln_error *err);

/// A name from a file, fit for a terminal: control characters and line ends are shown as \x1b. Returns `name`
/// itself if it has none, otherwise a text that is valid for the next seven calls. Not thread safe.
const char *cli_name(const char *name);

/// The size in bytes of the UTF-8 character at `s`, and its code point; 0 if it is invalid. `s` ends in a
/// NUL.
unsigned cli_utf8(const char *s, uint32_t *out_code);
/// Appends `text` as a JSON string with quotes; what is not UTF-8 becomes U+FFFD.
void cli_json_text(kiln_buffer *out, const char *text);

/// The number of processors that this process may run on, 1 to 256.
unsigned cli_processors(void);

uint64_t cli_now_ns(void);

#endif
