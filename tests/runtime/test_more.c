// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the two files of libkiln: what an application runs with the first alone, and how the second is found.
#include "tests/runtime/fixture.h"

// Does what each word of the arguments says after the bundle's path, and prints what came of it.
static const char program[] =
    "#define _GNU_SOURCE\n#include <kiln/kiln.h>\n#include <link.h>\n#include <stdio.h>\n"
    "#include <string.h>\n#include <unistd.h>\n"
    "static int count(struct dl_phdr_info *i, size_t size, void *to) {\n"
    "  (void)size; return *(int *)to += i->dlpi_name && strstr(i->dlpi_name, \"/libkiln-more.so.0\") != 0, "
    "0; }\n"
    "int main(int argc, char **argv) {\n"
    "  kiln_library *l; kiln_device *d; kiln_kernel *k, *no; kiln_error e = {0}; kiln_report *r = 0;\n"
    "  static float x[64]; void *p = x, *odd = (char *)x + 1, *none = 0; int n = 64, opened = 0;\n"
    "  const void *good[] = {&p, &p, &n}, *bad[] = {&odd, &none, &n};\n"
    "  if (kiln_open_file(argv[1], &l, &e) || kiln_device_open(l, \"host:1\", &d, &e) || kiln_kernel_get(d, "
    "\"add_one\", NULL, &k, &e)) return puts(e.text), 1;\n"
    "  for (int i = 2; i < argc; i++) {\n"
    "    int s = -1; e.text[0] = 0;\n"
    "    if (!strcmp(argv[i], \"launch\")) s = kiln_launch(k, NULL, good, 3, &e) || kiln_preload(k, &e);\n"
    "    if (!strcmp(argv[i], \"prepare\")) { kiln_prepared *a; s = kiln_prepare(k, good, 3, NULL, &a, &e) "
    "|| "
    "kiln_prepared_launch(a, NULL, &e); kiln_prepared_free(a); }\n"
    "    if (!strcmp(argv[i], \"few\")) s = kiln_launch(k, NULL, good, 2, &e);\n"
    "    if (!strcmp(argv[i], \"refused\")) s = kiln_launch(k, NULL, bad, 3, &e);\n"
    "    if (!strcmp(argv[i], \"missing\")) s = kiln_kernel_get(d, \"add_onne\", NULL, &no, &e);\n"
    "    if (!strcmp(argv[i], \"abi\")) s = kiln_kernel_get(d, \"add_one\", &(kiln_signature){7, \"i32\"}, "
    "&no, &e);\n"
    "    if (!strcmp(argv[i], \"explain\")) { s = kiln_explain(d, \"add_one\", &r, &e); "
    "if (!s) printf(\"%s\\n\", kiln_report_text(r)); kiln_report_free(r); }\n"
    "    if (!strcmp(argv[i], \"param\")) { kiln_param a; s = kiln_param_at(k, 0, &a); }\n"
    "    if (!strcmp(argv[i], \"name\")) { const char *a = kiln_kernel_name(l, 0); s = !a; }\n"
    "    if (!strcmp(argv[i], \"away\")) s = chdir(\"/\");\n"
    "    opened = 0; dl_iterate_phdr(count, &opened);\n"
    "    printf(\"%s %d %d %s\\n\", argv[i], s, opened, e.text);\n"
    "  }\n"
    "  return kiln_device_close(d), kiln_close(l), 0;\n}\n";

static void prepare(void) {
  char *out;
  const char *build = kiln_test_build_path();
  if (KILN_TEST_SANITIZED) SKIP("an instrumented library needs an instrumented program");
  if (kiln_test_run(NULL, "test -e %s/lib/libkiln-more.so.0", build)) SKIP("libkiln-more.so.0 is not built");
  fixture_add_one(kiln_test_path("o.kbundle"), "");
  kiln_test_write(kiln_test_path("app.c"), program, sizeof program - 1);
  if (kiln_test_run(&out,
                    "R=$PWD; L=%s/lib; cd %s && gcc -Wall -Wextra -Werror -I$L/../include -I$R -o app app.c "
                    "-L$L -lkiln && mkdir one two && cp -L $L/libkiln.so.0 one && cp -L $L/libkiln*.so.0 two",
                    build, kiln_test_folder()))
    FAIL("%s", out);
  free(out);
}

static void check(const char *command, const char *want) {
  char *out;
  if (kiln_test_run(&out, "cd %s && %s", kiln_test_folder(), command)) FAIL("%s: %s", command, out);
  // Folders of the test differ.
  for (char *at; (at = strstr(out, kiln_test_folder()));)
    memmove(at, at + strlen(kiln_test_folder()), strlen(at + strlen(kiln_test_folder())) + 1);
  CHECK_TEXT(out, want);
  free(out);
}

TEST(more, a_launch_does_not_open_it) {
  prepare();
  check("LD_LIBRARY_PATH=$PWD/two ./app o.kbundle launch prepare few launch",
        "launch 0 0 \nprepare 0 0 \nfew 1 0 'add_one' takes 3 arguments, 2 were given\nlaunch 0 0 \n");
}

TEST(more, what_an_application_asks_for_opens_it) {
  prepare();
  check("LD_LIBRARY_PATH=$PWD/two ./app o.kbundle launch missing launch",
        "launch 0 0 \nmissing 3 1 no kernel 'add_onne' in o.kbundle; did you mean 'add_one'?\nlaunch 0 1 \n");
  check("LD_LIBRARY_PATH=$PWD/two ./app o.kbundle param name", "param 0 0 \nname 0 1 \n");
}

#define FOUND "missing 3 1 no kernel 'add_onne' in o.kbundle; did you mean 'add_one'?\n"

// A refusal stays what it is, a launch runs, and the file is named.
TEST(more, where_it_is_absent) {
  prepare();
#define ABSENT                                                                                     \
  "a part of libkiln that is a file of its own is not there: /one/libkiln-more.so.0: cannot open " \
  "shared object file: No such file or directory\n"
  check("LD_LIBRARY_PATH=$PWD/one ./app o.kbundle launch missing abi explain param name launch",
        "launch 0 0 \nmissing 3 0 " ABSENT "abi 18 0 " ABSENT "explain 5 0 " ABSENT
        "param 0 0 \nname 1 0 \nlaunch 0 0 \n");
}

// Structs of another build may be other ones.
TEST(more, one_of_another_build_is_not_used) {
  static const char other[] = "const void *kiln_more_start(const void *c) { return (void)c, (void *)0; }\n";
  prepare();
  kiln_test_write(kiln_test_path("other.c"), other, sizeof other - 1);
  check("gcc -shared -fPIC -o one/libkiln-more.so.0 other.c && LD_LIBRARY_PATH=$PWD/one ./app o.kbundle "
        "missing launch",
        "missing 3 1 /one/libkiln-more.so.0 is not of the same build as libkiln.so.0 next to it\n"
        "launch 0 1 \n");
  // The digest is that of the sources, so one byte of it makes another build.
  char *same, command[600];
  CHECK_INT(kiln_test_run(&same, "cat %s/same", kiln_test_build()), 0);
  same[strcspn(same, "\n")] = 0;
  CHECK_INT((int)strlen(same), 16);
  snprintf(command, sizeof command,
           "sed 's/%s/0123456789abcdef/' two/libkiln-more.so.0 >one/libkiln-more.so.0 && "
           "LD_LIBRARY_PATH=$PWD/one ./app o.kbundle missing",
           same);
  check(command, "missing 3 1 /one/libkiln-more.so.0 is not of the same build as libkiln.so.0 next to it\n");
  free(same);
}

// The folder is the one that libkiln was loaded from, wherever the process is now; or that of the file, where
// libkiln is a link. A file of that name elsewhere is none.
TEST(more, is_sought_beside_libkiln_alone) {
  prepare();
  check("LD_LIBRARY_PATH=two ./app o.kbundle away missing", "away 0 0 \n" FOUND);
  check("mkdir link && ln -s ../two/libkiln.so.0 link && LD_LIBRARY_PATH=$PWD/link ./app o.kbundle missing",
        FOUND);
  check("LD_LIBRARY_PATH=$PWD/one:$PWD/two ./app o.kbundle missing", "missing 3 0 " ABSENT);
}

// Each libkiln of a process has its own.
TEST(more, two_libkilns_have_one_each) {
  static const char both[] =
      "#include <dlfcn.h>\n#include <kiln/kiln.h>\n#include <stdio.h>\n#include <string.h>\n"
      "static void tell(void *to, const kiln_event *e) { printf(\"%s: %s\\n\", (char *)to, e->text); }\n"
      "int main(int argc, char **argv) {\n"
      "  kiln_device *d[2]; kiln_library *l; kiln_kernel *k; kiln_error e; void *h[2];\n"
      "#define IN(n, f) ((__typeof__(kiln_##f) *)dlsym(h[n], \"kiln_\" #f))\n"
      "  for (int i = 0; i < argc - 2; i++) {\n"
      "    if (!(h[i] = dlopen(argv[2 + i], RTLD_NOW))) return puts(dlerror()), 1;\n"
      "    if (IN(i, open_file)(argv[1], &l, &e) || IN(i, device_open)(l, \"host:1\", &d[i], &e) || IN(i, "
      "hook_add)(tell, strchr(argv[2 + i], '/'), KILN_EVENT_MISS, &e)) return puts(e.text), 1;\n"
      "  }\n"
      "  for (int i = 0; i < 4; i++) if (IN(i % 2, kernel_get)(d[i % 2], \"x\", 0, &k, &e) != 3) return 1;\n"
      "  return 0;\n}\n";
  prepare();
  kiln_test_write(kiln_test_path("both.c"), both, sizeof both - 1);
  char *out;
  if (kiln_test_run(&out, "R=$PWD; L=%s/lib; cd %s && gcc -I$L/../include -I$R -o both both.c -ldl",
                    kiln_test_build_path(), kiln_test_folder()))
    FAIL("%s", out);
  free(out);
  check("cp -r two three && ./both o.kbundle two/libkiln.so.0 three/libkiln.so.0",
        "/libkiln.so.0: no kernel 'x' in o.kbundle; `kiln inspect` lists 1 kernel\n"
        "/libkiln.so.0: no kernel 'x' in o.kbundle; `kiln inspect` lists 1 kernel\n"
        "/libkiln.so.0: no kernel 'x' in o.kbundle; `kiln inspect` lists 1 kernel\n"
        "/libkiln.so.0: no kernel 'x' in o.kbundle; `kiln inspect` lists 1 kernel\n");
}
