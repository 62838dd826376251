// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts launches by a hook of its own, which a program has for as long as it wants: hook BUNDLE launches saxpy on
// the host a few times and says how often, how long, and why that config was chosen.
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <kiln/kiln.h>

enum { COUNT = 1000, TIMES = 5 };

/// What the hook writes. It may run in several threads at once.
typedef struct report {
  atomic_uint launches, failures;
  atomic_ullong ns;
  char config[100], why[200]; // of the first launch
} report;

static void observe(void *user, const kiln_event *e) {
  report *r = user;
  kiln_reason reason = {.size = sizeof reason};
  atomic_fetch_add(&r->ns, e->end_ns - e->begin_ns);
  if (e->status != KILN_OK) atomic_fetch_add(&r->failures, 1);
  if (atomic_fetch_add(&r->launches, 1)) return;
  snprintf(r->config, sizeof r->config, "%s", e->choice->config);
  if (kiln_choose_reason(e->kernel, e->block, e->block_size, &reason, NULL) == KILN_OK)
    snprintf(r->why, sizeof r->why, "%s", reason.text);
}

static kiln_status run(const char *bundle, const float *x, float *y, kiln_error *err) {
  kiln_library *library = NULL;
  kiln_device *device = NULL;
  kiln_kernel *saxpy = NULL;
  float a = 0.5f;
  int32_t n = COUNT;
  kiln_status status = kiln_open_file(bundle, &library, err);
  if (status == KILN_OK) status = kiln_device_open(library, "host", &device, err);
  if (status == KILN_OK) status = kiln_kernel_get(device, "saxpy", NULL, &saxpy, err);
  for (int i = 0; i < TIMES && status == KILN_OK; i++)
    status = kiln_launch(saxpy, NULL, (const void *const[]){&a, &x, &y, &n}, 4, err);
  if (device) kiln_device_close(device);
  if (library) kiln_close(library);
  return status;
}

int main(int argc, char **argv) {
  static float x[COUNT], y[COUNT];
  static report r;
  kiln_error err;
  if (argc != 2) return fprintf(stderr, "usage: hook BUNDLE\n"), 2;
  if (kiln_hook_add(observe, &r, KILN_EVENT_LAUNCHED | KILN_EVENT_TIMES, &err) != KILN_OK)
    return fprintf(stderr, "%s\n", err.text), 1;
  kiln_status status = run(argv[1], x, y, &err);
  kiln_hook_remove(observe, &r); // `r` is nobody else's from here on
  if (status != KILN_OK) return fprintf(stderr, "%s\n", err.text), 1;
  printf("%u launches, %u failed, of saxpy %s (%s)\n", r.launches, r.failures, r.config, r.why);
  printf("%.1f us on average\n", (double)r.ns * 1e-3 / TIMES);
  return 0;
}
