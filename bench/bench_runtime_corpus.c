// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes of a corpus of code objects as a bundle, by level and dictionary, and the time until one of them is
// ready for the driver.
//
//   bench_runtime_corpus FOLDER [SUFFIX [LEVEL]]     (".co", 3 and 19); every file becomes one kernel, named
//                                                    by its path
//   bench_runtime_corpus BUNDLE.kbundle              the codes of a bundle, packed again
//   bench_runtime_corpus --unpack BUNDLE FOLDER      writes its codes as FOLDER/NUMBER.FAMILY, for other
//                                                    packers (bench/bundle_size.py)
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/timing.h"
#include "base/bundle_format.h"
#include "cache/bundle/writer.h"
#include "runtime/bundle/reader.h"
#include "tools/bundle/view.h"
#include "tools/bundle/dictionary_family.h"

typedef struct file {
  char *path;
  uint8_t *bytes;
  size_t size;
} file;

static file *files;
static size_t file_count;
static const char *suffix = ".co";

static void must(kiln_status status, const kiln_error *err) {
  if (status == KILN_OK) return;
  fprintf(stderr, "bench_runtime_corpus: %s\n", err->text);
  exit(1);
}

static int take_file(const char *path, const struct stat *st, int kind, struct FTW *walk) {
  (void)walk;
  size_t length = strlen(path), end = strlen(suffix);
  if (kind != FTW_F || length < end || strcmp(path + length - end, suffix)) return 0;
  if (!(file_count & (file_count - 1)))
    files = realloc(files, (file_count ? file_count * 2 : 1) * sizeof *files);
  file f = {strdup(path), malloc((size_t)st->st_size + 1), (size_t)st->st_size};
  FILE *in = fopen(path, "rb");
  if (!files || !f.path || !f.bytes || !in || fread(f.bytes, 1, f.size, in) != f.size) return 1;
  fclose(in);
  files[file_count++] = f;
  return 0;
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
  uint64_t begin = bench_now_ns();
  must(kiln_bundle_load(b, blob, &bytes, &err), &err);
  double us = (double)(bench_now_ns() - begin) / 1e3;
  kiln_bytes_deinit(&bytes);
  return us;
}

static double quantile(double *times, size_t count, size_t percent) {
  qsort(times, count, sizeof *times, bench_by_value);
  return times[(count - 1) * percent / 100];
}

// Codes stand after the dictionaries: the number of those, and a code that needs the largest one.
static uint32_t first_code(kiln_bundle *b, uint32_t count, uint32_t *out_needing) {
  uint32_t dictionaries = 0, largest = 0;
  kiln_error err;
  kiln_blob_entry e, d;
  *out_needing = 0;
  for (uint32_t i = 0; i < count; i++) {
    must(kiln_bundle_blob_at(b, i, &e, &err), &err);
    if (e.dictionary == KILN_BUNDLE_NO_DICTIONARY) continue;
    must(kiln_bundle_blob_at(b, e.dictionary, &d, &err), &err);
    if (e.dictionary >= dictionaries) dictionaries = e.dictionary + 1u;
    if (d.raw > largest) largest = d.raw, *out_needing = i;
  }
  return dictionaries;
}

// The first load of each of OPENINGS handles decodes the dictionary.
static void measure_decoding(const kiln_buffer *bundle) {
  enum { OPENINGS = 21 };
  kiln_bundle *b = open_bundle(bundle);
  uint32_t count = (uint32_t)b->section_count[KILN_BUNDLE_BLOBS], needing,
           first = first_code(b, count, &needing);
  double *times = malloc((count + OPENINGS) * sizeof *times), openings[OPENINGS];
  for (int round = 0; round < 2; round++)
    for (uint32_t i = first; i < count; i++) times[i - first] = load_us(b, i);
  kiln_bundle_close(b);
  for (int i = 0; i < OPENINGS; i++) {
    b = open_bundle(bundle);
    openings[i] = load_us(b, needing);
    kiln_bundle_close(b);
  }
  printf("  first code, with its dictionary: median %.0f us; then one code decoded and checked: median %.1f "
         "us, 99 %% %.1f us\n",
         quantile(openings, OPENINGS, 50), quantile(times, count - first, 50),
         quantile(times, count - first, 99));
  free(times);
}

static void measure(kiln_bundle_writer *w, const char *name, int level, kiln_bundle_dictionary dictionary) {
  kiln_bundle_sums sums;
  kiln_buffer bundle = {0};
  kiln_error err;
  uint64_t begin = bench_now_ns();
  must(kiln_bundle_writer_build(
           w, &(kiln_bundle_options){.level = level, .dictionary = dictionary, .threads = 2}, &bundle, &sums,
           &err),
       &err);
  double seconds = (double)(bench_now_ns() - begin) / 1e9;
  printf("level %2d, %-19s codes %9llu + dictionaries %7llu = %5.1fx; whole file %9llu = %5.1fx; written in "
         "%.1f s\n",
         level, name, (unsigned long long)sums.payload, (unsigned long long)sums.dictionaries,
         (double)sums.raw / (double)(sums.payload + sums.dictionaries), (unsigned long long)sums.file,
         (double)sums.raw / (double)sums.file, seconds);
  measure_decoding(&bundle);
  kiln_buffer_deinit(&bundle);
}

static void take_folder(kiln_bundle_writer *w, const char *folder) {
  kiln_error err;
  uint64_t raw = 0;
  if (nftw(folder, take_file, 32, FTW_PHYS) || !file_count) {
    fprintf(stderr, "%s: no files ending in %s\n", folder, suffix);
    exit(1);
  }
  for (size_t i = 0; i < file_count; i++) {
    uint32_t kernel;
    must(kiln_bundle_writer_kernel(w, files[i].path + strlen(folder), "interface", 9, &kernel, &err), &err);
    kiln_bundle_code code = {.kernel = kernel,
                             .target = "gfx942",
                             .family = "gfx9",
                             .info = "info",
                             .info_size = 4,
                             .code = files[i].bytes,
                             .code_size = files[i].size};
    must(kiln_bundle_writer_code(w, &code, &err), &err);
    raw += files[i].size;
  }
  printf("%zu files, %llu bytes\n", file_count, (unsigned long long)raw);
}

static void take_bundle(kiln_bundle_writer *w, const char *path) {
  bundle_view v;
  kiln_error err;
  must(bundle_view_open(path, &v, &err), &err);
  must(bundle_view_copy(&v, w, NULL, NULL, false, &err), &err);
  bundle_view_close(&v);
}

static void unpack_code(const bundle_view *v, const view_code *c, const char *folder) {
  char family[DICTIONARY_FAMILY], path[4096];
  uint32_t flags;
  kiln_error err;
  kiln_bytes bytes;
  must(dictionary_family(c->target, c->info.format, family, &flags, &err), &err);
  must(kiln_bundle_load(v->bundle, c->entry.blob, &bytes, &err), &err);
  snprintf(path, sizeof path, "%s/%06u.%s", folder, c->entry.blob, family);
  FILE *out = fopen(path, "wb");
  if (!out || fwrite(bytes.bytes, 1, bytes.size, out) != bytes.size || fclose(out)) {
    perror(path);
    exit(1);
  }
  kiln_bytes_deinit(&bytes);
}

static int unpack(const char *path, const char *folder) {
  bundle_view v;
  kiln_error err;
  must(bundle_view_open(path, &v, &err), &err);
  for (uint32_t k = 0; k < v.kernel_count; k++)
    for (uint32_t i = 0; i < v.kernels[k].code_count; i++) unpack_code(&v, &v.kernels[k].codes[i], folder);
  bundle_view_close(&v);
  return 0;
}

static bool is_bundle(const char *path) {
  size_t length = strlen(path);
  return length > 8 && !strcmp(path + length - 8, ".kbundle");
}

int main(int argc, char **argv) {
  if (argc == 4 && !strcmp(argv[1], "--unpack")) return unpack(argv[2], argv[3]);
  if (argc < 2)
    return fprintf(stderr, "usage: bench_runtime_corpus FOLDER [SUFFIX [LEVEL]] | BUNDLE.kbundle | --unpack "
                           "BUNDLE FOLDER\n"),
           2;
  if (argc > 2) suffix = argv[2];
  kiln_bundle_writer *w = kiln_bundle_writer_create();
  (is_bundle(argv[1]) ? take_bundle : take_folder)(w, argv[1]);
  static const char *const names[] = {[KILN_BUNDLE_DICTIONARY_NONE] = "each for itself",
                                      [KILN_BUNDLE_DICTIONARY_SMALL] = "samples to 2.75 MiB",
                                      [KILN_BUNDLE_DICTIONARY_LARGE] = "samples to 8 MiB"};
  int only = argc > 3 ? atoi(argv[3]) : 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (int level = 3; level <= 19; level += 16)
    for (int d = KILN_BUNDLE_DICTIONARY_NONE; d <= KILN_BUNDLE_DICTIONARY_LARGE; d++)
      if (!only || only == level) measure(w, names[d], level, (kiln_bundle_dictionary)d);
  kiln_bundle_writer_destroy(w);
  return 0;
}
