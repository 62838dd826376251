// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln export-c: writes one relocatable object and one typed header for an application. The object has the
// bundle and as much of libkiln as opens it and launches; of its names only the typed functions are seen. The
// C compiler of the application's target makes it of what is written here, and of libkiln.a.
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/output.h"
#include "base/plural.h"
#include "tools/bundle/header.h"
#include "tools/kiln-tool/commands.h"

enum { MOST_PATH = 4096, MOST_WORDS = 32, MOST_OBJECT = 1 << 30 };

typedef struct export {
  const char *bundle, *object, *header, *prefix, *cc, *library; ///< of the command line; NULL: the default
  bundle_view view;
  const char **names; ///< of the functions, by kernel; the arena's
  uint64_t abi;       ///< of all kernels
  char folder[MOST_PATH];
}
export;

// ------------------------------------------------------------------------------------------- texts in C

/// The launcher gives the grid: no config states one.
static bool wants_grid(const kiln_interface *in) {
  const kiln_span *grid = in->configs[0].grid;
  return !grid[0].size && !grid[1].size && !grid[2].size;
}

static void put_symbol(kiln_buffer *out, const char *name, uint64_t abi) {
  kiln_buffer_format(out, "%s_abi_%016llx", name, (unsigned long long)abi);
}

static void put_declaration(kiln_buffer *out, const kiln_interface *in, const char *prefix,
                            const char *name) {
  kiln_buffer_format(out, "int %s(%sdevice *device, void *stream", name, prefix);
  if (wants_grid(in)) kiln_buffer_format(out, ", const uint32_t grid[3]");
  header_put_arguments(out, in);
  kiln_buffer_format(out, ", %serror *err)", prefix);
}

static void put_header(const export *e, kiln_buffer *out) {
  const char *p = e->prefix;
  kiln_buffer_format(
      out,
      "// Made by `kiln export-c`: what the object beside it has. Functions return 0, or the number of an "
      "error, whose text is\n// in `err` unless that is NULL. Their symbols have the parameter lists in "
      "them: an object of others does not link.\n#pragma once\n#include <stdint.h>\n\n#ifdef "
      "__cplusplus\nextern \"C\" {\n#endif\n\ntypedef struct %sdevice %sdevice;\ntypedef struct %serror {\n"
      "  int status;\n  char text[996];\n  uint32_t operation;\n} %serror;\n\n// Opens \"host\", \"cuda:0\" "
      "or "
      "\"hip:0\", and looks all kernels up there. From any thread.\nint %sinit(const char *device, %sdevice "
      "**out, %serror *err)",
      p, p, p, p, p, p, p);
  kiln_buffer_format(out, " __asm__(\"%sinit_abi_%016llx\");\n", p, (unsigned long long)e->abi);
  kiln_buffer_format(
      out,
      "// Loads the code of all kernels, which else the first launch of each does: before a graph is "
      "captured.\nint %sload(%sdevice *device, %serror *err);\n// Nothing of it may still run. NULL is "
      "fine.\nvoid %sunload(%sdevice *device);\n",
      p, p, p, p, p);
  for (uint32_t i = 0; i < e->view.kernel_count; i++) {
    const kiln_interface *in = &e->view.kernels[i].interface;
    kiln_buffer_format(out, "\n// ");
    header_put_comment(out, in->name);
    kiln_buffer_format(out, "\n");
    put_declaration(out, in, p, e->names[i]);
    kiln_buffer_format(out, " __asm__(\"");
    put_symbol(out, e->names[i], kiln_interface_abi(in));
    kiln_buffer_format(out, "\");\n");
  }
  kiln_buffer_format(out, "\n#ifdef __cplusplus\n}\n#endif\n");
}

static void put_launch(const export *e, kiln_buffer *out, uint32_t index) {
  const kiln_interface *in = &e->view.kernels[index].interface;
  const char *name = e->names[index];
  kiln_buffer_format(out, "\n");
  header_put_block(out, in, name);
  put_declaration(out, in, e->prefix, name);
  kiln_buffer_format(out, " {\n");
  header_put_view_checks(out, in);
  header_put_packing(out, in, name);
  kiln_buffer_format(
      out, "  return kiln_launch_%s(device ? device->kernels[%u] : NULL, stream, %s&packed, %u, err);\n}\n",
      wants_grid(in) ? "grid" : "packed", index, wants_grid(in) ? "grid, " : "", in->block_bytes);
}

// P stands for the prefix. The functions of libkiln are declared without its header.
static const char *const source_head =
    "#include <stddef.h>\n#include <stdlib.h>\n#include <string.h>\n#include \"typed.h\"\n\n"
    "extern int kiln_open_memory(const void *, size_t, void **, Perror *), kiln_device_open(void *, const "
    "char *, void **, Perror *),\n    kiln_kernel_get(void *, const char *, const void *, void **, Perror "
    "*), "
    "kiln_preload(void *, Perror *),\n    kiln_launch_packed(void *, void *, const void *, size_t, Perror "
    "*),\n"
    "    kiln_launch_grid(void *, void *, const uint32_t *, const void *, size_t, Perror *);\n"
    "extern void kiln_device_close(void *), kiln_close(void *);\n"
    "extern const unsigned char kiln_exported[], kiln_exported_end[];\n\n";
static const char *const source_functions =
    "static inline int refuse(Perror *err, const char *text) {\n"
    "  if (err) err->status = INVALID_ARGUMENT, strcpy(err->text, text);\n  return INVALID_ARGUMENT;\n}\n\n"
    "struct Pdevice {\n  void *library, *device, *kernels[COUNT];\n};\n\n"
    "int Pinit(const char *name, Pdevice **out, Perror *err) {\n"
    "  if (!out) return kiln_device_open(NULL, name, NULL, err);\n"
    "  Pdevice *d = *out = calloc(1, sizeof *d);\n"
    "  int status = !d ? OUT_OF_MEMORY : kiln_open_memory(kiln_exported, (size_t)(kiln_exported_end - "
    "kiln_exported), &d->library, err);\n"
    "  if (!d && err) err->status = status, strcpy(err->text, \"memory is exhausted\");\n"
    "  if (!status) status = kiln_device_open(d->library, name, &d->device, err);\n"
    "  for (size_t i = 0; !status && i < COUNT; i++)\n"
    "    status = kiln_kernel_get(d->device, kernels[i].name, &kernels[i].abi, &d->kernels[i], err);\n"
    "  if (status) Punload(d), *out = NULL;\n"
    "  return status;\n}\n\n"
    "int Pload(Pdevice *device, Perror *err) {\n  int status = 0;\n"
    "  for (size_t i = 0; !status && i < COUNT; i++) status = kiln_preload(device ? device->kernels[i] : "
    "NULL, err);\n"
    "  return status;\n}\n\n"
    "void Punload(Pdevice *device) {\n  if (!device) return;\n"
    "  if (device->device) kiln_device_close(device->device);\n"
    "  if (device->library) kiln_close(device->library);\n  free(device);\n}\n";

/// A text in which P before a lower-case name of ours is the prefix.
static void put_with_prefix(kiln_buffer *out, const char *text, const char *prefix) {
  static const char *const ours[] = {"Perror", "Pdevice", "Pinit", "Pload", "Punload"};
  while (*text) {
    bool is_ours = false;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
      is_ours |= !strncmp(text, ours[i], strlen(ours[i]));
    if (is_ours) kiln_buffer_format(out, "%s", prefix);
    else kiln_buffer_u8(out, (uint8_t)*text);
    text++;
  }
}

static void put_source(const export *e, kiln_buffer *out) {
  kiln_buffer_format(out, "enum { COUNT = %u, OUT_OF_MEMORY = %d, INVALID_ARGUMENT = %d };\n",
                     e->view.kernel_count, (int)KILN_STATUS_OUT_OF_MEMORY, (int)KILN_STATUS_INVALID_ARGUMENT);
  put_with_prefix(out, source_head, e->prefix);
  kiln_buffer_format(out,
                     "%s\nstatic const struct {\n  const char *name;\n  uint64_t abi;\n  const char "
                     "*params;\n} kernels[COUNT] = {\n",
                     HEADER_CHECK);
  for (uint32_t i = 0; i < e->view.kernel_count; i++) {
    const kiln_interface *in = &e->view.kernels[i].interface;
    kiln_buffer_format(out, "    {\"");
    header_put_literal(out, in->name);
    kiln_buffer_format(out, "\", UINT64_C(0x%016llx), \"", (unsigned long long)kiln_interface_abi(in));
    header_put_params(out, in);
    kiln_buffer_format(out, "\"},\n");
  }
  kiln_buffer_format(out, "};\n\n");
  put_with_prefix(out, source_functions, e->prefix);
  for (uint32_t i = 0; i < e->view.kernel_count; i++) put_launch(e, out, i);
}

static const char *const bundle_source =
    "\t.section .rodata.kiln_exported,\"a\",%progbits\n\t.balign 64\n\t.globl kiln_exported, "
    "kiln_exported_end\nkiln_exported:\n\t.incbin \"bundle\"\nkiln_exported_end:\n\t.byte 0\n\t.section "
    ".note.GNU-stack,\"\",%progbits\n";

// ------------------------------------------------------------------------------------------- programs

/// Runs a program in the folder; what it prints goes to the file `printed` there where that is not NULL.
static kiln_status run(const export *e, char *const *words, const char *printed, kiln_error *err) {
  extern char **environ;
  posix_spawn_file_actions_t actions;
  pid_t pid;
  int wait_status = 0;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, e->folder);
  if (printed) posix_spawn_file_actions_addopen(&actions, 1, printed, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int failed = posix_spawnp(&pid, words[0], &actions, NULL, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return kiln_fail(err, KILN_STATUS_TOOL, "%s cannot be started: %s", words[0], strerror(failed));
  if (waitpid(pid, &wait_status, 0) < 0 || !WIFEXITED(wait_status) || WEXITSTATUS(wait_status))
    return kiln_fail(err, KILN_STATUS_TOOL, "%s failed, exit status %d: what it said is above", words[0],
                     WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1);
  return KILN_OK;
}

static kiln_status write_here(const export *e, const char *name, const void *bytes, size_t size,
                              kiln_error *err) {
  char path[MOST_PATH + 32];
  snprintf(path, sizeof path, "%s/%s", e->folder, name);
  return cli_write_file(path, bytes, size, err);
}

static kiln_status read_here(const export *e, const char *name, kiln_buffer *out, kiln_error *err) {
  char path[MOST_PATH + 32];
  snprintf(path, sizeof path, "%s/%s", e->folder, name);
  return cli_read_file(path, "", MOST_OBJECT, out, err);
}

/// What the compiler answers to -print-...: a line.
static kiln_status ask(const export *e, const char *question, char *out, size_t capacity, kiln_error *err) {
  char *words[] = {(char *)e->cc, (char *)question, NULL};
  kiln_buffer said = {0};
  kiln_status status = run(e, words, "said", err);
  if (!status) status = read_here(e, "said", &said, err);
  if (!status) snprintf(out, capacity, "%.*s", (int)strcspn((char *)said.bytes, "\n"), (char *)said.bytes);
  kiln_buffer_deinit(&said);
  return status;
}

/// libkiln.a of the installation or the build that this program is of.
static kiln_status find_library(const export *e, char *out, size_t capacity, kiln_error *err) {
  static const char *const places[] = {"../lib/libkiln.a", "../../lib/libkiln.a"};
  char path[MOST_PATH];
  int fd = e->library ? open(e->library, O_RDONLY | O_CLOEXEC) : -1;
  if (e->library) snprintf(path, sizeof path, "%s", e->library);
  for (size_t i = 0; !e->library && fd < 0 && i < 2; i++) cli_find_program(places[i], path, sizeof path, &fd);
  if (fd < 0 && e->library)
    return kiln_fail(err, KILN_STATUS_NOT_FOUND, "--library: %s: No such file", e->library);
  if (fd < 0)
    return kiln_fail(err, KILN_STATUS_NOT_FOUND,
                     "libkiln.a is not beside this program: --library=FILE names it");
  close(fd);
  char *whole = realpath(path, NULL);
  snprintf(out, capacity, "%s", whole ? whole : path);
  free(whole);
  return KILN_OK;
}

/// Compiles and links in the folder: `part.o` has all names, `object.o` shows those in the file `names`.
static kiln_status make_object(const export *e, kiln_error *err) {
  char library[MOST_PATH], zstd[MOST_PATH], objcopy[MOST_PATH];
  kiln_status status = find_library(e, library, sizeof library, err);
  if (!status) status = ask(e, "-print-file-name=libzstd.a", zstd, sizeof zstd, err);
  if (!status) status = ask(e, "-print-prog-name=objcopy", objcopy, sizeof objcopy, err);
  if (status) return status;
  bool has_zstd = *zstd == '/'; // else the application links it
  char *link[] = {(char *)e->cc,
                  "-std=c11",
                  "-O2",
                  "-fPIC",
                  "-fno-stack-protector",
                  "-r",
                  "-nostdlib",
                  "@roots",
                  "source.c",
                  "bundle.S",
                  "-o",
                  "part.o",
                  library,
                  has_zstd ? zstd : NULL,
                  NULL};
  char *hide[] = {objcopy, "--keep-global-symbols=names", "--strip-unneeded", "part.o", "object.o", NULL};
  status = run(e, link, NULL, err);
  return status ? status : run(e, hide, NULL, err);
}

// ------------------------------------------------------------------------------------------- the command

/// The typed functions' symbols: one a line for objcopy, and as what the linker keeps.
static void put_symbols(const export *e, kiln_buffer *names, kiln_buffer *roots) {
  static const char *const plain[] = {"load", "unload"};
  kiln_buffer symbol = {0};
  kiln_buffer_format(roots, "-Wl,--gc-sections -Wl,-e,%sunload", e->prefix);
  for (uint32_t i = 0; i < e->view.kernel_count + 3; i++) {
    symbol.size = 0;
    if (i < 2) kiln_buffer_format(&symbol, "%s%s", e->prefix, plain[i]);
    else if (i == 2) kiln_buffer_format(&symbol, "%sinit_abi_%016llx", e->prefix, (unsigned long long)e->abi);
    else put_symbol(&symbol, e->names[i - 3], kiln_interface_abi(&e->view.kernels[i - 3].interface));
    kiln_buffer_u8(&symbol, 0);
    kiln_buffer_format(names, "%s\n", symbol.failed ? "" : (const char *)symbol.bytes);
    kiln_buffer_format(roots, " -Wl,-u,%s", symbol.failed ? "" : (const char *)symbol.bytes);
  }
  names->failed |= symbol.failed;
  kiln_buffer_deinit(&symbol);
}

/// Names that no kernel's function may have come first.
static void name_functions(export *e) {
  static const char *const own[] = {"init", "load", "unload", "device", "error"};
  void *taken = NULL;
  kiln_arena *arena = e->view.arena;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    header_reserve(&taken, kiln_arena_format(arena, "%s%s", e->prefix, own[i]), arena);
  e->names = kiln_arena_alloc(arena, (e->view.kernel_count + 1) * sizeof *e->names);
  for (uint32_t i = 0; i < e->view.kernel_count; i++) {
    e->names[i] = header_function_name(&taken, &e->view.kernels[i], e->prefix, arena);
    e->abi = e->abi * UINT64_C(0x100000001b3) ^ kiln_interface_abi(&e->view.kernels[i].interface);
  }
  tdestroy(taken, header_keep_text);
}

static kiln_status write_parts(const export *e, const kiln_buffer *bundle, kiln_buffer *typed,
                               kiln_error *err) {
  kiln_buffer source = {0}, names = {0}, roots = {0};
  put_header(e, typed);
  put_source(e, &source);
  put_symbols(e, &names, &roots);
  kiln_status status = KILN_OK;
  if (typed->failed || source.failed || names.failed || roots.failed)
    status = kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  const struct {
    const char *name;
    const void *bytes;
    size_t size;
  } files[] = {{"typed.h", typed->bytes, typed->size},  {"source.c", source.bytes, source.size},
               {"names", names.bytes, names.size},      {"roots", roots.bytes, roots.size},
               {"bundle", bundle->bytes, bundle->size}, {"bundle.S", bundle_source, strlen(bundle_source)}};
  for (size_t i = 0; !status && i < sizeof files / sizeof *files; i++)
    status = write_here(e, files[i].name, files[i].bytes, files[i].size, err);
  kiln_buffer_deinit(&source);
  kiln_buffer_deinit(&names);
  kiln_buffer_deinit(&roots);
  return status;
}

static void remove_folder(const export *e) {
  static const char *const files[] = {"typed.h",  "source.c", "names",  "roots",   "bundle",
                                      "bundle.S", "said",     "part.o", "object.o"};
  char path[MOST_PATH + 32];
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    snprintf(path, sizeof path, "%s/%s", e->folder, files[i]);
    unlink(path);
  }
  rmdir(e->folder);
}

static kiln_status export_bundle(export *e, const kiln_buffer *bundle, kiln_error *err) {
  kiln_buffer typed = {0}, object = {0};
  KILN_TRY(kiln_output_apart(e->object, e->bundle, err));
  KILN_TRY(kiln_output_apart(e->header, e->bundle, err));
  KILN_TRY(kiln_output_apart(e->header, e->object, err));
  KILN_TRY(
      kiln_output_try(e->object, err)); // before the work, and so that neither is written without the other
  KILN_TRY(kiln_output_try(e->header, err));
  const char *next_to = kiln_output_is_stdout(e->object) ? e->header : e->object;
  snprintf(e->folder, sizeof e->folder, "%s.XXXXXX", next_to);
  if (!mkdtemp(e->folder))
    return kiln_fail(err, KILN_STATUS_IO, "%s: a folder cannot be made: %s", e->folder, strerror(errno));
  kiln_status status = write_parts(e, bundle, &typed, err);
  if (!status) status = make_object(e, err);
  if (!status) status = read_here(e, "object.o", &object, err);
  if (!status) status = cli_write_file(e->object, object.bytes, object.size, err);
  if (!status) status = cli_write_file(e->header, typed.bytes, typed.size, err);
  if (!status)
    printf("%s: %zu bytes, %zu of them the bundle; %s: %u kernel%s\n", cli_name(e->object), object.size,
           bundle->size, cli_name(e->header), e->view.kernel_count, kiln_plural(e->view.kernel_count));
  remove_folder(e);
  kiln_buffer_deinit(&typed);
  kiln_buffer_deinit(&object);
  return status;
}

/// "app.o" for path/to/app.kbundle, "app.h" for app.o.
static const char *with_suffix(kiln_arena *arena, const char *path, bool keeps_folder, const char *suffix) {
  const char *slash = strrchr(path, '/'), *name = slash && !keeps_folder ? slash + 1 : path;
  const char *dot = strrchr(name, '.');
  bool has_dot = dot && !strchr(dot, '/') && dot != name;
  return kiln_arena_format(arena, "%.*s%s", (int)(has_dot ? dot - name : (long)strlen(name)), name, suffix);
}

static int export_to(export *e) {
  kiln_error err = {0};
  kiln_buffer bundle = {0};
  kiln_status status = bundle_view_read(e->bundle, &bundle, &err);
  if (!status) status = bundle_view_open_bytes(e->bundle, bundle.bytes, bundle.size, &e->view, &err);
  if (!status && (status = kiln_bundle_check_all(e->view.bundle, &err))) bundle_view_close(&e->view);
  if (!status) {
    if (!e->prefix) e->prefix = header_default_prefix(e->bundle, e->view.arena);
    if (!e->object) e->object = with_suffix(e->view.arena, e->bundle, false, ".o");
    if (!e->header) e->header = with_suffix(e->view.arena, e->object, true, ".h");
    name_functions(e);
    status = e->view.kernel_count ? export_bundle(e, &bundle, &err)
                                  : kiln_fail(&err, KILN_STATUS_NOT_FOUND, "%s: has no kernels", e->bundle);
    bundle_view_close(&e->view);
  }
  kiln_buffer_deinit(&bundle);
  return status == KILN_OK ? CLI_OK : cli_report(status, &err);
}

int kiln_command_export_c(int argc, char **argv) {
  export e = {.cc = "cc"};
  const cli_option options[] = {
      {"out", 'o', CLI_OUTPUT, &e.object, "FILE.O", "the object (app.o for app.kbundle)"},
      {"header", 0, CLI_OUTPUT, &e.header, "FILE.H", "the header (the object's name with .h)"},
      {"prefix", 0, CLI_TEXT, &e.prefix, "TEXT",
       "prefix of names (default: the bundle's, app_ for app.kbundle)"},
      {"cc", 0, CLI_TEXT, &e.cc, "PROGRAM", "the C compiler of the application's target (cc)"},
      {"library", 0, CLI_INPUT, &e.library, "FILE",
       "libkiln.a for that target (the one installed with this program)"}};
  const cli_page page = CLI_PAGE(
      "kiln export-c [-o FILE.O] [--header FILE.H] [--prefix=TEXT] [--cc=PROGRAM] [--library=FILE] BUNDLE",
      "Writes one object and one typed header for an application: the bundle, and as much of libkiln as "
      "launches its kernels.",
      options);
  cli_list words = {0};
  int code = cli_parse_one(&page, argc, argv, "bundle", &words);
  if (code == -1 && e.object && kiln_output_is_stdout(e.object) && !e.header)
    code = cli_usage(&page, "--header is missing: an object on standard output has no name to make one of");
  if (code == -1 && e.prefix && !header_is_prefix(e.prefix))
    code = cli_usage(&page,
                     "--prefix: expected letters, digits and '_', a letter first, not kiln_ (that is the "
                     "library's), found '%s'",
                     e.prefix);
  if (code == -1) {
    char *whole = strchr(e.cc, '/') ? realpath(e.cc, NULL) : NULL; // it is started in another folder
    e.bundle = words.items[0];
    if (whole) e.cc = whole;
    code = export_to(&e);
    free(whole);
  }
  cli_list_deinit(&words);
  return code;
}
