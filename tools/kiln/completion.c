// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `kiln completion SHELL`: asks every command for its table of options (--list-options, tools/common/cli.h) and
// writes them as a script of bash, zsh or fish.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/stream.h"
#include "targets/targets.h"
#include "tools/common/cli.h"
#include "tools/kiln/commands.h"
#include "tools/kiln/help.h"

extern char **environ;

/// One line of --list-options: a word that may follow the command, or an option of it.
typedef struct row {
  const char *command; ///< "build", "cache stats"; borrowed
  bool is_word;
  bool takes_value, may_lack_it, repeats;
  char letter; ///< 0: none
  const char *name, *value, *help;
} row;

/// What a command printed, of which its rows are parts.
typedef struct answer {
  struct answer *next; ///< owned
  kiln_buffer text;
  char command[64];
} answer;

typedef struct rows {
  row *items; ///< owned
  size_t count, capacity;
  answer *answers; ///< owned
} rows;

static void deinit_rows(rows *all) {
  while (all->answers) {
    answer *first = all->answers;
    all->answers = first->next;
    kiln_buffer_deinit(&first->text);
    free(first);
  }
  free(all->items);
}

/// What can be proposed as the value of an option, by the word that its help has for it.
typedef enum value_kind { VALUE_NONE, VALUE_FILE, VALUE_FOLDER, VALUE_TARGETS, VALUE_CHOICE } value_kind;

static value_kind kind_of(const row *r) {
  static const char *const files[] = {"FILE", "KEY", "TABLE", "BUNDLE", "PATH", "FILE.S"};
  if (!strcmp(r->name, "target")) return VALUE_TARGETS;
  if (!strcmp(r->value, "DIR") || !strcmp(r->value, "FOLDER")) return VALUE_FOLDER;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (!strcmp(r->value, files[i])) return VALUE_FILE;
  return strchr(r->value, '|') ? VALUE_CHOICE : VALUE_NONE;
}

/// The output of this program with these words; false when it cannot be started or fails.
static bool ask(const char *program, const char *const words[], kiln_buffer *out) {
  int ends[2], status = 0;
  char piece[4096];
  pid_t child;
  posix_spawn_file_actions_t actions;
  if (pipe2(ends, O_CLOEXEC)) return false;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  int failed = posix_spawn(&child, program, &actions, NULL, (char *const *)(uintptr_t)words, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  for (ssize_t got; !failed && (got = read(ends[0], piece, sizeof piece)) != 0;) {
    if (got < 0 && errno != EINTR) break;
    if (got > 0) kiln_buffer_bytes(out, piece, (size_t)got);
  }
  close(ends[0]);
  while (!failed && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  kiln_buffer_u8(out, 0);
  return !failed && WIFEXITED(status) && WEXITSTATUS(status) == 0 && !out->failed;
}

static row *add_row(rows *all) {
  if (all->count == all->capacity) {
    all->capacity = all->capacity ? all->capacity * 2 : 256;
    all->items = realloc(all->items, all->capacity * sizeof *all->items);
    if (!all->items) abort();
  }
  row *r = &all->items[all->count++];
  *r = (row){.name = "", .value = "", .help = ""};
  return r;
}

/// Reads "word NAME HELP" and "option NAME LETTER HOW VALUE HELP", parted by tabs. Rows are parts of the text.
static void read_rows(const char *command, char *text, rows *all) {
  for (char *line; (line = strsep(&text, "\n"));) {
    char *kind = strsep(&line, "\t");
    if (!line) continue;
    row *r = add_row(all);
    r->command = command;
    r->is_word = !strcmp(kind, "word");
    r->name = strsep(&line, "\t");
    if (!r->is_word) {
      const char *letter = strsep(&line, "\t"), *how = strsep(&line, "\t");
      r->letter = letter && *letter != '-' ? *letter : 0;
      r->takes_value = how && strchr(how, 'v');
      r->may_lack_it = how && strchr(how, '?');
      r->repeats = how && strchr(how, '*');
      r->value = strsep(&line, "\t");
    }
    r->help = line ? line : "";
    if (!r->value) r->value = "";
  }
}

/// All options of a command, and of the words that it has, as `kiln cache` has "stats".
static bool read_command(const char *program, const char *name, const char *word, rows *all) {
  const char *const alone[] = {"kiln", name, "--list-options", NULL};
  const char *const both[] = {"kiln", name, word, "--list-options", NULL};
  answer *a = calloc(1, sizeof *a);
  if (!a) abort();
  a->next = all->answers;
  all->answers = a;
  snprintf(a->command, sizeof a->command, word ? "%s %s" : "%s", name, word);
  if (!ask(program, word ? both : alone, &a->text)) return false;
  size_t first = all->count;
  read_rows(a->command, (char *)a->text.bytes, all);
  for (size_t i = first, end = all->count; i < end && !word; i++)
    if (all->items[i].is_word && !read_command(program, name, all->items[i].name, all)) return false;
  return true;
}

static bool begins_command(const rows *all, size_t i) {
  return i == 0 || strcmp(all->items[i].command, all->items[i - 1].command);
}

/// Appends `text` with a backslash before each of `special`, and a quote in the way of sh.
static void put_quoted(kiln_buffer *out, const char *text, const char *special, const char *quote) {
  for (; *text; text++) {
    if (*text == '\'') kiln_buffer_format(out, "%s", quote);
    else {
      if (strchr(special, *text)) kiln_buffer_u8(out, '\\');
      kiln_buffer_u8(out, (uint8_t)*text);
    }
  }
}

static void put_targets(kiln_buffer *out, char between) {
  for (size_t i = 0; i < kiln_processor_count(); i++) {
    if (i) kiln_buffer_u8(out, (uint8_t)between);
    kiln_buffer_format(out, "%s", kiln_processor_at(i)->name);
  }
}

static void put_choices(kiln_buffer *out, const char *choices) {
  for (; *choices; choices++) kiln_buffer_u8(out, *choices == '|' ? ' ' : (uint8_t)*choices);
}

static const char bash_begin[] =
    "# Completions of kiln for bash, written by `kiln completion bash`.\n"
    "# bash takes --name=value apart at the '='.\n"
    "_kiln() {\n"
    "  local cur=${COMP_WORDS[COMP_CWORD]} option='' words='' commands command i\n"
    "  if [[ $cur == = ]]; then cur='' option=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "  elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then option=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "  elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == -* ]]; then option=${COMP_WORDS[COMP_CWORD - 1]}; fi\n"
    "  COMPREPLY=()\n";

/// Where the value of an option is asked for: by command, then by option.
static void bash_values(const rows *all, kiln_buffer *out) {
  static const char *const replies[] = {
      [VALUE_NONE] = "return",
      [VALUE_FILE] = "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); return",
      [VALUE_FOLDER] = "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"); return",
      [VALUE_TARGETS] =
          "local before=''; [[ $cur == *,* ]] && before=${cur%,*},; mapfile -t COMPREPLY < <(compgen "
          "-P \"$before\" -W \"$targets\" -- \"${cur##*,}\"); return"};
  kiln_buffer_format(out, "  case \"$command:$option\" in\n");
  for (size_t i = 0; i < all->count; i++) {
    const row *r = &all->items[i];
    if (r->is_word || !r->takes_value || r->may_lack_it) continue;
    kiln_buffer_format(out, "  '%s:--%s'", r->command, r->name);
    if (r->letter) kiln_buffer_format(out, " | '%s:-%c'", r->command, r->letter);
    value_kind kind = kind_of(r);
    if (kind != VALUE_CHOICE) kiln_buffer_format(out, ") %s ;;\n", replies[kind]);
    else {
      kiln_buffer_format(out, ") mapfile -t COMPREPLY < <(compgen -W '");
      put_choices(out, r->value);
      kiln_buffer_format(out, "' -- \"$cur\"); return ;;\n");
    }
  }
  kiln_buffer_format(out, "  esac\n");
}

/// The options and words of each command.
static void bash_words(const rows *all, kiln_buffer *out) {
  kiln_buffer_format(out, "  case $command in\n");
  for (size_t i = 0; i < all->count; i++) {
    const row *r = &all->items[i];
    if (begins_command(all, i)) kiln_buffer_format(out, "%s  '%s') words='", i ? "' ;;\n" : "", r->command);
    else kiln_buffer_u8(out, ' ');
    kiln_buffer_format(out, "%s%s%s", r->is_word ? "" : "--", r->name,
                       r->takes_value && !r->may_lack_it ? "=" : "");
  }
  kiln_buffer_format(out, "' ;;\n  esac\n");
}

static void write_bash(const rows *all, kiln_buffer *out) {
  const char *text;
  kiln_buffer_format(out, "%s  commands='help", bash_begin);
  for (size_t i = 0; help_command_at(i, &text); i++)
    kiln_buffer_format(out, " %s", help_command_at(i, &text));
  kiln_buffer_format(out, "'\n  local targets='");
  put_targets(out, ' ');
  kiln_buffer_format(out,
                     "'\n  command=${COMP_WORDS[1]}\n"
                     "  if ((COMP_CWORD == 1)) || [[ $command == help && $COMP_CWORD == 2 ]]; then\n"
                     "    mapfile -t COMPREPLY < <(compgen -W \"$commands\" -- \"$cur\"); return\n  fi\n");
  for (size_t i = 0; i < all->count; i++) // commands with words of their own
    if (all->items[i].is_word && begins_command(all, i))
      kiln_buffer_format(out,
                         "  ((COMP_CWORD > 2)) && [[ $command == '%s' ]] && command=\"$command "
                         "${COMP_WORDS[2]}\"\n",
                         all->items[i].command);
  bash_values(all, out);
  bash_words(all, out);
  kiln_buffer_format(
      out, "  if [[ $cur == -* || ( -n $words && $words != *--* ) ]]; then mapfile -t COMPREPLY < "
           "<(compgen -W \"$words --help\" -- \"$cur\")\n"
           "  else compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); fi\n"
           "  if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi\n"
           "}\ncomplete -F _kiln kiln\n");
}

/// "'(-o --output)'{-o+,--output=}'[help]:FILE:_files'"
static void zsh_option(const row *r, kiln_buffer *out) {
  const char *tail = !r->takes_value ? "" : r->may_lack_it ? "=-" : "=";
  kiln_buffer_format(out, " \\\n      ");
  if (r->repeats) kiln_buffer_format(out, "'*'");
  else if (r->letter) kiln_buffer_format(out, "'(-%c --%s)'", r->letter, r->name);
  if (r->letter)
    kiln_buffer_format(out, "{-%c%s,--%s%s}'[", r->letter, r->takes_value ? "+" : "", r->name, tail);
  else kiln_buffer_format(out, "'--%s%s[", r->name, tail);
  put_quoted(out, r->help, "[]:\\", "'\\''");
  kiln_buffer_u8(out, ']');
  if (r->takes_value) {
    kiln_buffer_format(out, "%s", r->may_lack_it ? "::" : ":");
    put_quoted(out, *r->value ? r->value : "value", "[]:\\", "'\\''");
    kiln_buffer_u8(out, ':');
    switch (kind_of(r)) {
    case VALUE_NONE: kiln_buffer_u8(out, ' '); break;
    case VALUE_FILE: kiln_buffer_format(out, "_files"); break;
    case VALUE_FOLDER: kiln_buffer_format(out, "_files -/"); break;
    case VALUE_TARGETS: kiln_buffer_format(out, "_values -s , target $targets"); break;
    case VALUE_CHOICE:
      kiln_buffer_u8(out, '(');
      put_choices(out, r->value);
      kiln_buffer_u8(out, ')');
    }
  }
  kiln_buffer_u8(out, '\'');
}

static void zsh_words(const rows *all, size_t first, kiln_buffer *out) {
  const char *command = all->items[first].command;
  kiln_buffer_format(out, "\n    if (( CURRENT == 2 )); then\n      words_of=(");
  for (size_t i = first; i < all->count && !strcmp(all->items[i].command, command); i++) {
    kiln_buffer_format(out, "\n        '%s:", all->items[i].name);
    put_quoted(out, all->items[i].help, "\\", "'\\''");
    kiln_buffer_u8(out, '\'');
  }
  kiln_buffer_format(out, ")\n      _describe word words_of; return\n    fi");
}

static void write_zsh(const rows *all, kiln_buffer *out) {
  const char *text, *name;
  kiln_buffer_format(
      out, "#compdef kiln\n# Completions of kiln for zsh, written by `kiln completion zsh`.\n_kiln() {\n"
           "  local -a commands words_of targets\n  local command=$words[2]\n  targets=(");
  put_targets(out, ' ');
  kiln_buffer_format(out, ")\n  commands=(\n    'help:describe a command'");
  for (size_t i = 0; (name = help_command_at(i, &text)); i++) {
    kiln_buffer_format(out, "\n    '%s:", name);
    put_quoted(out, text, "\\", "'\\''");
    kiln_buffer_u8(out, '\'');
  }
  kiln_buffer_format(
      out, ")\n  if (( CURRENT == 2 )) || [[ $command == help && CURRENT -eq 3 ]]; then _describe command "
           "commands; return; fi\n  shift words; (( CURRENT-- ))\n");
  for (size_t i = 0; i < all->count; i++)
    if (all->items[i].is_word && begins_command(all, i)) {
      kiln_buffer_format(out, "  if [[ $command == '%s' ]]; then", all->items[i].command);
      zsh_words(all, i, out);
      kiln_buffer_format(out, "\n    command=\"$command $words[2]\"; shift words; (( CURRENT-- ))\n  fi\n");
    }
  kiln_buffer_format(out, "  case $command in");
  for (size_t i = 0, open = 0; i <= all->count; i++) {
    bool ends = i == all->count || begins_command(all, i);
    if (ends && open)
      kiln_buffer_format(out, " \\\n      '--help[describe the command]' '*:file:_files' ;;"), open = 0;
    if (i == all->count || all->items[i].is_word) continue;
    if (ends) kiln_buffer_format(out, "\n  '%s')\n    _arguments -s -S", all->items[i].command), open = 1;
    zsh_option(&all->items[i], out);
  }
  kiln_buffer_format(
      out,
      "\n  *) _files ;;\n  esac\n}\nif [[ $funcstack[1] == _kiln ]]; then _kiln \"$@\"; else compdef _kiln "
      "kiln; fi\n");
}

static void fish_line(kiln_buffer *out, const char *when, const char *help) {
  kiln_buffer_format(out, "complete -c kiln -n '%s' -d '", when);
  put_quoted(out, help, "\\", "\\'");
  kiln_buffer_u8(out, '\'');
}

static void write_fish(const rows *all, kiln_buffer *out) {
  const char *text, *name;
  kiln_buffer_format(out, "# Completions of kiln for fish, written by `kiln completion fish`.\n"
                          "function __kiln_is\n  set -l words (commandline -opc)\n  set -e words[1]\n"
                          "  set -l size (count $argv)\n"
                          "  test (count $words) -ge $size; and test \"$words[1..$size]\" = \"$argv\"\nend\n"
                          "function __kiln_begins\n  set -l words (commandline -opc)\n  set -e words[1]\n"
                          "  test \"$words\" = \"$argv\"\nend\n");
  for (size_t i = 0; (name = help_command_at(i, &text)); i++) {
    fish_line(out, "__kiln_begins; or __kiln_begins help", text);
    kiln_buffer_format(out, " -f -a %s\n", name);
  }
  for (size_t i = 0; i < all->count; i++) {
    const row *r = &all->items[i];
    char when[100];
    snprintf(when, sizeof when, r->is_word ? "__kiln_begins %s" : "__kiln_is %s", r->command);
    fish_line(out, when, r->help);
    if (r->is_word) kiln_buffer_format(out, " -f -a %s", r->name);
    else kiln_buffer_format(out, " -l %s", r->name);
    if (r->letter) kiln_buffer_format(out, " -s %c", r->letter);
    if (r->takes_value && !r->may_lack_it) {
      value_kind kind = kind_of(r);
      kiln_buffer_format(out, kind == VALUE_FILE || kind == VALUE_FOLDER ? " -r -F" : " -x");
      if (kind == VALUE_TARGETS || kind == VALUE_CHOICE) {
        kiln_buffer_format(out, " -a '");
        if (kind == VALUE_TARGETS) put_targets(out, ' ');
        else put_choices(out, r->value);
        kiln_buffer_u8(out, '\'');
      }
    }
    kiln_buffer_u8(out, '\n');
  }
}

static const struct {
  const char *name;
  void (*write)(const rows *all, kiln_buffer *out);
} shells[] = {{"bash", write_bash}, {"zsh", write_zsh}, {"fish", write_fish}};

int kiln_command_completion(int argc, char **argv) {
  char program[PATH_MAX];
  const char *text, *name, *output = "-";
  kiln_error err = {0};
  kiln_buffer out = {0};
  cli_list words = {0};
  rows all = {0};
  const cli_option options[] = {
      {"output", 'o', CLI_OUTPUT, &output, "FILE", "where the script goes (standard output)"}};
  const cli_page page = CLI_PAGE(
      "kiln completion [-o FILE] bash|zsh|fish",
      "Writes the completions of commands, options and values for a shell, from the tables "
      "that --help prints. Installed\nby `make install`; elsewhere: eval \"$(kiln completion bash)\".",
      options);
  int code = cli_parse_one(&page, argc, argv, "shell", &words);
  size_t shell = 0;
  if (code != -1) goto out;
  while (shell < sizeof shells / sizeof *shells && strcmp(shells[shell].name, words.items[0])) shell++;
  if (shell == sizeof shells / sizeof *shells) {
    code = cli_usage(&page, "expected bash, zsh or fish, found '%s'", words.items[0]);
    goto out;
  }
  if (!cli_find_program("kiln", program, sizeof program, NULL)) {
    kiln_fail(&err, KILN_STATUS_NOT_FOUND, "the program kiln is not found next to this one");
    code = cli_report(err.status, &err);
    goto out;
  }
  for (size_t i = 0; (name = help_command_at(i, &text)); i++)
    if (!read_command(program, name, NULL, &all)) {
      kiln_fail(&err, KILN_STATUS_TOOL, "'kiln %s --list-options' failed", name);
      code = cli_report(err.status, &err);
      goto out;
    }
  shells[shell].write(&all, &out);
  if (out.failed) kiln_fail(&err, KILN_STATUS_OUT_OF_MEMORY, "the script needs more memory than there is");
  else cli_write_file(output, out.bytes, out.size, &err);
  code = err.status ? cli_report(err.status, &err) : CLI_OK;
out:
  deinit_rows(&all);
  kiln_buffer_deinit(&out);
  cli_list_deinit(&words);
  return code;
}
