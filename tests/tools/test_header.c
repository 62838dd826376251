// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests `kiln header` on the whole kernel library and on every kind of parameter: strict compilers accept
// it in C11 and C++17, its functions launch, and a bundle with another parameter list is refused at
// look-up.
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source[] =
    "kiln 1\n"
    "kernel twice(x: in view f32[16, 16], y: out view f32[16, 16], rows: i32, cols: i32) @grid(cdiv(rows, "
    "16), cdiv(cols, 16)) @config(warps = 2)\n"
    "{\n  let i = pid(0) * 16\n  let j = pid(1) * 16\n  store(y, [i, j], load(x, [i, j]) * 2.0)\n}\n"
    "kernel all(b: i1, c: i8, s: i16, l: i64, h: f16, g: bf16, d: f64, int: f32, y: out *f64) @grid(1) "
    "@config(warps = 1)\n"
    "{\n  store(y, (c as f64 + s as f64) + (l as f64 + d) + (int as f64 + h as f64) + (g as f64 + select(b, "
    "1.0, 0.0) as f64))\n}\n";

// int64_t arrays by name, so that C and C++ both take them; 0x3c00 and 0x3f80 are 1 in f16 and bf16.
static const char program[] =
    "#include <stdio.h>\n#include \"k.h\"\n"
    "int main(int argc, char **argv) {\n"
    "  kiln_library *library; kiln_device *device; kiln_kernel *k, *all; kiln_error err;\n"
    "  float x[20 * 30], y[30 * 20]; double sum = 0;\n"
    "  const int64_t extents[2] = {20, 30}, strides[2] = {30, 1}, turned[2] = {1, 20};\n"
    "  for (int i = 0; i < 600; i++) x[i] = (float)i, y[i] = -1.0f;\n"
    "  if (kiln_open_file(argc > 1 ? argv[1] : \"\", &library, &err) || kiln_device_open(library, \"host\", "
    "&device, &err) || k_twice_get(device, &k, &err) ||\n"
    "      k_twice(k, NULL, x, extents, strides, y, extents, turned, 20, 30, &err) || "
    "k_all_get(device, &all, &err) ||\n"
    "      k_all(all, NULL, 1, -2, 300, INT64_C(4000000000), 0x3c00, 0x3f80, 0.5, 0.25f, &sum, &err)) "
    "return puts(err.text), 1;\n"
    "  for (int i = 0; i < 20; i++) for (int j = 0; j < 30; j++)\n"
    "    if (y[j * 20 + i] < 2.0f * x[i * 30 + j] || y[j * 20 + i] > 2.0f * x[i * 30 + j]) return "
    "printf(\"%d %d\\n\", i, j), 1;\n"
    "  printf(\"%.2f\\n\", sum);\n  kiln_device_close(device); kiln_close(library);\n  return 0;\n}\n";

#define STRICT "-Wall -Wextra -pedantic -Wconversion -Werror -I."

static void put(const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", kiln_test_folder(), name);
  kiln_test_write(path, text, strlen(text));
}

static void must(const char *command) {
  char *out;
  if (kiln_test_run(&out, "f=%s b=%s && %s", kiln_test_folder(), kiln_test_build(), command))
    FAIL("%s\n%s", command, out);
  free(out);
}

TEST(header, the_kernel_library_in_c_and_cpp) {
  put("use.c", "#include \"k.h\"\nint main(void) { return 0; }\n");
  must("$b/bin/kiln build kernels/*.kiln -t host --no-cache -q -o $f/k.kbundle && $b/bin/kiln header -o "
       "$f/k.h $f/k.kbundle");
  must("gcc -std=c11 " STRICT " -fsyntax-only $f/use.c && g++ -std=c++17 " STRICT
       " -x c++ -fsyntax-only $f/use.c");
  must("test $(grep -c '^static inline kiln_status k_.*_get(' $f/k.h) = $($b/bin/kiln inspect "
       "$f/k.kbundle | sed -n '1s/.*: \\([0-9]*\\) kernels.*/\\1/p')");
}

TEST(header, every_kind_of_parameter_arrives) {
  put("k.kiln", source);
  put("use.c", program);
  if (!kiln_test_run(NULL, "nm -D %s/lib/libkiln.so.0 | grep -q __asan", kiln_test_build()))
    SKIP("an instrumented library needs an instrumented program");
  must("$b/bin/kiln build $f/k.kiln -t host --no-cache -q -o $f/k.kbundle && $b/bin/kiln header -o $f/k.h "
       "$f/k.kbundle");
  must("gcc -std=c11 " STRICT
       " $f/use.c $b/lib/libkiln.so.0 -Wl,-rpath,$(realpath $b/lib) -o $f/c && g++ -std=c++17 " STRICT
       " -x c++ $f/use.c -x none $b/lib/libkiln.so.0 -Wl,-rpath,$(realpath $b/lib) -o $f/cpp");
  must("test $($f/c $f/k.kbundle) = 4000000301.75 && test $($f/cpp $f/k.kbundle) = 4000000301.75");
  // The same program on a bundle whose list is another one.
  must("sed -i 's/rows: i32, cols: i32/rows: i64, cols: i64/' $f/k.kiln && $b/bin/kiln build $f/k.kiln -t "
       "host --no-cache -q -o $f/k.kbundle");
  must("if $f/c $f/k.kbundle >$f/out; then exit 1; fi; grep -q 'rows: i32, cols: i32' $f/out && grep -q "
       "'rows: i64, cols: i64' $f/out");
}

// Names that the library has itself, functions of one kernel that are called like another, names of C.
TEST(header, kernels_may_be_called_as_they_like) {
  put("k.kiln", "kiln 1\n"
                "kernel fill(x: out *f32, n: i32) @grid(1) @config(warps = 1)\n{\n  store(x, n as f32)\n}\n"
                "kernel free(x: out *f32, kernel_n: i32) @grid(1) @config(warps = 1)\n{\n  store(x, kernel_n "
                "as f32)\n}\n"
                "kernel launch(err: out *f32) @grid(1) @config(warps = 1)\n{\n  store(err, 1.0)\n}\n"
                "kernel open_file(packed: out *f32) @grid(1) @config(warps = 1)\n{\n  store(packed, 2.0)\n}\n"
                "kernel status(x: out *f32) @grid(1) @config(warps = 1)\n{\n  store(x, 2.0)\n}\n"
                "kernel add(x: out *f32, x_extents: i32) @grid(1) @config(warps = 1)\n{\n  store(x, 3.0)\n}\n"
                "kernel add_get(x: out *f32) @grid(1) @config(warps = 1)\n{\n  store(x, 4.0)\n}\n"
                "kernel add_args(x: out *f32) @grid(1) @config(warps = 1)\n{\n  store(x, 5.0)\n}\n"
                "kernel add_get_get(x: out *f32) @grid(1) @config(warps = 1)\n{\n  store(x, 6.0)\n}\n"
                "kernel int(x: out *f32) @grid(1) @config(warps = 1)\n{\n  store(x, 7.0)\n}\n"
                "kernel printf(x: out *f32) @grid(1) @config(warps = 1)\n{\n  store(x, 8.0)\n}\n");
  must("$b/bin/kiln build $f/k.kiln -t host --no-cache -q -o $f/k.kbundle && cp $f/k.kbundle "
       "$f/other.kbundle && "
       "cp $f/k.kbundle $f/kiln.kbundle && cp $f/k.kbundle $f/7-of_9.x.kbundle && cp $f/k.kbundle "
       "$f/_.kbundle");
  // Five headers with the same kernels in one program, three of them under prefixes made of the file's name.
  must("cd $f && b=$OLDPWD/$b && for n in k other kiln 7-of_9.x _; do $b/bin/kiln header -o h_$n.h "
       "$n.kbundle || exit 1; "
       "done && $b/bin/kiln header --prefix=my -o h_my.h k.kbundle && grep -q 'kiln_status k_fill(' h_k.h && "
       "grep -q 'kiln_status other_fill(' h_other.h && grep -q 'kiln_status bundle_kiln_fill(' h_kiln.h && "
       "grep -q 'kiln_status bundle_7_of_9_fill(' h_7-of_9.x.h && grep -q 'kiln_status myfill(' h_my.h && "
       "test $(grep -c '^static inline' h_k.h) = 22");
  put("use.c",
      "#include <stdio.h>\n#include <stdlib.h>\n#include \"h_k.h\"\n#include \"h_other.h\"\n#include "
      "\"h_kiln.h\"\n"
      "#include \"h_7-of_9.x.h\"\n#include \"h__.h\"\n#include \"h_my.h\"\nint main(void) { return 0; }\n");
  must("gcc -std=c11 " STRICT " -fsyntax-only $f/use.c && g++ -std=c++17 " STRICT
       " -x c++ -fsyntax-only $f/use.c");
  must("for p in kiln_ kiln_x 9 '' a-b _a 'a b'; do $b/bin/kiln header --prefix=\"$p\" $f/k.kbundle >$f/out "
       "2>&1; "
       "test $? = 2 || exit 1; grep -q -e '--prefix: expected letters' $f/out || exit 1; done");
}
