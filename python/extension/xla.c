// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs kernels in programs that XLA compiled. kiln.jax makes a call when a program is traced: the kernel on
// each device, the block with its scalars, and which buffer each array is. XLA then calls `launch` on
// threads of its own, without the interpreter.
#include "python/extension/extension.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python/extension/xla_ffi.h"

typedef struct array_slot {
  uint32_t offset, buffer; // buffer: of the arguments, then of the results
  uint8_t rank;            // of a view
  uint16_t parameter;
  uint8_t element; // bytes
} array_slot;

// Programs know it by its address, and nobody knows when the last of them is gone: calls live as long as the
// process, and kiln.jax makes one only where none is equal.
typedef struct call {
  const kiln_api *c;
  kiln_kernel **kernels; // by ordinal; NULL: there is none
  char **refusals;       // by ordinal: why
  size_t kernel_count, array_count, block_size;
  array_slot *arrays;
  size_t count; // of parameters
  bool has_stream, has_grid, has_sizes;
  uint32_t grid[3];
  uint8_t *block;
} call;

static xla_error *refuse(const xla_frame *f, int code, const char *text) {
  return f->api->error_create(
      &(xla_error_arguments){.size = sizeof(xla_error_arguments), .message = text, .code = code});
}

static const call *call_of(const xla_frame *f, const char *place) {
  for (int64_t i = 0; i < f->attributes.count; i++) {
    const xla_text *name = f->attributes.names[i];
    const xla_scalar *value = f->attributes.at[i];
    if (f->attributes.kinds[i] == XLA_ATTRIBUTE_SCALAR && name->size == strlen(place) &&
        !memcmp(name->text, place, name->size) && value->type == XLA_S64)
      return (const call *)(intptr_t) * (const int64_t *)value->value;
  }
  return NULL;
}

static bool pack(const xla_frame *f, const array_slot *slot, uint8_t *out, size_t *bytes) {
  int64_t at = slot->buffer, count = f->arguments.count;
  if (at >= count + f->results.count) return false;
  const xla_buffer *buffer = at < count ? f->arguments.at[at] : f->results.at[at - count];
  memcpy(out, &buffer->data, sizeof buffer->data);
  *bytes = slot->element;
  for (int64_t i = 0; i < buffer->rank; i++) *bytes *= (size_t)buffer->extents[i];
  if (!slot->rank) return true;
  if (buffer->rank != slot->rank) return false;
  int64_t step = 1;
  for (int64_t i = slot->rank; i-- > 0; step *= buffer->extents[i]) {
    memcpy(out + 8 + 8 * i, &buffer->extents[i], 8);
    memcpy(out + 8 + 8 * (slot->rank + i), &step, 8);
  }
  return true;
}

static xla_error *where(const xla_frame *f, const call *c, kiln_stream *stream, size_t *ordinal) {
  *stream = NULL;
  *ordinal = 0;
  if (!c->has_stream) return NULL;
  xla_stream_arguments on = {.size = sizeof on, .context = f->context};
  xla_ordinal_arguments at = {.size = sizeof at, .context = f->context};
  xla_error *error = f->api->stream_get(&on);
  if (!error && c->kernel_count > 1) error = f->api->device_ordinal_get(&at);
  *stream = on.stream;
  *ordinal = (size_t)at.ordinal;
  return error;
}

static xla_error *launch(const xla_frame *f, const char *place) {
  for (xla_extension *e = f->extensions; e; e = e->next)
    if (e->type == XLA_METADATA_EXTENSION) { // XLA asks what this is
      xla_metadata *metadata = ((xla_metadata_extension *)e)->metadata;
      metadata->version.major = 0;
      metadata->version.minor = 1;
      metadata->traits = 0;
      return NULL;
    }
  const call *c = f->stage == XLA_STAGE_EXECUTE ? call_of(f, place) : NULL;
  if (!c) return refuse(f, XLA_INVALID_ARGUMENT, "kiln: the bundle has no code for this platform's devices");
  uint8_t block[KILN_MOST_BLOCK];
  size_t bytes[512]; // libkiln takes no kernel of more parameters
  memcpy(block, c->block, c->block_size);
  for (size_t i = 0; c->has_sizes && i < c->count; i++) bytes[i] = KILN_SIZE_UNKNOWN;
  for (size_t i = 0; i < c->array_count; i++)
    if (!pack(f, &c->arrays[i], block + c->arrays[i].offset, &bytes[c->arrays[i].parameter]))
      return refuse(f, XLA_INVALID_ARGUMENT, "kiln: the arrays are not those that the call was traced with");
  kiln_stream stream;
  size_t ordinal;
  xla_error *error = where(f, c, &stream, &ordinal);
  if (error) return error;
  if (ordinal >= c->kernel_count) return refuse(f, XLA_INTERNAL, "kiln: a device that was not there before");
  kiln_error err;
  kiln_kernel *kernel = c->kernels[ordinal];
  if (!kernel) return refuse(f, XLA_INVALID_ARGUMENT, c->refusals[ordinal]);
  if (c->has_sizes && c->c->check_sizes(kernel, block, c->block_size, bytes, c->count, &err))
    return refuse(f, XLA_INVALID_ARGUMENT, err.text);
  kiln_status status = c->has_grid ? c->c->launch_grid(kernel, stream, c->grid, block, c->block_size, &err)
                                   : c->c->launch_packed(kernel, stream, block, c->block_size, &err);
  return status ? refuse(f, XLA_INTERNAL, err.text) : NULL;
}

// What a program hands over has the calls for both; only the function knows where it runs.
static xla_error *launch_on_host(xla_frame *f) { return launch(f, "host"); }
static xla_error *launch_on_gpu(xla_frame *f) { return launch(f, "gpu"); }

PyObject *kiln_xla_targets(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
  return Py_BuildValue("(NN)", PyCapsule_New((void *)(uintptr_t)launch_on_host, NULL, NULL),
                       PyCapsule_New((void *)(uintptr_t)launch_on_gpu, NULL, NULL));
}

// ------------------------------------------------------------------------------------- making a call

static bool take_values(call *c, const kiln_kernel_object *k, PyObject *values) {
  for (size_t i = 0; i < k->count; i++) {
    const kiln_parameter *p = &k->parameters[i];
    PyObject *value = PyTuple_GetItem(values, (Py_ssize_t)i);
    if (!p->rank && !p->depth) {
      if (!kiln_scalar_pack(p->element, value, c->block + p->offset)) return kiln_argument_name(k, p), false;
      continue;
    }
    unsigned long buffer = PyLong_AsUnsignedLong(value);
    if (PyErr_Occurred()) return false;
    c->arrays[c->array_count++] =
        (array_slot){p->offset, (uint32_t)buffer, p->rank, (uint16_t)i, p->element->size};
  }
  return true;
}

static bool is_kernel(PyObject *object) { return PyObject_TypeCheck(object, kiln_of.kernel); }

static bool take_kernels(call *c, PyObject *kernels) {
  for (; c->kernel_count < (size_t)PyTuple_Size(kernels); c->kernel_count++) {
    PyObject *one = PyTuple_GetItem(kernels, (Py_ssize_t)c->kernel_count);
    if (!is_kernel(one)) {
      const char *why = kiln_text_for("kernels", one);
      if (!why || !(c->refusals[c->kernel_count] = strdup(why))) return false;
      continue;
    }
    kiln_kernel_object *k = (kiln_kernel_object *)one;
    c->kernels[c->kernel_count] = k->handle;
    c->has_stream = k->device->place & (BY_CUDA | BY_HIP);
    Py_INCREF(one); // with its device, to the process's end
  }
  return true;
}

// The first of them, all of which have one interface; NULL with an exception.
static kiln_kernel_object *first_kernel(PyObject *kernels, PyObject *values) {
  kiln_kernel_object *k = NULL;
  for (Py_ssize_t i = PyTuple_Size(kernels); i-- > 0;) {
    PyObject *one = PyTuple_GetItem(kernels, i);
    if (is_kernel(one)) k = (kiln_kernel_object *)one;
    else if (!PyUnicode_Check(one))
      return PyErr_SetString(PyExc_TypeError, "expected kernels, or texts that say why there is none"), NULL;
  }
  if (k && (size_t)PyTuple_Size(values) == k->count) return k;
  PyErr_SetString(PyExc_ValueError, "expected a kernel and a value for each of its parameters");
  return NULL;
}

static void *zeroed(size_t size) {
  void *found = PyMem_Calloc(1, size + 1);
  if (!found) PyErr_NoMemory();
  return found;
}

PyObject *kiln_xla_call(PyObject *Py_UNUSED(module), PyObject *args) {
  PyObject *kernels, *values, *grid;
  if (!PyArg_ParseTuple(args, "O!O!O:_xla_call", &PyTuple_Type, &kernels, &PyTuple_Type, &values, &grid))
    return NULL;
  kiln_kernel_object *k = first_kernel(kernels, values);
  if (!k) return NULL;
  call *c = zeroed(sizeof *c);
  if (!c) return NULL;
  *c = (call){.c = k->device->held->c,
              .block_size = k->block_size,
              .has_grid = grid != Py_None,
              .count = k->count,
              .has_sizes = k->sizes != NULL};
  c->kernels = zeroed((size_t)PyTuple_Size(kernels) * sizeof *c->kernels);
  c->refusals = zeroed((size_t)PyTuple_Size(kernels) * sizeof *c->refusals);
  c->arrays = zeroed(k->count * sizeof *c->arrays);
  c->block = zeroed(k->block_size);
  if (c->kernels && c->refusals && c->arrays && c->block && take_values(c, k, values) &&
      (!c->has_grid || kiln_grid_of(k, grid, c->grid)) && take_kernels(c, kernels))
    return PyLong_FromVoidPtr(c);
  for (Py_ssize_t i = 0; c->refusals && i < PyTuple_Size(kernels); i++) free(c->refusals[i]);
  PyMem_Free(c->kernels);
  PyMem_Free(c->refusals);
  PyMem_Free(c->arrays);
  PyMem_Free(c->block);
  PyMem_Free(c);
  return NULL;
}
