// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An interpreter of PTX that judges what it runs: a module is read from its text, a kernel runs over memory
// that knows its bounds, and every race, access outside of memory, use of an undefined value or barrier that
// cannot open becomes a finding with its PTX line and its place in the source. docs/ptx.md says what is
// checked and by which memory model. Nothing is shared with the compiler: this is a second reading of the
// manual.
//
// Not thread safe: one memory and the modules over it belong to one thread at a time.
#ifndef KILN_TOOLS_PTX_H
#define KILN_TOOLS_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/status.h"

enum { PTX_FINDINGS = 16, PTX_FINDING_TEXT = 480, PTX_MAP_BYTES = 128 };

typedef enum ptx_finding_kind {
  PTX_RACE,
  PTX_UNDEFINED,  ///< an undefined value decides something, is an address, or leaves the kernel
  PTX_OUTSIDE,    ///< an access outside of every allocation
  PTX_MISALIGNED, ///< an address that is no multiple of the access's size
  PTX_BARRIER,    ///< members, counts or convergence that a barrier or a .sync instruction does not allow
  PTX_DEADLOCK,   ///< nobody can run on
  PTX_ENDLESS,    ///< the limit of steps was reached
  PTX_UNKNOWN,    ///< something that the interpreter does not model
  PTX_FINDING_KINDS
} ptx_finding_kind;

typedef struct ptx_finding {
  ptx_finding_kind kind;
  uint32_t line;               ///< of the PTX text
  char text[PTX_FINDING_TEXT]; ///< "NAME:LINE: race: ... (source.py:67:0)"
} ptx_finding;

/// What a launch found: different findings once each, in the order of their discovery.
typedef struct ptx_report {
  uint32_t count;
  ptx_finding items[PTX_FINDINGS];
  uint64_t steps; ///< instructions of warps, or of the parts that they were split into
} ptx_report;

/// Global memory: allocations at addresses of their own, with unmapped space between them.
typedef struct ptx_memory ptx_memory;
/// NULL when memory is exhausted.
ptx_memory *ptx_memory_create(void);
void ptx_memory_destroy(ptx_memory *memory);
/// `size` bytes at an address aligned to 256. `is_defined` says whether a kernel may read them before it or
/// the host wrote them. 0 when memory is exhausted.
uint64_t ptx_memory_alloc(ptx_memory *memory, uint64_t size, bool is_defined);
/// False when `address` is not what ptx_memory_alloc returned.
bool ptx_memory_free(ptx_memory *memory, uint64_t address);
/// What findings call an allocation, in place of its address: "argument 'x'"; copied. False when `address` is not
/// what ptx_memory_alloc returned, or memory is exhausted.
bool ptx_memory_name(ptx_memory *memory, uint64_t address, const char *name);
/// The host's bytes of [address, address + size), or NULL where that is not inside one allocation.
/// `is_written`: the caller is about to write them, and they are defined from then on.
uint8_t *ptx_memory_bytes(ptx_memory *memory, uint64_t address, uint64_t size, bool is_written);

typedef struct ptx_module ptx_module;
/// Reads a module. Its text is copied; `name` begins messages. Its global variables live in `memory` until
/// ptx_module_destroy. Errors are SOURCE with "NAME:LINE:COLUMN: ...", and UNSUPPORTED for what the manual
/// has and this interpreter has not.
kiln_status ptx_module_create(ptx_memory *memory, const char *name, const char *text, size_t size,
                              ptx_module **out, kiln_error *err);
void ptx_module_destroy(ptx_module *module);

/// What a caller may want to know of a kernel.
typedef struct ptx_kernel_facts {
  const char *name; ///< of the module
  uint32_t parameter_count, parameter_bytes;
  uint32_t block[3]; ///< .reqntid, or .maxntid; 0 where the text says nothing
  bool is_block_exact;
  uint32_t shared_bytes; ///< static
} ptx_kernel_facts;
/// False past the last kernel.
bool ptx_module_kernel(const ptx_module *module, uint32_t index, ptx_kernel_facts *out);
/// Where parameter `parameter` lies in the block of arguments. False past the last one.
bool ptx_module_parameter(const ptx_module *module, uint32_t kernel, uint32_t parameter, uint32_t *out_offset,
                          uint32_t *out_size);

typedef struct ptx_launch {
  uint32_t grid[3], block[3];
  uint32_t dynamic_shared;
  const void *parameters; ///< parameter_bytes of the kernel
  size_t parameter_size;
  uint64_t seed;      ///< of the order in which warps, and parts of them, run
  uint32_t resident;  ///< blocks that run at the same time; 0: 4
  uint64_t max_steps; ///< 0: no limit
  /// The launch before this one may still run (programmatic dependent launch): what it read and wrote is
  /// ordered before accesses after griddepcontrol.wait only.
  bool is_dependent;
} ptx_launch;
/// Runs a kernel. OK when nothing was found; ASSERT when something was, with the first text in `err`;
/// LAUNCH when the launch does not fit the kernel.
kiln_status ptx_module_run(ptx_module *module, uint32_t kernel, const ptx_launch *launch, ptx_report *report,
                           kiln_error *err);

/// What the elements of a tensor are.
typedef enum ptx_element_kind {
  PTX_ELEMENT_INTEGER,
  PTX_ELEMENT_FLOAT,
  PTX_ELEMENT_BF16,
  PTX_ELEMENT_TF32
} ptx_element_kind;
/// What cuTensorMapEncodeTiled writes, in the interpreter's own form: PTX_MAP_BYTES at `out`. Extents and
/// boxes from the innermost axis on; `strides` of the others, in bytes; `swizzle` 0, 32, 64 or 128. False
/// where the driver would refuse.
bool ptx_tensor_encode(void *out, uint32_t element_bytes, ptx_element_kind kind, uint32_t rank,
                       uint64_t address, const uint64_t *extents, const uint64_t *strides,
                       const uint32_t *box, uint32_t swizzle, bool is_nan_filled);

/// Counts opcodes with their modifiers in all kernels of a module, in the order of the alphabet: calls `take`
/// for each.
void ptx_module_census(const ptx_module *module,
                       void (*take)(void *context, const char *name, uint32_t count), void *context);

#endif
