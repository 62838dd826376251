#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Start-up, import and launch of two builds, in turn, in one run: bench/before_after.py BEFORE AFTER [ROUNDS]. BEFORE and AFTER are build folders, such as
build/release of a work tree of an older commit (`make build/release/bin/kiln libraries`) and of this one. One program and one bundle serve both; the library is
the only difference. Needs a C compiler; no GPU: launches are to the null device. Prints the least and the median of each measure; on a busy machine the least counts."""
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
PROGRAM = r"""
#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MUST(call) do { if (call) return fprintf(stderr, "%s\n", err.text), 1; } while (0)
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static int by_size(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

// start BUNDLE: the first result on the host, then the end. launch BUNDLE KERNEL POINTERS: ns of a launch, other pointers each time.
int main(int argc, char **argv) {
  enum { TIMES = 41, LAUNCHES = 5000 };
  kiln_library *library;
  kiln_device *device;
  kiln_kernel *kernel;
  kiln_error err;
  MUST(kiln_open_file(argv[2], &library, &err));
  if (!strcmp(argv[1], "start")) {
    static float y[128];
    float *p = y;
    int n = 128;
    MUST(kiln_device_open(library, "host", &device, &err));
    MUST(kiln_kernel_get(device, "ramp", NULL, &kernel, &err));
    MUST(kiln_launch(kernel, NULL, (const void *const[]){&p, &n}, 2, &err));
    return y[100] < 100 || y[100] > 100;
  }
  int count = atoi(argv[4]), n = 128;
  static char memory[1 << 16];
  char *places[16] = {0};
  const void *arguments[17];
  double times[TIMES];
  MUST(kiln_device_open(library, "null:sm_90a", &device, &err));
  MUST(kiln_kernel_get(device, argv[3], NULL, &kernel, &err));
  for (int i = 0; i < count; i++) arguments[i] = &places[i];
  arguments[count] = &n;
  for (int t = 0; t < TIMES; t++) {
    double begin = now();
    for (int k = 0; k < LAUNCHES; k++) {
      for (int i = 0; i < count; i++) places[i] = memory + 64 * ((k & 255) + i);
      MUST(kiln_launch(kernel, NULL, arguments, (size_t)count + 1, &err));
    }
    times[t] = (now() - begin) / LAUNCHES;
  }
  qsort(times, TIMES, sizeof *times, by_size);
  printf("%.2f\n", times[0]);
  return argc != 5;
}
"""


def wall(command, environment):
    begin = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begin) * 1e3


def main():
    sides = {"before": os.path.abspath(sys.argv[1]), "after": os.path.abspath(sys.argv[2])}
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 40
    with tempfile.TemporaryDirectory() as folder:
        program, bundle = os.path.join(folder, "program"), os.path.join(folder, "b.kbundle")
        with open(program + ".c", "w") as file:
            file.write(PROGRAM)
        subprocess.run(["cc", "-O2", program + ".c", "-o", program, "-I%s/include" % sides["after"], "-I" + os.path.dirname(HERE), "%s/lib/libkiln.so.0" % sides["after"]], check=True)
        subprocess.run([sides["after"] + "/bin/kiln", "build", "-q", "--no-cache", "--ptx-assembler=none", "-t", "host,sm_90a", "-o", bundle, HERE + "/python_launch.kiln"], check=True)
        found = {}
        for _ in range(rounds):
            for side, build in sides.items():
                environment = {"LD_LIBRARY_PATH": build + "/lib", "PYTHONPATH": build + "/python", "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": ""}

                def note(measure, value):
                    found.setdefault(measure, {}).setdefault(side, []).append(value)

                note("an application's first result on the host, ms", wall([program, "start", bundle], environment))
                note("python3 -c 'import kiln', ms", wall([PYTHON, "-c", "import kiln"], environment))
                note("python3 -c pass, ms", wall([PYTHON, "-c", "pass"], environment))
                note("kiln --version, ms", wall([build + "/bin/kiln", "--version"], environment))
                for kernel, count in (("arrays2", 2), ("arrays8", 8), ("arrays16", 16)):
                    told = subprocess.run([program, "launch", bundle, kernel, str(count)], env=environment, check=True, stdout=subprocess.PIPE).stdout
                    note("kiln_launch, %d pointers and a size, ns" % count, float(told))
    print("%d rounds in turn; least (median)\n%-50s %20s %20s" % (rounds, "", *sides))
    for measure, values in found.items():
        print("%-50s %20s %20s" % (measure, *("%.2f (%.2f)" % (min(v), statistics.median(v)) for v in values.values())))


main()
