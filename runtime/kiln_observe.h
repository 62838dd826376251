// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libkiln-observe: what libkiln launches, as a log, as counters, as ranges of NVTX and rocTX, and host kernels
// by name in `perf` and gdb. It is a hook (kiln_hook_add) and uses nothing else of libkiln:
//
//   kiln_observe_start("counters,nvtx", "warning,launch", "app.log", &err);
//   ...
//   kiln_observe_stop();
//
// A program that was not written for it loads it by LD_PRELOAD; then, and wherever it is linked as a shared
// library, it starts by itself if one of these is set in the environment (not in programs with more rights than their caller):
//
//   KILN_OBSERVE=counters,nvtx,roctx,perf,gdb   what to do
//   KILN_LOG=warning,launch                     what to log
//   KILN_LOG_FILE=app.log                       where to; standard error without it
//   KILN_COUNTERS_FILE=app.prom                 counters, written when the program ends, in Prometheus' format;
//                                               %p is the process; the child of a fork adds its own: app.prom.7525
#ifndef KILN_RUNTIME_KILN_OBSERVE_H
#define KILN_RUNTIME_KILN_OBSERVE_H

#include "runtime/kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Starts. `what`: a list with commas of
///   counters   counts launches, loads and misses of each kernel
///   nvtx       a range around each launch, for the tool that NVTX_INJECTION64_PATH names (Nsight Systems sets
///              it), or for libnvToolsExt
///   roctx      the same for rocprofiler's library of ranges
///   perf       host kernels in /tmp/perf-PID.map, which `perf report` reads
///   gdb        host kernels by gdb's interface for JIT compilers
/// `log`: NULL, or a list with commas of `open`, `load`, `choose` (kernels looked up, and what the library has to
/// say of them), `miss`, `launch`, `warning` (misses and warnings), `all`. `log_file`: NULL is standard error. Errors:
/// INVALID_ARGUMENT (another word; it has started already), TOOL (no library for ranges), DENIED and others (the file of
/// the log); nothing has started then. A map for `perf` that cannot be written is a line on standard error. Kernels that
/// were loaded before are not seen by `perf` and gdb.
KILN_API kiln_status kiln_observe_start(const char *what, const char *log, const char *log_file,
                                        kiln_error *err);
/// Ends it: waits for launches that have begun. Counters stay. Only one thread may start or stop at a time.
KILN_API void kiln_observe_stop(void);

/// Observes one more libkiln of the process, which dlopen opened so that its functions are not those of the
/// program (RTLD_LOCAL): `libkiln` is what dlopen returned. It stays loaded. The program's own needs no call. At most
/// eight: LIMIT. Errors: UNSUPPORTED, it is older and has no hooks.
KILN_API kiln_status kiln_observe_attach(void *libkiln, kiln_error *err);

/// What was counted of a kernel on a device.
typedef struct kiln_counter {
  const char *device, *kernel; ///< "cuda:0", "softmax[T=f16]"; they stay
  uint64_t launches;           ///< that the driver took
  uint64_t failures;           ///< that it refused, or that ended with an error on `host`
  uint64_t loads;              ///< codes that were loaded
  uint64_t load_failures;
  uint64_t
      fallbacks;   ///< of `loads` those that are not made for this very processor (kiln_choice.rank above 1)
  uint64_t misses; ///< look-ups without code, launches without code for their arguments
} kiln_counter;
/// Counter `index`, in the order of their first events. NOT_FOUND past the last. Of more than 4,000 kernels what
/// is too much is counted as one, "others". The child of a fork counts from 0.
KILN_API kiln_status kiln_observe_counter_at(size_t index, kiln_counter *out);
/// The same as text in the format that Prometheus reads, cut to `size` with a NUL. Returns how many bytes it has whole, without the
/// NUL.
KILN_API size_t kiln_observe_prometheus(char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
