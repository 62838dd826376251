// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements kiln.Prepared: a launch in which everything is decided in advance. It keeps its arguments
// alive.
#include "python/extension/extension.h"

#include <string.h>

typedef struct prepared {
  PyObject_HEAD vectorcallfunc call;
  kiln_kernel_object *kernel;
  const kiln_api *c;
  kiln_prepared *handle;
  PyObject *kept;    // owned: a list of the arguments
  kiln_arguments *a; // owned: what they hold
  size_t launches;   // under way
  kiln_scratch scratch;
} prepared;

static void end(prepared *p) {
  if (p->handle) p->c->prepared_free(p->handle);
  p->handle = NULL;
  kiln_scratch_drop(&p->scratch);
  if (p->a) {
    kiln_arguments_deinit(p->a);
    PyMem_Free(p->a);
  }
  p->a = NULL;
}

static PyObject *prepared_call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names) {
  prepared *p = (prepared *)self;
  PyObject *given = NULL;
  if (PyVectorcall_NARGS(flagged) ||
      (names && (PyTuple_Size(names) != 1 || !kiln_is_name(PyTuple_GetItem(names, 0), "stream"))))
    return PyErr_SetString(PyExc_TypeError, "a prepared launch takes stream= and nothing else"), NULL;
  if (names && args[0] != Py_None) given = args[0];
  kiln_stream stream;
  if (!p->handle || !p->kernel || !kiln_device_is_open(p->kernel->device)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "this prepared launch has ended");
    return NULL;
  }
  kiln_device_object *device = p->kernel->device;
  if (!kiln_stream_of(given, device, &stream)) return NULL;
  if (p->a->has_tensors && !given && !kiln_torch_stream(device, &stream)) return NULL;
  for (Py_ssize_t i = 0; given && p->a->has_tensors && i < PyList_Size(p->kept); i++) {
    PyObject *value = PyList_GetItem(p->kept, i);
    if (kiln_torch_is(value) && !kiln_torch_record(value, device, stream, given)) return NULL;
  }
  if (given && p->scratch.tensor && !kiln_torch_record(p->scratch.tensor, device, stream, given)) return NULL;
  kiln_held *h = device->held;
  if (!kiln_held_begin(h)) return NULL;
  p->launches++;
  kiln_error err;
  kiln_status status;
  Py_BEGIN_ALLOW_THREADS status = p->c->prepared_launch(p->handle, stream, &err);
  Py_END_ALLOW_THREADS p->launches--;
  kiln_held_end(h);
  if (status) return kiln_raise(status, &err);
  if (p->a->written && !kiln_torch_wrote(p->a->written)) return NULL;
  Py_RETURN_NONE;
}

// Scratch memory for what is in the block. What a launch that was made before uses, its stream's order keeps.
static bool renew_scratch(prepared *p) {
  kiln_scratch now, before = p->scratch;
  kiln_error err;
  if (!p->kernel->uses_scratch && !p->a->scratch_object) return true;
  if (!kiln_scratch_take(p->a, &now)) return kiln_scratch_drop(&now), false;
  if (!p->kernel->uses_scratch) return kiln_scratch_drop(&now), true;
  kiln_status status = p->c->prepared_scratch(p->handle, now.address, now.bytes, &err);
  if (status) {
    kiln_scratch_drop(&now);
    return kiln_raise(status, &err), false;
  }
  p->scratch = now;
  kiln_scratch_drop(&before);
  return true;
}

PyObject *kiln_prepare_new(kiln_kernel_object *k, PyObject *const *args, size_t count, PyObject *names) {
  prepared *p = (prepared *)PyType_GenericAlloc(kiln_of.prepared, 0);
  if (!p) return NULL;
  kiln_arguments *a = PyMem_Malloc(sizeof *a);
  if (a) a->is_lenient = false;
  if (!a || !kiln_arguments_init(a, k, args, count, names, NULL)) {
    if (!a) PyErr_NoMemory();
    PyMem_Free(a);
    Py_DECREF((PyObject *)p);
    return NULL;
  }
  p->call = prepared_call;
  p->a = a;
  p->c = k->device->held->c;
  p->kernel = (kiln_kernel_object *)Py_NewRef((PyObject *)k);
  p->kept = PyList_New((Py_ssize_t)k->count);
  const void **pointers = PyMem_Malloc((k->count + 1) * sizeof *pointers);
  bool is_fine = p->kept && pointers;
  if (!pointers) PyErr_NoMemory();
  for (size_t i = 0; is_fine && i < k->count; i++) {
    PyList_SetItem(p->kept, (Py_ssize_t)i, Py_NewRef(a->values[i]));
    pointers[i] = a->block + k->parameters[i].offset;
  }
  if (is_fine && kiln_held_begin(k->device->held)) {
    kiln_held *h = k->device->held;
    kiln_error err;
    kiln_status status;
    Py_BEGIN_ALLOW_THREADS status =
        p->c->prepare(k->handle, pointers, k->count, a->has_grid ? a->grid : NULL, &p->handle, &err);
    Py_END_ALLOW_THREADS kiln_held_end(h);
    if (status) kiln_raise(status, &err);
  }
  PyMem_Free(pointers);
  if (!p->handle || !renew_scratch(p)) Py_CLEAR(p);
  return (PyObject *)p;
}

static bool index_of(prepared *p, PyObject *which, size_t *out) {
  const kiln_kernel_object *k = p->kernel;
  if (PyUnicode_Check(which)) {
    for (*out = 0; *out < k->count; ++*out)
      if (!PyUnicode_Compare(k->parameters[*out].name, which)) return true;
    return kiln_refuse_name(k, which, false);
  }
  Py_ssize_t index = PyNumber_AsSsize_t(which, PyExc_IndexError);
  if (index == -1 && PyErr_Occurred()) return false;
  if (index < 0 || (size_t)index >= k->count)
    return PyErr_Format(PyExc_IndexError, "%U: expected a parameter of 0 to %zu, found %zd", k->name,
                        k->count - 1, index),
           false;
  *out = (size_t)index;
  return true;
}

// One occurrence, by identity.
static void forget_written(kiln_arguments *a, PyObject *value) {
  for (Py_ssize_t i = a->written ? PyList_Size(a->written) : 0; i-- > 0;)
    if (PyList_GetItem(a->written, i) == value) {
      PyList_SetSlice(a->written, i, i + 1, NULL);
      return;
    }
}

// Whether the arrays are large enough with this argument, packed as `bytes`.
static bool fits_with(kiln_arguments *a, size_t index, PyObject *value, const uint8_t *bytes) {
  const kiln_parameter *p = &a->kernel->parameters[index];
  uint8_t old_block[8 + 16 * 255];
  PyObject *old = a->values[index];
  if (!a->kernel->sizes) return true;
  memcpy(old_block, a->block + p->offset, p->size);
  memcpy(a->block + p->offset, bytes, p->size);
  a->values[index] = value;
  bool is_large = kiln_arguments_fit(a);
  memcpy(a->block + p->offset, old_block, p->size);
  a->values[index] = old;
  return is_large;
}

static PyObject *prepared_set(PyObject *self, PyObject *args) {
  prepared *p = (prepared *)self;
  PyObject *which, *value;
  size_t index;
  if (!PyArg_ParseTuple(args, "OO:set", &which, &value)) return NULL;
  if (!p->handle || !p->kernel || !kiln_device_is_open(p->kernel->device)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "this prepared launch has ended");
    return NULL;
  }
  if (!index_of(p, which, &index)) return NULL;
  const kiln_parameter *parameter = &p->kernel->parameters[index];
  kiln_arguments *a = p->a;
  _Alignas(8) uint8_t bytes[8 + 16 * 255];
  kiln_hold hold;
  a->stream = NULL;
  a->stream_object = NULL;
  size_t old_bytes = a->bytes[index];
  a->bytes[index] = KILN_SIZE_UNKNOWN;
  if (!kiln_argument_pack(a, parameter, value, bytes, &hold)) return a->bytes[index] = old_bytes, NULL;
  kiln_error err;
  kiln_status status = KILN_OK;
  bool is_free = !p->launches, is_large = false;
  if (!is_free) PyErr_SetString(PyExc_RuntimeError, "another thread is launching it");
  else if ((is_large = fits_with(a, index, value, bytes)))
    status = p->c->prepared_set(p->handle, index, bytes, &err);
  PyObject *old = PyList_GetItem(p->kept, (Py_ssize_t)index);
  bool is_kept = is_large && !status;
  PyObject *gone = is_kept ? old : value; // the list has both, where they are tensors that the kernel writes
  if (parameter->access >= 2 && kiln_torch_is(gone)) forget_written(a, gone);
  if (!is_kept) {
    a->bytes[index] = old_bytes;
    kiln_hold_drop(&hold);
    return status ? kiln_raise(status, &err) : NULL;
  }
  memcpy(a->block + parameter->offset, bytes, parameter->size);
  a->values[index] = value; // `kept` has it
  kiln_hold_drop(&a->holds[index]);
  a->holds[index] = hold;
  a->has_tensors |= kiln_torch_is(value) && p->kernel->device->place & (BY_CUDA | BY_HIP);
  PyList_SetItem(p->kept, (Py_ssize_t)index, Py_NewRef(value));
  if (!renew_scratch(p)) PyErr_Clear(); // too little memory: it runs without
  Py_RETURN_NONE;
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
  prepared *p = (prepared *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(p->kernel);
  Py_VISIT(p->kept);
  if (p->a) Py_VISIT(p->a->written);
  return 0;
}

static int clear(PyObject *self) {
  prepared *p = (prepared *)self;
  end(p);
  Py_CLEAR(p->kernel);
  Py_CLEAR(p->kept);
  return 0;
}

static void prepared_free(PyObject *self) { kiln_object_free(self, NULL, clear, NULL); }

static PyObject *prepared_repr(PyObject *self) {
  prepared *p = (prepared *)self;
  const kiln_device_object *device = p->kernel ? p->kernel->device : NULL;
  if (!device) return PyUnicode_FromString("<kiln.Prepared, ended>");
  return PyUnicode_FromFormat("<kiln.Prepared %U on %U%s>", p->kernel->name, device->name,
                              p->handle && device->is_open ? "" : ", ended");
}

static PyMethodDef methods[] = {
    {"set", prepared_set, METH_VARARGS,
     "set($self, parameter, value, /)\n--\n\nChanges one argument, by its number or name. After an error "
     "everything is "
     "as before."},
    {"__reduce__", kiln_refuse_pickling, METH_NOARGS, NULL},
    {0},
};
static PyMemberDef members[] = {
    {"kernel", T_OBJECT_EX, offsetof(prepared, kernel), READONLY, "What it launches."},
    KILN_CALL_OF(prepared),
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "A launch with everything decided before: call it, with stream= where it is not the current "
                "one. It keeps its\n"
                "arguments. Made by Kernel.prepare."},
    {Py_tp_repr, prepared_repr},
    {Py_tp_dealloc, prepared_free},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};
PyType_Spec kiln_prepared_spec = {"kiln.Prepared", sizeof(prepared), 0,
                                  KILN_CALLED | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
