// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scratch memory of a launch (docs/runtime.md): from PyTorch's own allocator where the launch goes to
// PyTorch's current stream, or what the caller gives with scratch=.
#include "python/extension/extension.h"

// An array of the caller's, of any type. It may be smaller than what the kernel wants.
static bool take_given(const kiln_arguments *a, PyObject *value, kiln_scratch *out) {
  kiln_device_object *device = a->kernel->device;
  kiln_array array;
  int found = kiln_array_of(value, a->stream, device, true, &array, &out->hold);
  if (found < 0) return false;
  if (!found)
    return PyErr_Format(PyExc_TypeError, "%U: scratch: expected an array, None or False", a->kernel->name),
           false;
  out->has_hold = true;
  if (!(kiln_place_devices(array.place) & device->place)) {
    PyErr_Format(PyExc_ValueError, "%U: scratch: expected memory of %U, found memory of %s", a->kernel->name,
                 device->name, kiln_place_name(array.place));
    return false;
  }
  if (!kiln_array_is_contiguous(&array)) return kiln_array_refuse_strides(&array), false;
  out->address = (void *)(uintptr_t)array.address;
  out->bytes = kiln_array_size(&array);
  return true;
}

// A tensor of PyTorch's. The allocator gives its memory to others only after what the current stream runs.
static bool make_tensor(const kiln_arguments *a, size_t bytes, kiln_scratch *out) {
  out->tensor = kiln_torch_bytes(a->kernel->device, bytes);
  PyObject *address = out->tensor ? PyObject_CallMethod(out->tensor, "data_ptr", NULL) : NULL;
  if (address) out->address = PyLong_AsVoidPtr(address);
  out->bytes = bytes;
  Py_XDECREF(address);
  return address && !PyErr_Occurred();
}

bool kiln_scratch_take(const kiln_arguments *a, kiln_scratch *out) {
  const kiln_kernel_object *k = a->kernel;
  const bool is_given = a->scratch_object && a->scratch_object != Py_False;
  size_t bytes;
  kiln_error err;
  *out = (kiln_scratch){.tensor = NULL};
  const bool is_wanted = k->uses_scratch && !a->has_grid;
  if (is_given && !take_given(a, a->scratch_object, out)) return false;
  if (is_given && !is_wanted) out->address = NULL, out->bytes = 0; // looked at, and not needed
  if (is_given || a->scratch_object == Py_False || !is_wanted) return true;
  if (!a->has_tensors || a->stream_object) return true;
  kiln_status status = k->device->held->c->scratch_size(k->handle, a->block, k->block_size, &bytes, &err);
  if (status) return kiln_raise(status, &err), false;
  return !bytes || make_tensor(a, bytes, out);
}

void kiln_scratch_drop(kiln_scratch *s) {
  if (s->has_hold) kiln_hold_drop(&s->hold);
  Py_XDECREF(s->tensor);
  *s = (kiln_scratch){.tensor = NULL};
}
