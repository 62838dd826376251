// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libkiln: open a bundle of compiled kernels, pick the code that fits this machine and these arguments,
// launch it.
//
//   kiln_library *library;  kiln_device *device;  kiln_kernel *add;  kiln_error err;
//   kiln_open_file("app.kbundle", &library, &err);
//   kiln_device_open(library, "cuda:0", &device, &err);
//   kiln_kernel_get(device, "add", NULL, &add, &err);
//   kiln_launch(add, stream, (const void *const[]){&x, &y, &z, &n}, 4, &err);
//
// Functions fail in one of two ways. Those that return a kiln_status say what came of it, write the reason to
// `err`, and set what they give back to NULL or zeros first; NULL in place of a handle, a result or memory is
// INVALID_ARGUMENT. The others return NULL or 0 where there is nothing to return: for a NULL handle, past the
// end, or because the part of a bundle that is asked for is damaged. Indices of a bundle are checked when
// they are first read, so a bundle that opened may still turn out to be damaged (KILN_CHECK_ALL looks at
// once). Names in a bundle may have any bytes;
// what an error text quotes has its control characters, but line ends and tabs, as \x1b.
//
// The library never prints, never ends the process, reads no environment and has no constructors. `err` may
// be NULL everywhere. All functions may be called from any thread; an object may be closed only when no other
// thread uses it.
//
// Objects are counted: a device keeps its library, so they may be closed in any order. What is used after
// kiln_device_close is INVALID_ARGUMENT ("device 'host' is closed"): closed handles stay allocated until 64
// others, or others of 1 MiB, have been closed after them. Closing again does nothing.
//
// In the child of a fork `host` and `null` devices, their kernels and prepared launches work on, whatever
// other threads were doing. GPU drivers do not follow a fork: there every call on `cuda` and `hip` devices of
// the parent is DRIVER, and closing them frees memory of this process only.
//
// Opening an unsigned bundle that holds host objects means to run what is in it: treat such a file as a
// program.
#ifndef KILN_RUNTIME_KILN_H
#define KILN_RUNTIME_KILN_H

#include <stddef.h>
#include <stdint.h>

#include "base/status_code.h"

#ifdef __cplusplus
extern "C" {
#endif

#if !defined(__linux__)
#error "libkiln runs on Linux (x86-64 and aarch64)"
#endif

#define KILN_API __attribute__((visibility("default")))
#if defined(__cplusplus) && __cplusplus >= 201703L
#define KILN_NOEXCEPT noexcept
#else
#define KILN_NOEXCEPT
#endif

typedef struct kiln_library kiln_library; ///< open bundles, in order
typedef struct kiln_device kiln_device;   ///< one device, seen through one library
typedef struct kiln_kernel kiln_kernel;   ///< one kernel on one device; ends with the device
typedef void
    *kiln_stream; ///< CUstream, hipStream_t; NULL is the default stream. Ignored by `host` and `null`

/// "0.1.0"
KILN_API const char *kiln_version(void);

// ----------------------------------------------------------------------------------------- opening

/// One bundle: a path, bytes in memory (borrowed until the library and its devices are closed), or a file
/// descriptor (not closed; may be closed after the call). A file is read as its bytes are needed, through a
/// descriptor of the library's own; changing or cutting it afterwards is an error of whoever needs what was
/// changed.
typedef struct kiln_source {
  const char *path;
  const void *bytes;
  size_t size; ///< of `bytes`
  int fd;      ///< used when path and bytes are NULL; above 0 (`dup` standard input to give it)
} kiln_source;

enum {
  KILN_EXACT_ONLY = 1, ///< refuse code for generic, family or older processors: a device without exact code
                       ///< for every kernel does not open
  KILN_NO_JIT = 2,     ///< never hand PTX to a driver's compiler: a device that would need it does not open
  KILN_CHECK_ALL = 4,  ///< check every index page and every blob at open, instead of each at its first use
  KILN_NEED_SIGNATURE = 8, ///< a bundle is opened with `verify` only
  KILN_POLICIES = 15,      ///< all of them; any other bit is an error
};

/// ERROR: why a kernel has no code. WARNING: a kernel whose code the driver has to compile, at its first
/// look-up. INFO: any other kernel, at its first look-up.
enum { KILN_LOG_ERROR = 0, KILN_LOG_WARNING = 1, KILN_LOG_INFO = 2 };
/// Called with one paragraph of text; may be called from any thread.
typedef void kiln_log_callback(void *user, int level, const char *text);

/// What is to be verified, in private memory: what is accepted is what is used, whatever happens to the file.
/// At open: `signed_bytes` is the header, `index` what its digest covers, with kind,
/// key and signature from the slot. Later, once for each code loaded: `index` is the code and `digest` its
/// BLAKE2b-256 as the verified index states it; signature is NULL.
typedef struct kiln_verify_request {
  const char *bundle;
  const uint8_t *signed_bytes;
  size_t signed_size;
  const uint8_t *index;
  size_t index_size;
  const uint8_t *digest;     ///< 32 bytes
  const uint8_t *public_key; ///< 32 bytes, from the slot; whether to trust it is the callback's decision
  const uint8_t *signature;  ///< 64 bytes, Ed25519; NULL when the slot is empty or for a code
} kiln_verify_request;
/// Returns 1 to accept. libkiln-verify has one over libsodium.
typedef int kiln_verify_callback(void *user, const kiln_verify_request *request);

typedef struct kiln_open_options {
  size_t size;                ///< sizeof(kiln_open_options)
  const kiln_source *sources; ///< earlier ones win where codes fit equally well
  size_t source_count;
  uint32_t policy;        ///< KILN_EXACT_ONLY | ...
  kiln_log_callback *log; ///< may be NULL
  void *log_user;
  kiln_verify_callback *verify; ///< may be NULL: nothing is verified; a bundle that it refuses does not open
  void *verify_user;
  // What a bundle states of itself (`kiln sign --name --version`), for each source. Another one is UNTRUSTED.
  // Without `verify` anybody can state anything.
  uint64_t min_version; ///< the least version that opens; 0: any
  const char *name;     ///< the only name that opens; NULL: any
} kiln_open_options;

/// A library without sources is allowed: devices can be opened and memory used, there are no kernels.
KILN_API kiln_status kiln_open(const kiln_open_options *options, kiln_library **out, kiln_error *err);
KILN_API kiln_status kiln_open_file(const char *path, kiln_library **out, kiln_error *err);
KILN_API kiln_status kiln_open_memory(const void *bytes, size_t size, kiln_library **out, kiln_error *err);
/// Closes the library: it opens no further device and names no kernels. The bundles (bytes in memory, the
/// callbacks and their user pointers too) are in use until the last of its devices is closed as well.
KILN_API void kiln_close(kiln_library *library);

/// Names of kernels, in order of name within each bundle. Borrowed from the library. Errors: NOT_FOUND (past
/// the end), CORRUPT.
KILN_API size_t kiln_kernel_count(const kiln_library *library);
KILN_API kiln_status kiln_kernel_at(const kiln_library *library, size_t index, const char **out,
                                    kiln_error *err);
/// The same without the reason: NULL past the end and where the bundle is damaged.
KILN_API const char *kiln_kernel_name(const kiln_library *library, size_t index);

// ----------------------------------------------------------------------------------------- devices

/// "host" (all processors; "host:4": four threads), "cuda:0", "hip:0", "null" (accepts everything and runs
/// nothing, for measuring), or "null:sm_90" (chooses as that device would, and runs nothing); "null:1" and
/// "null:1:sm_90" are further ones. Errors: NO_DEVICE (driver or device absent, with what was tried),
/// NO_VARIANT (a policy cannot be kept).
///
/// A program may open any number of devices from one library. Each has its own kernels, loaded code, tuned
/// choices and prepared launches. Every call makes the device that it is about current in the thread (a CUDA
/// context, a HIP device), and returns with the one current that was. Memory and streams belong to the device
/// that made them. A launch on a stream of another device is INVALID_ARGUMENT, with both names; any device
/// may wait for it. libkiln does not ask whose memory an address is: a kernel that is given memory of another
/// device does what the hardware does.
KILN_API kiln_status kiln_device_open(kiln_library *library, const char *name, kiln_device **out,
                                      kiln_error *err);
/// Unloads what was loaded and ends the device's kernels. Nothing of it may still run. Memory of a GPU is to
/// be freed before; that of the host may be freed later. NULL is fine.
KILN_API void kiln_device_close(kiln_device *device);
/// "sm_90", "gfx942:sramecc+:xnack-", "x86-64-v3", "null"
KILN_API const char *kiln_device_target_name(const kiln_device *device);
/// The driver's name of the device ("NVIDIA H200").
KILN_API const char *kiln_device_description(const kiln_device *device);
/// Its compute units: threads of the host, multiprocessors of a GPU; 0 where it is not known.
KILN_API uint32_t kiln_device_units(const kiln_device *device);

KILN_API kiln_status kiln_stream_create(kiln_device *device, kiln_stream *out, kiln_error *err);
KILN_API void kiln_stream_destroy(kiln_device *device, kiln_stream stream);
/// Waits for all work given to `stream`. With it come errors of earlier launches.
KILN_API kiln_status kiln_sync(kiln_device *device, kiln_stream stream, kiln_error *err);

/// Device memory, for programs that have no framework to do it. Sizes in bytes. Copies are complete when the
/// call returns.
KILN_API kiln_status kiln_alloc(kiln_device *device, size_t size, void **out, kiln_error *err);
KILN_API void kiln_free(kiln_device *device, void *memory);
KILN_API kiln_status kiln_copy_in(kiln_device *device, void *to_device, const void *from, size_t size,
                                  kiln_error *err);
KILN_API kiln_status kiln_copy_out(kiln_device *device, void *to, const void *from_device, size_t size,
                                   kiln_error *err);
KILN_API kiln_status kiln_fill(kiln_device *device, void *memory, uint8_t byte, size_t size, kiln_error *err);

// ----------------------------------------------------------------------------------------- kernels

/// What the caller was compiled for; made by `kiln header`. `abi` 0: not checked.
typedef struct kiln_signature {
  uint64_t abi;
  const char *params; ///< "x: *f32, n: i32", for the message
} kiln_signature;

/// Looks `name` up ("softmax[T=f16]"), checks the signature when it is not NULL, and picks codes for the
/// device. Loads nothing. The same call again gives the same handle. Errors: NOT_FOUND, ABI (naming both
/// lists), NO_VARIANT (the text is the miss report, see kiln_explain).
KILN_API kiln_status kiln_kernel_get(kiln_device *device, const char *name, const kiln_signature *signature,
                                     kiln_kernel **out, kiln_error *err);

/// How the arguments lie in the packed block.
typedef struct kiln_param {
  const char *name;
  const char *type; ///< "*f32", "i32", "view bf16" (base, extents, strides as i64)
  uint32_t offset, size;
  uint8_t rank;    ///< of a view, else 0
  uint8_t pointer; ///< depth
  uint8_t access;  ///< 0 scalar, 1 in, 2 out, 3 inout, 4 accum
} kiln_param;
KILN_API size_t kiln_param_count(const kiln_kernel *kernel);
KILN_API kiln_status kiln_param_at(const kiln_kernel *kernel, size_t index, kiln_param *out);
/// Bytes of the packed block.
KILN_API size_t kiln_block_size(const kiln_kernel *kernel);
KILN_API uint64_t kiln_kernel_abi(const kiln_kernel *kernel);
/// What the source states for callers that allocate outputs, "y[rows, cols], rstd[rows]" (@returns), and the
/// name of the kernel of the derivatives (@backward). NULL where it states nothing.
KILN_API const char *kiln_kernel_returns(const kiln_kernel *kernel);
KILN_API const char *kiln_kernel_backward(const kiln_kernel *kernel);

/// Loads every code of the kernel that the device could launch, so that no later launch loads (needed before
/// graph capture).
KILN_API kiln_status kiln_preload(kiln_kernel *kernel, kiln_error *err);

/// Launches with `args[i]` pointing to the value of parameter i (a view: base, extents, strides). Errors:
/// LAUNCH (a promised fact is broken, a launch expression failed, the kernel states no grid, it is above the
/// device's limit), NO_VARIANT (no config allows these arguments), INVALID_ARGUMENT (the stream is of another
/// device), CORRUPT, DRIVER, ASSERT (host only). An empty grid is success and launches nothing. Warm, it
/// takes no lock, allocates nothing and makes no system call. `host` runs the grid to its end before
/// returning.
KILN_API kiln_status kiln_launch(kiln_kernel *kernel, kiln_stream stream, const void *const *args,
                                 size_t arg_count, kiln_error *err);
/// The same with the arguments packed already: kiln_block_size bytes, kiln_param.offset says where each lies.
KILN_API kiln_status kiln_launch_packed(kiln_kernel *kernel, kiln_stream stream, const void *block,
                                        size_t size, kiln_error *err);

/// The same with a grid of the caller's, for kernels whose source states none: Triton IR leaves it to the
/// launcher. It replaces the kernel's own; NULL: the kernel's own after all.
KILN_API kiln_status kiln_launch_grid(kiln_kernel *kernel, kiln_stream stream, const uint32_t grid[3],
                                      const void *block, size_t size, kiln_error *err);

/// Whether some launch of the kernel may use scratch memory.
KILN_API int kiln_kernel_uses_scratch(kiln_kernel *kernel);
/// How many bytes of scratch memory a launch with these arguments may use (`launches` in its source): 0 for most kernels, and
/// where the kernel is as fast without. `block` as for kiln_launch_packed. Errors: LAUNCH (the expression
/// overflows), OUT_OF_MEMORY.
KILN_API kiln_status kiln_scratch_size(kiln_kernel *kernel, const void *block, size_t size, size_t *out,
                                       kiln_error *err);
/// Launches with scratch memory of the device: the kernel then may run as several launches, which is faster
/// where kiln_scratch_size is above 0. `scratch` is a multiple of 128 bytes; it need not be cleared, is
/// overwritten, and may be used again by what `stream` runs afterwards. NULL, or less than kiln_scratch_size:
/// the kernel runs without, as by kiln_launch_packed. Errors are those of kiln_launch; what was launched
/// before an error runs.
KILN_API kiln_status kiln_launch_scratch(kiln_kernel *kernel, kiln_stream stream, const void *block,
                                         size_t size, void *scratch, size_t scratch_bytes, kiln_error *err);
/// The name of launch `index` of those that kiln_launch_scratch would make with these arguments. Borrowed
/// from the kernel. NOT_FOUND past the last; at 0, the kernel would run itself.
KILN_API kiln_status kiln_scratch_launch_at(kiln_kernel *kernel, const void *block, size_t size,
                                            const void *scratch, size_t scratch_bytes, size_t index,
                                            const char **out, kiln_error *err);

/// Whether the arguments of a launch say how much memory parameter `index` needs: a pointer for which the
/// source states it (@size), or a view. 0 for others.
KILN_API int kiln_param_has_size(const kiln_kernel *kernel, size_t index);
#define KILN_SIZE_UNKNOWN ((size_t)-1)
/// Compares what these arguments need with what the caller has, before a launch: `bytes[i]` is how many bytes
/// there are from the address that is parameter i on, or KILN_SIZE_UNKNOWN; those of scalars are not read.
/// `block` as for kiln_launch_packed. Launches do not call it. LAUNCH names the first parameter with too few,
/// with both numbers in elements; so does an expression that overflows or is negative.
KILN_API kiln_status kiln_check_sizes(const kiln_kernel *kernel, const void *block, size_t size,
                                      const size_t *bytes, size_t count, kiln_error *err);

/// A launch with everything decided before: arguments packed and checked, code chosen and loaded, grid
/// evaluated, tensor maps encoded. Launching it hands the block to the driver and does nothing else. Any
/// kernel can be prepared. One may be launched from several threads at once, but not while it is changed or
/// freed.
typedef struct kiln_prepared kiln_prepared;
/// `args` as for kiln_launch; `grid` NULL: the kernel's own. Errors are those of kiln_launch. Free with
/// kiln_prepared_free, before or after the device is closed; launched after, it is INVALID_ARGUMENT.
KILN_API kiln_status kiln_prepare(kiln_kernel *kernel, const void *const *args, size_t arg_count,
                                  const uint32_t *grid, kiln_prepared **out, kiln_error *err);
/// Changes argument `index`. One on which nothing depends is stored, after its alignment is tested; any other
/// is decided anew: facts, code (loaded where it was not: call kiln_preload before a capture), grid and
/// tensor maps. After an error everything is as before.
KILN_API kiln_status kiln_prepared_set(kiln_prepared *prepared, size_t index, const void *value,
                                       kiln_error *err);
/// Gives a prepared launch scratch memory, as kiln_launch_scratch takes it, which stays in use until another
/// is given; NULL takes it away. What is launched is decided again, here and whenever an argument changes.
KILN_API kiln_status kiln_prepared_scratch(kiln_prepared *prepared, void *scratch, size_t scratch_bytes,
                                           kiln_error *err);
KILN_API kiln_status kiln_prepared_launch(kiln_prepared *prepared, kiln_stream stream, kiln_error *err);
/// The bytes that the driver gets: parameters, then tensor maps at multiples of 64. Borrowed. `out_size` may
/// be NULL.
KILN_API const void *kiln_prepared_block(const kiln_prepared *prepared, size_t *out_size);
KILN_API void kiln_prepared_free(kiln_prepared *prepared);

/// What a launch with these arguments would run, without running it.
typedef struct kiln_choice {
  const char *config;  ///< "BLOCK=1024,warps=4"
  const char *variant; ///< "cols % 16 == 0"; "" for the generic one
  const char *target;
  const char *bundle;
  uint32_t grid[3], block_threads, shared_bytes, registers, spill_bytes;
  unsigned rank; ///< 0 is the closest fit; see kiln_candidate
} kiln_choice;
KILN_API kiln_status kiln_choose(kiln_kernel *kernel, const void *block, size_t size, kiln_choice *out,
                                 kiln_error *err);

/// Why that config. Choices that were tuned (docs/tuning.md) come with the bundles; of several bundles the
/// first that has some for kernel and device counts, so one without codes that is listed first overrides.
typedef enum kiln_chosen_by {
  KILN_BY_ORDER = 0, ///< the first of the source that may be used: nothing was tuned
  KILN_BY_TABLE = 1, ///< tuned for arguments like these
  KILN_BY_NEAREST =
      2, ///< tuned for the nearest arguments, within an octave, for which its config may be used
  KILN_BY_DEFAULT = 3, ///< the first of the source: the arguments lie outside of what was tuned, or nothing
                       ///< that may be used was tuned near them
  KILN_BY_COST = 4,    ///< the one with the least cost that may be used: nothing was tuned for arguments like
                       ///< these, or what was costs more than a quarter above the least
} kiln_chosen_by;
typedef struct kiln_reason {
  size_t size; ///< set by the caller: sizeof(kiln_reason)
  kiln_chosen_by by;
  const char *text;  ///< a sentence
  const char *entry; ///< the line of the choice and what follows it, up to entry_size; "" without one
  size_t entry_size;
  const char *bundle; ///< that has the choices; ""
} kiln_reason;
/// What kiln_choose chose, and why. The texts are borrowed from the library.
KILN_API kiln_status kiln_choose_reason(kiln_kernel *kernel, const void *block, size_t size, kiln_reason *out,
                                        kiln_error *err);

/// From now on the library's kernels that are looked up for the first time (kiln_kernel_get) note the shapes
/// for which no choice was tuned: once for each bin of the arguments (docs/tuning.md), in memory, without a
/// lock; at most 1,024 a kernel, of the others the file says how many launches they were. Off until called:
/// call it between kiln_open and kiln_device_open, from one thread. Called again it names another file.
KILN_API kiln_status kiln_record_shapes(kiln_library *library, const char *path, kiln_error *err);
/// Writes what was noted to that file, whole or not at all, in place of what it held: one line a shape, as
/// `kiln tune --record` takes them. A device or a FIFO is written as it is. May be called while kernels are
/// launched.
KILN_API kiln_status kiln_write_shapes(kiln_library *library, kiln_error *err);

// ------------------------------------------------------------------------------------------ misses

/// Why each code of a kernel fits a device or not.
typedef struct kiln_report kiln_report;
typedef struct kiln_candidate {
  const char *bundle, *target, *config, *variant;
  unsigned rank;    ///< 0 exact with modes, 1 exact, 2 generic, 3 same major, 4 family, 5 PTX, 255 refused
  const char *rule; ///< why it was refused; "" when it fits
} kiln_candidate;
/// Never fails for an unknown kernel: the report then says so. Free with kiln_report_free.
KILN_API kiln_status kiln_explain(kiln_device *device, const char *name, kiln_report **out, kiln_error *err);
/// One paragraph: the device, what was wanted, each distinct target and the rule, what to do.
KILN_API const char *kiln_report_text(const kiln_report *report);
KILN_API size_t kiln_report_count(const kiln_report *report);
KILN_API kiln_status kiln_report_at(const kiln_report *report, size_t index, kiln_candidate *out);
KILN_API void kiln_report_free(kiln_report *report);

/// Will every kernel of the library run on this device, and by which path? Counts kernels by their best rank; one that
/// several bundles have counts once, by the best of all.
typedef struct kiln_preflight {
  size_t kernels, exact, generic, jit, missing;
  const char *first_missing; ///< borrowed from the library; NULL when none
} kiln_preflight;
KILN_API kiln_status kiln_device_preflight(kiln_device *device, kiln_preflight *out, kiln_error *err);

// ----------------------------------------------------------------------------------------- hooks

/// What happened; a hook asks for a set of these.
enum {
  KILN_EVENT_LAUNCH = 1,   ///< a launch begins: the arguments are checked, the code is chosen and loaded
  KILN_EVENT_LAUNCHED = 2, ///< and ends: the driver has it, or refused it (`status`); on `host` it has run
  KILN_EVENT_LOADED = 4,   ///< a code was given to the driver (`status`), or mapped on `host`
  KILN_EVENT_UNLOAD = 8,   ///< a code goes
  KILN_EVENT_MESSAGE = 16, ///< what the log of a library gets, of WARNING and INFO
  KILN_EVENT_MISS = 32,    ///< a kernel has no code for the device, or none for the arguments of a launch
  KILN_EVENT_OPENED = 64,  ///< a bundle was opened
  KILN_EVENT_TIMES = 128,  ///< no event: LAUNCHED has times
};

/// One event. What it points to is borrowed until the hook returns, names and other texts of kernels until the
/// library and its devices are closed. The comments say of which kinds a field is; otherwise it is 0 or NULL.
typedef struct kiln_event {
  size_t size;               ///< sizeof(kiln_event) of the library
  uint32_t kind;             ///< one of KILN_EVENT_
  int level;                 ///< KILN_LOG_: MESSAGE, MISS
  const char *text;          ///< MESSAGE, MISS: one paragraph; OPENED: the name of the bundle
  kiln_device *device;       ///< all but OPENED
  const char *device_name;   ///< "cuda:0"
  const char *kernel_name;   ///< "softmax[T=f16]": all but UNLOAD and OPENED
  kiln_kernel *kernel;       ///< LAUNCH, LAUNCHED, LOADED; also the next two
  const char *symbol;        ///< the kernel's name in the code
  const kiln_choice *choice; ///< what is launched; LOADED: the first that wants the code, without a grid
  const void
      *function;      ///< CUfunction, hipFunction_t; on `host` the address: LAUNCH, LAUNCHED, LOADED, UNLOAD
  kiln_stream stream; ///< LAUNCH, LAUNCHED; also the next two
  const void *block;  ///< the arguments. kiln_choose_reason says for them why the config was chosen
  size_t block_size;
  kiln_status status;        ///< LAUNCHED, LOADED
  uint64_t begin_ns, end_ns; ///< LAUNCHED, with TIMES: around the driver's call, by CLOCK_MONOTONIC
  const void *code;          ///< LOADED: what was given: cubin, PTX, HSACO; of `host` an ELF
  size_t code_size;
} kiln_event;

/// Called in the thread in which it happens, so from several threads at once. It must return: a C++ function
/// that may throw is refused by the compiler (from C++17 on; one that throws all the same ends the program), and it
/// must not be left by longjmp. How long it takes is added to the launch; others do not wait for it. At
/// LAUNCH and LAUNCHED it may call kiln_choose_reason and what reads parameters of the kernel; at the
/// others nothing of this library, whose locks may be held. Launches that it makes itself, against that
/// rule, are not told to any hook.
typedef void kiln_hook(void *user, const kiln_event *event) KILN_NOEXCEPT;

/// From now on `hook` is called with `user` for events of the process whose kind is in `kinds`, whatever library or
/// device they are of. At most four at a time: LIMIT. Launches pay nothing for hooks while there are none,
/// not even a test. An empty grid launches nothing, so it is no event; nor is what a captured graph launches when it is
/// replayed. `kiln_launch_scratch` is an event for each launch that it makes.
KILN_API kiln_status kiln_hook_add(kiln_hook *hook, void *user, uint32_t kinds, kiln_error *err);
/// Ends it. When this returns, the hook is in no thread and will not be called again, so that `user` may be
/// freed: it waits for launches of other threads that have begun, whose LAUNCHED the hook still gets. So hold
/// no lock that the hook takes. Called in a hook it returns at once, and other threads may still be in theirs. Of
/// what was not added nothing is removed.
KILN_API void kiln_hook_remove(kiln_hook *hook, void *user);

#ifdef __cplusplus
}
#endif
#endif
