// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times whole processes: bench_cache_spawn ROUNDS NAME COMMAND... -- NAME COMMAND... The commands take turns,
// so that all see the same machine. Prints minimum, median and 90th percentile of each in milliseconds, and
// the processor time (user and system, of all processes that it waited for), which other load hardly changes.
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/timing.h"

enum { COMMANDS = 16 };

typedef struct times {
  double wall, processor; ///< ms
} times;

static times once(char **argv) {
  posix_spawn_file_actions_t actions;
  struct timespec a, b;
  pid_t pid;
  int status;
  struct rusage used;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  clock_gettime(CLOCK_MONOTONIC, &a);
  if (posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) || wait4(pid, &status, 0, &used) != pid ||
      status) {
    fprintf(stderr, "bench_cache_spawn: %s failed\n", argv[0]);
    exit(1);
  }
  clock_gettime(CLOCK_MONOTONIC, &b);
  posix_spawn_file_actions_destroy(&actions);
  return (times){
      (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6,
      (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
          (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3,
  };
}

int main(int argc, char **argv) {
  char **commands[COMMANDS];
  double *wall[COMMANDS], *processor[COMMANDS];
  int rounds = argc > 1 ? atoi(argv[1]) : 0, count = 0;
  if (rounds < 1)
    return fprintf(stderr, "usage: bench_cache_spawn ROUNDS NAME COMMAND... [-- NAME COMMAND...]\n"), 2;
  for (int i = 2; i < argc && count < COMMANDS; i++) {
    commands[count++] = &argv[i];
    while (i < argc && strcmp(argv[i], "--")) i++;
    if (i < argc) argv[i] = NULL;
  }
  for (int c = 0; c < count; c++) {
    wall[c] = calloc((size_t)rounds, sizeof(double));
    processor[c] = calloc((size_t)rounds, sizeof(double));
    once(commands[c] + 1); // warm
  }
  for (int r = 0; r < rounds; r++)
    for (int c = 0; c < count; c++) {
      times t = once(commands[c] + 1);
      wall[c][r] = t.wall;
      processor[c][r] = t.processor;
    }
  for (int c = 0; c < count; c++) {
    qsort(wall[c], (size_t)rounds, sizeof(double), bench_by_value);
    qsort(processor[c], (size_t)rounds, sizeof(double), bench_by_value);
    printf("%-28s min %7.3f  median %7.3f  p90 %7.3f ms; processor min %7.3f  median %7.3f ms\n",
           commands[c][0], wall[c][0], wall[c][rounds / 2], wall[c][rounds * 9 / 10], processor[c][0],
           processor[c][rounds / 2]);
    free(wall[c]);
    free(processor[c]);
  }
  return 0;
}
