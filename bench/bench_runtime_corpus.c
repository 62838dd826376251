// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes of a corpus of code objects as a bundle, by level and dictionary, and the time until one of them is ready for the driver.
//   bench_runtime_corpus FOLDER [SUFFIX [LEVEL]]     (".co", 3 and 19); every file becomes one kernel, named by its path
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bundle_format.h"
#include "cache/bundle/bundle_writer.h"
#include "runtime/bundle_reader.h"

typedef struct file {
  char *path;
  uint8_t *bytes;
  size_t size;
} file;

static file *files;
static size_t file_count;
static const char *suffix = ".co";

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void must(kiln_status status, const kiln_error *err) {
  if (status == KILN_OK) return;
  fprintf(stderr, "bench_runtime_corpus: %s\n", err->text);
  exit(1);
}

static int take_file(const char *path, const struct stat *st, int kind, struct FTW *walk) {
  (void)walk;
  size_t length = strlen(path), end = strlen(suffix);
  if (kind != FTW_F || length < end || strcmp(path + length - end, suffix)) return 0;
  if (!(file_count & (file_count - 1))) files = realloc(files, (file_count ? file_count * 2 : 1) * sizeof *files);
  file f = {strdup(path), malloc((size_t)st->st_size + 1), (size_t)st->st_size};
  FILE *in = fopen(path, "rb");
  if (!files || !f.path || !f.bytes || !in || fread(f.bytes, 1, f.size, in) != f.size) return 1;
  fclose(in);
  files[file_count++] = f;
  return 0;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static kiln_bundle *open_bundle(const kiln_buffer *bundle) {
  kiln_bundle *b;
  kiln_error err;
  kiln_source source = {.bytes = bundle->bytes, .size = bundle->size};
  kiln_open_options options = {.size = sizeof options};
  must(kiln_bundle_open(&source, &options, &b, &err), &err);
  return b;
}

static double load_us(kiln_bundle *b, uint32_t blob) {
  kiln_bytes bytes;
  kiln_error err;
  uint64_t begin = now_ns();
  must(kiln_bundle_load(b, blob, &bytes, &err), &err);
  double us = (double)(now_ns() - begin) / 1e3;
  kiln_bytes_deinit(&bytes);
  return us;
}

static double quantile(double *times, size_t count, size_t percent) {
  qsort(times, count, sizeof *times, by_value);
  return times[(count - 1) * percent / 100];
}

// Codes stand after the dictionaries. The first load of each of OPENINGS handles decodes the dictionary.
static void measure_decoding(const kiln_buffer *bundle) {
  enum { OPENINGS = 21 };
  kiln_bundle *b = open_bundle(bundle);
  uint32_t count = (uint32_t)b->section_count[KILN_BUNDLE_BLOBS], first = count > file_count ? count - (uint32_t)file_count : 0;
  double *times = malloc((count + OPENINGS) * sizeof *times), openings[OPENINGS];
  for (int round = 0; round < 2; round++)
    for (uint32_t i = first; i < count; i++) times[i - first] = load_us(b, i);
  kiln_bundle_close(b);
  for (int i = 0; i < OPENINGS; i++) {
    b = open_bundle(bundle);
    openings[i] = load_us(b, first);
    kiln_bundle_close(b);
  }
  printf("  first code, with its dictionary: median %.0f us; then one code decoded and checked: median %.1f us, 99 %% %.1f us\n",
         quantile(openings, OPENINGS, 50), quantile(times, count - first, 50), quantile(times, count - first, 99));
  free(times);
}

static void measure(kiln_bundle_writer *w, const char *name, int level, kiln_bundle_dictionary dictionary) {
  kiln_bundle_sums sums;
  kiln_buffer bundle = {0};
  kiln_error err;
  uint64_t begin = now_ns();
  must(kiln_bundle_writer_build(w, &(kiln_bundle_options){.level = level, .dictionary = dictionary, .threads = 2}, &bundle, &sums, &err), &err);
  double seconds = (double)(now_ns() - begin) / 1e9;
  printf("level %2d, %-19s codes %9llu + dictionaries %7llu = %5.1fx; whole file %9llu = %5.1fx; written in %.1f s\n", level, name,
         (unsigned long long)sums.payload, (unsigned long long)sums.dictionaries,
         (double)sums.raw / (double)(sums.payload + sums.dictionaries), (unsigned long long)sums.file, (double)sums.raw / (double)sums.file, seconds);
  measure_decoding(&bundle);
  kiln_buffer_deinit(&bundle);
}

int main(int argc, char **argv) {
  kiln_error err;
  if (argc < 2) return fprintf(stderr, "usage: bench_runtime_corpus FOLDER [SUFFIX [LEVEL]]\n"), 2;
  if (argc > 2) suffix = argv[2];
  if (nftw(argv[1], take_file, 32, FTW_PHYS) || !file_count) return fprintf(stderr, "%s: no files ending in %s\n", argv[1], suffix), 1;
  kiln_bundle_writer *w = kiln_bundle_writer_create();
  uint64_t raw = 0;
  for (size_t i = 0; i < file_count; i++) {
    uint32_t kernel;
    must(kiln_bundle_writer_kernel(w, files[i].path + strlen(argv[1]), "interface", 9, &kernel, &err), &err);
    kiln_bundle_code code = {.kernel = kernel, .target = "gfx942", .family = "gfx9", .info = "info", .info_size = 4, .code = files[i].bytes,
                             .code_size = files[i].size};
    must(kiln_bundle_writer_code(w, &code, &err), &err);
    raw += files[i].size;
  }
  printf("%zu files, %llu bytes\n", file_count, (unsigned long long)raw);
  static const char *const names[] = {[KILN_BUNDLE_DICTIONARY_NONE] = "each for itself", [KILN_BUNDLE_DICTIONARY_SMALL] = "samples to 2.75 MiB",
                                      [KILN_BUNDLE_DICTIONARY_LARGE] = "samples to 8 MiB"};
  int only = argc > 3 ? atoi(argv[3]) : 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (int level = 3; level <= 19; level += 16)
    for (int d = KILN_BUNDLE_DICTIONARY_NONE; d <= KILN_BUNDLE_DICTIONARY_LARGE; d++)
      if (!only || only == level) measure(w, names[d], level, (kiln_bundle_dictionary)d);
  kiln_bundle_writer_destroy(w);
  return 0;
}
