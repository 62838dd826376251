// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures how long launches take, with the device's events on NVIDIA GPUs and with the host's clock
// elsewhere.
#include "tools/tune/timer.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "runtime/device/driver_library.h"
#include "tools/common/cli.h"

// The size of the memory that is written to flush the L2 cache, and how much is timed together.
enum {
  FLUSH_BYTES = 256 << 20,
  LEAST_NS = 20000,
  LEAST_GRAPH_NS = 200000,
  MOST_TOGETHER = 1000,
  MOST_EVENTS = 64
};

typedef struct cuda_api {
#define CLOCK(field, symbol, parameters) int(*field) parameters;
#include "tools/tune/cuda_events.def"
#undef CLOCK
} cuda_api;

static const char symbols[] =
#define CLOCK(field, symbol, parameters) KILN_DRIVER_REQUIRED(symbol)
#include "tools/tune/cuda_events.def"
#undef CLOCK
    ;

struct tune_timer {
  kiln_device *device;          // borrowed
  const tune_restore *restores; // borrowed
  size_t restore_count;
  kiln_stream stream; // owned; NULL where the device has none
  bool is_cuda, is_hot;
  cuda_api cuda;
  void *flush;               // owned: memory of the device
  void *events[MOST_EVENTS]; // end with the process
};

#define CUDA_TRY(call)                                                                                   \
  do {                                                                                                   \
    int cuda_result = timer->cuda.call;                                                                  \
    if (cuda_result) return kiln_fail(err, KILN_STATUS_DRIVER, "%s: CUDA error %d", #call, cuda_result); \
  } while (0)

static kiln_status open_cuda(tune_timer *timer, const char *name, kiln_error *err) {
  static const char *const libraries[] = {"libcuda.so.1", "libcuda.so", NULL};
  int device = 0;
  void *context = NULL;
  KILN_TRY(kiln_driver_library_open(libraries, symbols, &timer->cuda, err));
  const char *colon = strchr(name, ':');
  CUDA_TRY(device_get(&device, colon ? (int)strtol(colon + 1, NULL, 10) : 0));
  CUDA_TRY(primary_retain(&context, device)); // the one that libkiln uses; until the process ends
  CUDA_TRY(context_set(context));
  for (unsigned i = 0; i < MOST_EVENTS; i++) CUDA_TRY(event_create(&timer->events[i], 0));
  return timer->is_hot ? KILN_OK : kiln_alloc(timer->device, FLUSH_BYTES, &timer->flush, err);
}

kiln_status tune_timer_open(kiln_device *device, const char *name, bool is_hot, tune_timer **out,
                            kiln_error *err) {
  *out = NULL;
  tune_timer *timer = calloc(1, sizeof *timer);
  if (!timer) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  timer->device = device;
  timer->is_hot = is_hot;
  timer->is_cuda = !strncmp(name, "cuda", 4);
  kiln_status status = kiln_stream_create(device, &timer->stream, err);
  if (status == KILN_OK && timer->is_cuda) status = open_cuda(timer, name, err);
  if (status == KILN_OK) *out = timer;
  else tune_timer_close(timer);
  return status;
}

void tune_timer_close(tune_timer *timer) {
  if (!timer) return;
  if (timer->flush) kiln_free(timer->device, timer->flush);
  if (timer->stream) kiln_stream_destroy(timer->device, timer->stream);
  free(timer);
}

void tune_timer_restore(tune_timer *timer, const tune_restore *restores, size_t count) {
  timer->restores = restores;
  timer->restore_count = count;
}

bool tune_timer_copies(const tune_timer *timer) { return timer->is_cuda; }

kiln_status tune_timer_copy(tune_timer *timer, void *to, const void *from, size_t size, kiln_error *err) {
  CUDA_TRY(copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, size, NULL));
  return KILN_OK;
}

// ---------------------------------------------------------------------------------- by this process

static kiln_status restore_here(tune_timer *timer, kiln_error *err) {
  for (size_t i = 0; i < timer->restore_count; i++) {
    const tune_restore *r = &timer->restores[i];
    KILN_TRY(kiln_copy_in(timer->device, r->to, r->from, r->size, err));
  }
  return KILN_OK;
}

static kiln_status time_here(tune_timer *timer, kiln_prepared *prepared, unsigned together, double *out_ns,
                             kiln_error *err) {
  KILN_TRY(restore_here(timer, err));
  uint64_t begin = cli_now_ns();
  for (unsigned i = 0; i < together; i++) KILN_TRY(kiln_prepared_launch(prepared, timer->stream, err));
  KILN_TRY(kiln_sync(timer->device, timer->stream, err));
  *out_ns = (double)(cli_now_ns() - begin) / together;
  return KILN_OK;
}

static unsigned together_for(double ns, double least) {
  double count = least / (ns > 1 ? ns : 1) + 1;
  return count > MOST_TOGETHER ? MOST_TOGETHER : (unsigned)count;
}

static kiln_status time_on_host(tune_timer *timer, kiln_prepared *prepared, double *out_ns, size_t count,
                                kiln_error *err) {
  double warm;
  KILN_TRY(time_here(timer, prepared, 1, &warm, err));
  unsigned together = timer->restore_count ? 1 : together_for(warm, LEAST_NS);
  for (size_t i = 0; i < count; i++) KILN_TRY(time_here(timer, prepared, together, &out_ns[i], err));
  return KILN_OK;
}

// --------------------------------------------------------------------------------- by device events

static kiln_status elapsed_ns(tune_timer *timer, unsigned first, double *out_ns, kiln_error *err) {
  float ms;
  CUDA_TRY(event_elapsed(&ms, timer->events[first], timer->events[first + 1]));
  *out_ns = (double)ms * 1e6;
  return KILN_OK;
}

// The flush before a launch takes so long that the launch waits in the device's queue, not in this process.
static kiln_status enqueue_one(tune_timer *timer, kiln_prepared *prepared, unsigned event, kiln_error *err) {
  for (size_t i = 0; i < timer->restore_count; i++) {
    const tune_restore *r = &timer->restores[i];
    CUDA_TRY(copy((uint64_t)(uintptr_t)r->to, (uint64_t)(uintptr_t)r->from, r->size, timer->stream));
  }
  if (timer->flush) CUDA_TRY(memory_set((uint64_t)(uintptr_t)timer->flush, 0, FLUSH_BYTES, timer->stream));
  CUDA_TRY(event_record(timer->events[event], timer->stream));
  KILN_TRY(kiln_prepared_launch(prepared, timer->stream, err));
  CUDA_TRY(event_record(timer->events[event + 1], timer->stream));
  return KILN_OK;
}

// An untimed launch brings the code into the caches, as when a kernel runs repeatedly: others were measured
// in between.
static kiln_status time_cold(tune_timer *timer, kiln_prepared *prepared, double *out_ns, size_t count,
                             kiln_error *err) {
  KILN_TRY(kiln_prepared_launch(prepared, timer->stream, err));
  for (size_t done = 0; done < count;) {
    size_t now = count - done < MOST_EVENTS / 2 ? count - done : MOST_EVENTS / 2;
    for (size_t i = 0; i < now; i++) KILN_TRY(enqueue_one(timer, prepared, (unsigned)(2 * i), err));
    CUDA_TRY(event_sync(timer->events[2 * now - 1]));
    for (size_t i = 0; i < now; i++) KILN_TRY(elapsed_ns(timer, (unsigned)(2 * i), &out_ns[done + i], err));
    done += now;
  }
  return KILN_OK;
}

// Captures `together` launches as a graph, so that the host's processor is not measured.
static kiln_status make_graph(tune_timer *timer, kiln_prepared *prepared, unsigned together, void **out,
                              kiln_error *err) {
  void *graph = NULL;
  kiln_status status = KILN_OK;
  CUDA_TRY(capture_begin(timer->stream, 2 /* relaxed */));
  for (unsigned i = 0; i < together && status == KILN_OK; i++)
    status = kiln_prepared_launch(prepared, timer->stream, err);
  CUDA_TRY(capture_end(timer->stream, &graph));
  if (status == KILN_OK) CUDA_TRY(graph_instantiate(out, graph, 0));
  CUDA_TRY(graph_drop(graph));
  return status;
}

static kiln_status time_graph(tune_timer *timer, void *graph, unsigned together, double *out_ns,
                              kiln_error *err) {
  CUDA_TRY(event_record(timer->events[0], timer->stream));
  CUDA_TRY(graph_launch(graph, timer->stream));
  CUDA_TRY(event_record(timer->events[1], timer->stream));
  CUDA_TRY(event_sync(timer->events[1]));
  KILN_TRY(elapsed_ns(timer, 0, out_ns, err));
  *out_ns /= together;
  return KILN_OK;
}

static kiln_status time_hot(tune_timer *timer, kiln_prepared *prepared, double *out_ns, size_t count,
                            kiln_error *err) {
  double warm = 0;
  void *graph = NULL;
  KILN_TRY(time_cold(timer, prepared, &warm, 1, err));
  unsigned together = together_for(warm, LEAST_GRAPH_NS);
  KILN_TRY(make_graph(timer, prepared, together, &graph, err));
  kiln_status status = time_graph(timer, graph, together, &warm, err); // its upload
  for (size_t i = 0; i < count && status == KILN_OK; i++)
    status = time_graph(timer, graph, together, &out_ns[i], err);
  CUDA_TRY(graph_free(graph));
  return status;
}

kiln_status tune_timer_time(tune_timer *timer, kiln_prepared *prepared, double *out_ns, size_t count,
                            kiln_error *err) {
  if (!timer->is_cuda) return time_on_host(timer, prepared, out_ns, count, err);
  return timer->is_hot && !timer->restore_count ? time_hot(timer, prepared, out_ns, count, err)
                                                : time_cold(timer, prepared, out_ns, count, err);
}
