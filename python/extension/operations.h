// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What operations of PyTorch share: kiln._core.Operation (operations.c), kiln._core.Differentiable above it
// and kiln._core.Direct before both. Each takes the common case, plain tensors in order, itself, and gives
// all else to functions of kiln.torch or PyTorch, whose answer is the same.
#ifndef KILN_EXTENSION_OPERATIONS_H
#define KILN_EXTENSION_OPERATIONS_H

#include "python/extension/extension.h"

enum { KILN_MOST_ARGUMENTS = 32, KILN_MOST_OUTPUTS = 8, KILN_MOST_RANK = 8 };

typedef struct kiln_extent {
  const int64_t *code;
  size_t count; // of pairs
} kiln_extent;

typedef struct kiln_output {
  PyObject *dtype; // owned
  uint32_t type;
  bool is_zeroed;
  int rank;
  kiln_extent extents[KILN_MOST_RANK];
  kiln_asked last;
} kiln_output;

/// What launches for tensors of some types on some device.
typedef struct kiln_found {
  kiln_place place;
  int index;
  uint32_t types[KILN_MOST_ARGUMENTS];
  PyObject *kernel;                   // owned: a kiln.Kernel, or the operation of the instance
  PyObject *named[KILN_MOST_OUTPUTS]; // owned: of torch.empty_strided for each output
} kiln_found;

typedef struct kiln_operation {
  PyObject_HEAD vectorcallfunc call;
  PyObject *launch, *resolve; // owned: of kiln.torch.
  PyObject *empty_strided;
  size_t taken, arrays_count, passed, outputs_count, found_count;
  uint8_t arrays[KILN_MOST_ARGUMENTS]; // numbers of the arguments that are tensors
  int8_t order[KILN_MOST_ARGUMENTS];   // of the kernel's: an argument, or -1 - output
  kiln_output outputs[KILN_MOST_OUTPUTS];
  int64_t *code;     // owned
  kiln_found *found; // owned
} kiln_operation;

/// The text of ValueError where the collector has ended what is called.
extern const char kiln_operation_ended[];
/// Numbers of a tuple in a range; false with an exception.
bool kiln_numbers_of(PyObject *tuple, long least, long most, int8_t *out);
/// The types and the device of plain tensors; false where a general way has to tell. `wants_dense`: for which
/// a device's own code is all that is below autograd.
bool kiln_operation_tensors(const kiln_operation *o, PyObject *const *args, bool wants_dense,
                            kiln_found *out);
/// Whether its integers say the shapes of its outputs here; where not, a general way has to tell.
bool kiln_operation_has_shapes(const kiln_operation *o, PyObject *const *args);
/// The answer for such tensors, or NULL: with an exception, or without where a general way has to tell.
PyObject *kiln_operation_run(kiln_operation *o, const kiln_found *wanted, PyObject *const *args,
                             size_t count);

typedef struct kiln_differentiable kiln_differentiable;
/// The answer for plain tensors, or NULL: with an exception, or without where a general way has to tell.
/// `above` records what autograd wants to know of; NULL: nothing does. `is_thread_plain`: there are no
/// transforms.
PyObject *kiln_operation_shortcut(kiln_operation *o, kiln_differentiable *above, bool is_thread_plain,
                                  PyObject *const *args, size_t count);

#endif
