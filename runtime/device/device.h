// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of the runtime share about libraries, devices and kernels.
#ifndef KILN_RUNTIME_DEVICE_DEVICE_H
#define KILN_RUNTIME_DEVICE_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/record.h"
#include "runtime/bundle/reader.h"
#include "runtime/handles.h"
#include "base/status.h"
#include "runtime/kiln.h"
#include "targets/targets.h"

struct kiln_library {
  kiln_fork_node fork;
  kiln_closed_node closed;
  _Atomic(uint32_t) references; // the application's until kiln_close, one of each open device
  atomic_bool is_closed;        // by the application
  kiln_bundle **bundles;        // owned
  size_t bundle_count;
  uint32_t policy;
  kiln_log_callback *log; // may be NULL
  void *log_user;
  char *record_path;                         // owned; NULL: shapes are not recorded
  _Atomic(struct kiln_recorder *) recorders; // owned list
};

/// Machine code that a device has taken. What `function` and `module` are is the device's matter.
typedef struct kiln_module {
  struct kiln_module *next; // owned list of the device
  const kiln_bundle *bundle;
  uint32_t blob;
  char *symbol; // owned: one code has one entry point, but a blob may be shared by names
  void *module, *function;
  uint32_t maps_at;  // of a code with tensor maps: where the device wants the first in the block
  uint32_t clusters; // of a code whose blocks form clusters: how many the device runs at a time; 0: unknown
} kiln_module;

struct kiln_tensor_map;
struct kiln_tensor_map_values;
struct kiln_block_words;
struct kiln_code;
/// Encodes the tensor maps of a code: runtime/tensor_map.h
typedef kiln_status kiln_maps_encoder(const kiln_kernel *kernel, const struct kiln_code *code,
                                      const struct kiln_block_words *changes,
                                      struct kiln_tensor_map_values *known, uint8_t *block, kiln_error *err);

/// The code of one config and variant of a kernel on one device. What a launch reads lies first.
typedef struct kiln_code {
  _Atomic(void *) function; // NULL until loaded
  bool is_present, is_ptx;
  bool has_extras; // more than the parameters lies in the block: runtime/launch_extras.h
  uint8_t rank;
  uint16_t target;
  uint32_t grid_limit[3]; // the device's, or less where the code wants less
  uint32_t blob;
  uint32_t config, variant;
  uint32_t map_count;
  uint32_t grid_at;    // with info.blocks: where the logical grid lies in the block
  uint32_t params_end; // where the parameters and that grid end
  uint32_t maps_at;    // where the maps lie in the block: a multiple of 64, or what the device says before
                       // `function` is set
  uint32_t clusters;   // as in kiln_module, before `function` is set
  const struct kiln_tensor_map *maps; // arena of the kernel
  kiln_maps_encoder *encode_maps;     // with maps
  struct kiln_memo *memo;             // arena: what the last launch with extras passed; NULL: too large
  struct kiln_kernel *kernel;         // that has it
  kiln_code_info info;                // texts in the bundle
} kiln_code;

/// One launch, for the device's launch function.
typedef struct kiln_launch_call {
  void *function;
  const kiln_code *code;
  uint32_t grid[3];
  kiln_stream stream;
  const void *block;
  size_t size; // bytes that the parameters take, without the block's final padding
} kiln_launch_call;

typedef struct kiln_device_kind {
  char name[6];  // "cuda"
  bool is_gone;  // of a device that is closed, or was forked away from: every call is a status
  bool outlives; // the host's memory: `release` works after the device has gone
  /// In the child of a fork, where only the calling thread is left. NULL: the device stays with the parent.
  void (*in_child)(kiln_device *device);
  /// `rest` is what follows "cuda:"; "" without a colon. Fills target, description, grid_limit, state.
  kiln_status (*open)(kiln_device *device, const char *rest, kiln_error *err);
  void (*close)(kiln_device *device);
  kiln_status (*load)(kiln_device *device, const kiln_code *code, const kiln_bytes *bytes, kiln_module *out,
                      kiln_error *err);
  void (*unload)(kiln_device *device, kiln_module *module);
  /// True while `stream` records a graph: nothing may be loaded then. NULL: never.
  bool (*is_capturing)(kiln_device *device, kiln_stream stream);
  kiln_status (*launch)(kiln_device *device, const kiln_launch_call *call, kiln_error *err);
  /// Encodes a tensor map into 128 bytes aligned to 64. NULL: the device has none.
  kiln_status (*encode_map)(kiln_device *device, const struct kiln_tensor_map_values *values, void *out,
                            kiln_error *err);
  kiln_status (*stream_create)(kiln_device *device, kiln_stream *out, kiln_error *err);
  void (*stream_destroy)(kiln_device *device, kiln_stream stream);
  kiln_status (*sync)(kiln_device *device, kiln_stream stream, kiln_error *err);
  kiln_status (*alloc)(kiln_device *device, size_t size, void **out, kiln_error *err);
  void (*release)(kiln_device *device, void *memory);
  kiln_status (*copy_in)(kiln_device *device, void *to, const void *from, size_t size, kiln_error *err);
  kiln_status (*copy_out)(kiln_device *device, void *to, const void *from, size_t size, kiln_error *err);
  kiln_status (*fill)(kiln_device *device, void *memory, uint8_t byte, size_t size, kiln_error *err);
} kiln_device_kind;

extern const kiln_device_kind kiln_device_host, kiln_device_null, kiln_device_cuda, kiln_device_hip;
extern const kiln_device_kind kiln_device_gone;

// What code reads often lies first: an offset below 128 is a shorter instruction.
struct kiln_device {
  _Atomic(const kiln_device_kind *)
      kind; // `own` or `hooked`, or what refuses. Hooks may change it at any time; a
            // launch reads it once, relaxed
  const kiln_device_kind *own;
  kiln_library *library;        // counted until the device is closed
  void *state;                  // owned by the kind
  void *nowhere;                // owned, made by the kind before it loads tensor maps: runtime/tensor_map.h
  _Atomic(uint32_t) references; // to the memory of this struct and its kernels: the handle's, one a prepared
  bool is_closed;               // by kiln_device_close, not by a fork
  bool accepts_all;             // null: code of every target
  uint32_t processors; // of the device, for kernels whose blocks compute several programs; 0: unknown
  uint32_t grid_limit[3];
  kiln_kernel **kernels; // owned: open addressing by name hash
  uint32_t kernel_slots, kernel_count;
  kiln_module *modules; // owned list
  uint8_t **ranks;      // owned: for each bundle 2 bytes a target (machine code, PTX): rank + 1, 0 unknown
  pthread_mutex_t lock; // guards kernels, modules, ranks
  kiln_fork_node fork;
  kiln_closed_node closed;
  kiln_device_target target;
  char name[32], description[128];
  kiln_device_kind hooked; // `own`, with launches, loads and unloads that tell hooks: runtime/hook.h
};

/// How well target `number` of bundle `index` fits; KILN_RANK_REFUSED with the rule otherwise. Policy is
/// applied. `rule` may be NULL.
unsigned kiln_device_rank(kiln_device *device, size_t index, uint32_t number, bool is_ptx, char *rule);

/// The alignment that pointers promise; where they lie in the block.
typedef struct kiln_alignment {
  const uint16_t *offsets, *end;
  uint64_t mask; // alignment - 1
} kiln_alignment;

/// A promised divisor and range of an integer, or of a stride of a view.
typedef struct kiln_fact {
  uint32_t param, offset;
  uint8_t size;
  bool is_signed;
  int64_t div, lo, hi;
} kiln_fact;

/// A launch expression prepared for speed: most are about one parameter of 4 or 8 bytes, which is read in the
/// block.
typedef enum kiln_form {
  KILN_FORM_CONST,
  KILN_FORM_CDIV,      // cdiv(param, value)
  KILN_FORM_CDIV_LOG2, // cdiv(param, value + 1), a power of two: 1 << shift. By 1 it is the parameter
  KILN_FORM_DIVISIBLE, // param % value == 0
  KILN_FORM_GENERAL,   // the code, over values of parameters
} kiln_form;
typedef struct kiln_prepared_expr {
  uint8_t form; // kiln_form
  uint8_t shift;
  bool is_wide; // the parameter has 8 bytes
  uint32_t offset;
  int64_t value;
  kiln_span code; // in the bundle
} kiln_prepared_expr;

/// (u32 at block + offset & mask) == 0: divisibility by a power of two, which only the low bits decide.
typedef struct kiln_mask_test {
  uint32_t offset, mask;
} kiln_mask_test;

/// A conjunction. Tests by mask come apart, since they need no branch each.
typedef struct kiln_conjunction {
  kiln_mask_test *masks;      // arena
  kiln_prepared_expr *others; // arena
  uint32_t mask_count, other_count;
} kiln_conjunction;

/// What a launch reads first lies first.
typedef struct kiln_prepared_config {
  bool is_usable; // some variant has code
  bool has_grid;  // false: the launcher gives it, and these are empty
  uint32_t axes;  // further ones are 1
  kiln_conjunction require;
  kiln_prepared_expr grid[3];
  kiln_prepared_expr cost; // INT64_MAX where none is stated, or it can't be computed
} kiln_prepared_config;

/// An integer or pointer parameter that an expression in general form reads.
typedef struct kiln_integer_param {
  uint32_t param, offset;
  uint8_t size;
  bool is_signed;
} kiln_integer_param;

/// Where an argument lies in the block. Sorted by size: those of 8 bytes, of 4, the rest.
typedef struct kiln_slot {
  uint16_t param, size;
  uint32_t offset;
} kiln_slot;

typedef struct kiln_tuned kiln_tuned;

/// What a launch reads lies first.
struct kiln_kernel {
  kiln_device *device; // borrowed
  kiln_slot *slots;    // one a parameter
  kiln_bundle *bundle; // borrowed: the one that won
  kiln_arena *arena;   // owned: everything here, this struct apart
  kiln_interface interface;
  uint32_t used_bytes;             // end of the last parameter
  uint32_t slots_of_8, slots_to_4; // end of those of 8 bytes, of those of 4
  bool has_gaps;                   // bytes between parameters
  bool is_plain;  // the order of configs decides, no cost, tuned choice, recorder; no expression is general
  bool has_costs; // the least of its configs is taken, not the first
  uint32_t certain_config;
  const kiln_code *certain; // of that config: what every launch of a plain kernel runs; NULL: it depends
  uint32_t alignment_count, fact_count, integer_count;
  kiln_alignment *alignments;
  kiln_fact *facts;
  kiln_prepared_config *configs;
  kiln_conjunction *variants;
  kiln_code *codes; // [config * variant_count + variant]
  kiln_integer_param *integers;
  kiln_tuned *tuned;             // arena; NULL: no choices for this device
  struct kiln_choice_memo *memo; // arena; NULL: choosing takes no longer than remembering
  bool *is_read;                 // for each parameter: an expression or a fact reads it
  uint64_t *masks;               // for each parameter: the promised alignment of its address - 1, or 0
  size_t bundle_index;
  kiln_check hash;
  uint64_t abi;
  bool has_launches;                        // the bundle says what may be launched in its place
  _Atomic(struct kiln_launches *) launches; // owned; NULL: nobody has asked about scratch memory
  atomic_bool has_sizes;                    // sizes of its buffers were read
};

/// A status where the device was closed, or stays with the parent of a fork. closed.c
kiln_status kiln_device_check(const kiln_device *device, kiln_error *err);
/// Gives up one of `references`.
void kiln_device_drop(kiln_device *device);

/// Counted: a library lives until it is closed and all its devices are.
void kiln_library_drop(kiln_library *library);

/// Frees all but the struct, which then has no parameters and no code: what is launched is refused. kernel.c
void kiln_kernel_end(kiln_kernel *kernel);
/// OUT_OF_MEMORY, naming the kernel. kernel.c
kiln_status kiln_kernel_no_memory(const kiln_kernel *kernel, kiln_error *err);

/// Prepares expressions and facts of a kernel whose interface is decoded. CORRUPT when an expression is not
/// valid; OUT_OF_MEMORY. prepare.c
kiln_status kiln_kernel_prepare(kiln_kernel *kernel, kiln_error *err);

/// Reads what the kernel states of the sizes of its buffers, once; what does not fit it is logged. OUT_OF_MEMORY.
kiln_status kiln_sizes_attach(kiln_kernel *kernel, kiln_error *err);

/// Loads every code of the kernel. load.c
kiln_status kiln_kernel_load(kiln_kernel *kernel, kiln_error *err);
/// Loads a code once a device. load.c
kiln_status kiln_code_load(kiln_kernel *kernel, kiln_code *code, kiln_error *err);

/// Tells log and hooks what a device has of a kernel.
kiln_status kiln_log_found(const kiln_kernel *kernel, kiln_error *err);
/// NO_VARIANT where the policy leaves some kernel without code.
kiln_status kiln_check_policy(kiln_device *device, kiln_error *err);

/// For the library's log, and for hooks. `kernel`: the name of the one that it is about. library.c
void kiln_log(const kiln_device *device, const char *kernel, int level, const char *text);

#endif
