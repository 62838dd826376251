// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements kiln.Memory: device memory for programs that have no framework to allocate it.
#include "python/extension/extension.h"

#include <string.h>

const kiln_element kiln_elements[] = {
#define IS KILN_IS
#define ELEMENT(name, size, typestr, own, ...) {#name, size, typestr, own, {__VA_ARGS__}},
#include "python/extension/elements.def"
#undef ELEMENT
#undef IS
};
const size_t kiln_element_count = sizeof kiln_elements / sizeof *kiln_elements;

const kiln_element *kiln_element_find(const char *name, size_t size) {
  for (size_t i = 0; i < kiln_element_count; i++)
    if (strlen(kiln_elements[i].name) == size && !memcmp(kiln_elements[i].name, name, size))
      return &kiln_elements[i];
  return NULL;
}

static const kiln_element *find_element(PyObject *type) {
  Py_ssize_t size;
  const char *name = PyUnicode_AsUTF8AndSize(type, &size);
  const kiln_element *element = name ? kiln_element_find(name, (size_t)size) : NULL;
  if (element || !name) return element;
  char all[128] = "";
  PyObject *words = PyList_New(0);
  for (size_t i = 0; i < kiln_element_count; i++) {
    strcat(all, i ? " " : "");
    strcat(all, kiln_elements[i].name);
    PyObject *word = words ? PyUnicode_FromString(kiln_elements[i].name) : NULL;
    if (words && (!word || PyList_Append(words, word))) Py_CLEAR(words);
    Py_XDECREF(word);
  }
  PyObject *text = kiln_did_you_mean(type, words);
  if (text)
    PyErr_Format(PyExc_TypeError, "'%U' is not a type of the kernel language (%s)%U", type, all, text);
  Py_XDECREF(text);
  return NULL;
}

// Extents from an integer or a sequence; the size in bytes. False with an exception.
static bool take_shape(kiln_memory_object *self, PyObject *value) {
  PyObject *shape = PyIndex_Check(value) ? PyTuple_Pack(1, value) : PySequence_Tuple(value);
  if (!shape) return false;
  self->rank = (int)PyTuple_Size(shape);
  self->shape = PyMem_Calloc((size_t)self->rank + 1, sizeof *self->shape);
  self->size = self->element->size;
  bool is_fine = self->shape != NULL;
  if (!is_fine) PyErr_NoMemory();
  for (int i = 0; is_fine && i < self->rank; i++) {
    int64_t extent = self->shape[i] = PyNumber_AsSsize_t(PyTuple_GetItem(shape, i), PyExc_OverflowError);
    if (extent == -1 && PyErr_Occurred()) is_fine = false;
    else if (extent < 0)
      PyErr_Format(PyExc_ValueError, "expected extents of 0 and above, found %R", shape), is_fine = false;
    else if (__builtin_mul_overflow(self->size, (size_t)extent, &self->size))
      PyErr_Format(PyExc_OverflowError, "memory of shape %R is larger than any", shape), is_fine = false;
  }
  Py_DECREF(shape);
  return is_fine;
}

static void free_memory(kiln_child *child) {
  kiln_held *h = child->held;
  Py_BEGIN_ALLOW_THREADS h->c->free(h->handle, child->handle);
  Py_END_ALLOW_THREADS
}

static PyObject *memory_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named)) {
  PyObject *owner, *shape, *name;
  if (!PyArg_ParseTuple(args, "O!OU:Memory", kiln_of.device, &owner, &shape, &name)) return NULL;
  const kiln_element *element = find_element(name);
  kiln_memory_object *self = element ? (kiln_memory_object *)PyType_GenericAlloc(type, 0) : NULL;
  if (!self) return NULL;
  self->element = element;
  kiln_device_object *device = (kiln_device_object *)owner;
  kiln_held *h = device->held;
  if (!take_shape(self, shape) || !kiln_held_begin(h)) {
    Py_DECREF((PyObject *)self);
    return NULL;
  }
  void *handle = NULL;
  kiln_error err;
  kiln_status status;
  Py_BEGIN_ALLOW_THREADS status = h->c->alloc(h->handle, self->size ? self->size : 1, &handle, &err);
  Py_END_ALLOW_THREADS if (!status && device->is_open)
      kiln_child_add(&self->child, device, handle, free_memory);
  else if (!status) h->c->free(h->handle, handle), kiln_device_is_open(device); // closed meanwhile
  kiln_held_end(h);
  if (self->child.is_open) return (PyObject *)self;
  Py_DECREF((PyObject *)self);
  return status ? kiln_raise(status, &err) : NULL;
}

static void memory_free(PyObject *self) {
  PyMem_Free(((kiln_memory_object *)self)->shape);
  kiln_child_free(self);
}

static kiln_memory_object *open_memory(PyObject *self) {
  kiln_memory_object *m = (kiln_memory_object *)self;
  if (m->child.is_open) return m;
  kiln_closed(self);
  return NULL;
}

// ------------------------------------------------------------------------------------------- copies

// A host array of the memory's size; false with an exception.
static bool host_array(kiln_memory_object *m, PyObject *value, bool is_written, kiln_array *array,
                       kiln_hold *hold) {
  int found = kiln_array_of(value, NULL, NULL, true, array, hold);
  if (found < 0) return false;
  size_t size = found ? kiln_array_size(array) : 0;
  if (!found)
    PyErr_Format(PyExc_TypeError, "expected a contiguous host array, bytes or bytearray, found %R",
                 Py_TYPE(value));
  else if (!(kiln_place_devices(array->place) & BY_HOST) && array->place != KILN_PLACE_NULL)
    PyErr_Format(PyExc_TypeError, "expected an array of the host, found memory of %s",
                 kiln_place_name(array->place));
  else if (is_written && array->read_only) PyErr_Format(PyExc_ValueError, "the array %s", array->read_only);
  else if (size != m->size)
    PyErr_Format(PyExc_ValueError, "expected a contiguous array of %zu bytes, found %zu bytes", m->size,
                 size);
  else if (!kiln_array_is_contiguous(array))
    PyErr_Format(PyExc_ValueError, "expected a contiguous array of %zu bytes, found %zu bytes with gaps",
                 m->size, size);
  else return true;
  kiln_hold_drop(hold);
  return false;
}

typedef kiln_status copy_function(kiln_memory_object *m, void *host, uint8_t byte, kiln_error *err);
static kiln_status in(kiln_memory_object *m, void *host, uint8_t byte, kiln_error *err) {
  (void)byte;
  return m->child.held->c->copy_in(m->child.held->handle, m->child.handle, host, m->size, err);
}
static kiln_status out(kiln_memory_object *m, void *host, uint8_t byte, kiln_error *err) {
  (void)byte;
  return m->child.held->c->copy_out(m->child.held->handle, host, m->child.handle, m->size, err);
}
static kiln_status set(kiln_memory_object *m, void *host, uint8_t byte, kiln_error *err) {
  (void)host;
  return m->child.held->c->fill(m->child.held->handle, m->child.handle, byte, m->size, err);
}

static PyObject *run(kiln_memory_object *m, copy_function *function, void *host, uint8_t byte) {
  kiln_held *h = m->child.held;
  if (!kiln_held_begin(h)) return NULL;
  m->child.uses++;
  kiln_error err;
  kiln_status status;
  Py_BEGIN_ALLOW_THREADS status = function(m, host, byte, &err);
  Py_END_ALLOW_THREADS kiln_child_unuse(&m->child);
  kiln_held_end(h);
  if (status) return kiln_raise(status, &err);
  Py_RETURN_NONE;
}

static PyObject *run_by_stream(kiln_memory_object *m, kiln_stream stream, void *host, bool is_in) {
  kiln_held *h = m->child.held;
  const kiln_device_object *device = m->child.device;
  kiln_copy copy = {m->child.handle, host, m->size, stream, device->index, is_in};
  if (!kiln_held_begin(h)) return NULL;
  m->child.uses++;
  int result;
  Py_BEGIN_ALLOW_THREADS result = kiln_copy_by_stream(&copy, device->place);
  Py_END_ALLOW_THREADS kiln_child_unuse(&m->child);
  kiln_held_end(h);
  if (!result) Py_RETURN_NONE;
  if (result < 0) PyErr_Format(kiln_of.error, "the driver of %U has no copies by a stream", device->name);
  else PyErr_Format(kiln_of.error, "a copy by a stream failed: error %d of the driver", result);
  return NULL;
}

// copy_in and copy_out: (array, /, stream=None).
static PyObject *copy(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names, bool is_in) {
  kiln_memory_object *m = open_memory(self);
  kiln_array array;
  kiln_hold hold = {HOLDS_NOTHING};
  kiln_stream stream = NULL;
  Py_ssize_t named = kiln_named(names);
  if (count != 1 || named > 1 ||
      (named && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), "stream")))
    return PyErr_SetString(PyExc_TypeError, "a copy takes an array, stream= and nothing else"), NULL;
  bool is_async = named && args[1] != Py_None;
  if (m && !m->child.device) return kiln_closed(self);
  if (!m || (is_async && !kiln_stream_of(args[1], m->child.device, &stream)) ||
      !host_array(m, args[0], !is_in, &array, &hold))
    return NULL;
  void *host = (void *)(uintptr_t)array.address;
  PyObject *done = NULL;
  if (!m->child.is_open || !m->child.device) kiln_closed(self);
  else if (is_async && m->child.device->place & (BY_CUDA | BY_HIP))
    done = run_by_stream(m, stream, host, is_in);
  else done = run(m, is_in ? in : out, host, 0);
  kiln_hold_drop(&hold);
  return done;
}

static PyObject *memory_copy_in(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  return copy(self, args, count, names, true);
}
static PyObject *memory_copy_out(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  return copy(self, args, count, names, false);
}

static PyObject *memory_fill(PyObject *self, PyObject *value) {
  kiln_memory_object *m = open_memory(self);
  if (!m) return NULL;
  if (!PyIndex_Check(value))
    return PyErr_Format(PyExc_TypeError, "fill sets bytes: expected an integer of 0 to 255, found %R", value);
  Py_ssize_t byte = PyNumber_AsSsize_t(value, PyExc_OverflowError);
  if (byte == -1 && PyErr_Occurred()) return NULL;
  if (byte < 0 || byte > 255)
    return PyErr_Format(PyExc_OverflowError, "fill sets bytes: expected 0 to 255, found %zd", byte);
  return run(m, set, NULL, (uint8_t)byte);
}

static PyObject *memory_bytes(PyObject *self, PyObject *Py_UNUSED(none)) {
  kiln_memory_object *m = open_memory(self);
  PyObject *bytes = m ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)m->size) : NULL;
  PyObject *done = bytes ? run(m, out, PyBytes_AsString(bytes), 0) : NULL;
  if (!done) Py_CLEAR(bytes);
  Py_XDECREF(done);
  return bytes;
}

static PyObject *memory_shape(PyObject *self, void *Py_UNUSED(closure)) {
  kiln_memory_object *m = (kiln_memory_object *)self;
  return kiln_integers(m->shape, (size_t)m->rank, 1);
}

static PyObject *memory_numpy(PyObject *self, PyObject *Py_UNUSED(none)) {
  kiln_memory_object *m = open_memory(self);
  PyObject *numpy = m ? PyImport_ImportModule("numpy") : NULL;
  PyObject *shape = numpy ? memory_shape(self, NULL) : NULL;
  PyObject *array = shape ? PyObject_CallMethod(numpy, "empty", "Os", shape, m->element->typestr) : NULL;
  PyObject *done = array ? memory_copy_out(self, &array, 1, NULL) : NULL;
  if (!done) Py_CLEAR(array);
  Py_XDECREF(numpy);
  Py_XDECREF(shape);
  Py_XDECREF(done);
  return array;
}

// --------------------------------------------------------------------------------------- attributes

static PyObject *memory_address(PyObject *self, void *Py_UNUSED(closure)) {
  kiln_memory_object *m = open_memory(self);
  return m ? PyLong_FromVoidPtr(m->child.handle) : NULL;
}

static PyObject *memory_size(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromSize_t(((kiln_memory_object *)self)->size);
}

static PyObject *memory_type(PyObject *self, void *Py_UNUSED(closure)) {
  return PyUnicode_FromString(((kiln_memory_object *)self)->element->name);
}

// The array interface that other libraries read it by, where its memory is theirs too.
static PyObject *interface(PyObject *self, unsigned devices) {
  kiln_memory_object *m = (kiln_memory_object *)self;
  kiln_device_object *device = m->child.device;
  if (!device || !(device->place & devices)) {
    PyErr_SetString(PyExc_AttributeError, "this memory is elsewhere");
    return NULL;
  }
  PyObject *address = memory_address(self, NULL), *shape = memory_shape(self, NULL), *dict = NULL;
  if (address && shape)
    dict = Py_BuildValue("{sOsss(OO)sOsi}", "shape", shape, "typestr", m->element->typestr, "data", address,
                         Py_False, "strides", Py_None, "version", 3);
  Py_XDECREF(address);
  Py_XDECREF(shape);
  return dict;
}

static PyObject *memory_interface(PyObject *self, void *Py_UNUSED(closure)) {
  return interface(self, BY_HOST | BY_NULL);
}
static PyObject *memory_gpu_interface(PyObject *self, void *Py_UNUSED(closure)) {
  return interface(self, BY_CUDA | BY_HIP);
}

static PyObject *memory_close(PyObject *self, PyObject *Py_UNUSED(none)) {
  kiln_child_close((kiln_child *)self);
  Py_RETURN_NONE;
}

static PyObject *memory_repr(PyObject *self) {
  kiln_memory_object *m = (kiln_memory_object *)self;
  PyObject *shape = m->child.device && m->shape ? memory_shape(self, NULL) : NULL;
  if (!shape) return PyErr_Occurred() ? NULL : PyUnicode_FromString("<kiln.Memory, closed>");
  PyObject *text = PyUnicode_FromFormat("<kiln.Memory %R of %s on %U%s>", shape, m->element->name,
                                        m->child.device->name, m->child.is_open ? "" : ", closed");
  Py_DECREF(shape);
  return text;
}

static PyMethodDef methods[] = {
    {"copy_in", (PyCFunction)(void (*)(void))memory_copy_in, METH_FASTCALL | METH_KEYWORDS,
     "copy_in($self, array, /, *, stream=None)\n--\n\nCopies a contiguous host array (or bytes) of the same "
     "size into the memory. With a stream of a GPU it is the stream that copies, and the array has to live "
     "until it has passed."},
    {"copy_out", (PyCFunction)(void (*)(void))memory_copy_out, METH_FASTCALL | METH_KEYWORDS,
     "copy_out($self, array, /, *, stream=None)\n--\n\nCopies the memory into a contiguous host array (or "
     "bytearray) of the same size. With a stream of a GPU it is the stream that copies, and the array has it "
     "when that has passed."},
    {"fill", memory_fill, METH_O, "fill($self, byte, /)\n--\n\nSets every byte."},
    {"numpy", memory_numpy, METH_NOARGS,
     "numpy($self)\n--\n\nA copy as a NumPy array; bf16 and the 8-bit floats as their bits."},
    {"close", memory_close, METH_NOARGS, "close($self)\n--\n\nFrees the memory."},
    {"__bytes__", memory_bytes, METH_NOARGS, NULL},
    {"__enter__", kiln_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))kiln_exit, METH_FASTCALL, NULL},
    {"__reduce__", kiln_refuse_pickling, METH_NOARGS, NULL},
    {0},
};
static PyGetSetDef getters[] = {
    {"address", memory_address, NULL, "Where it lies.", NULL},
    {"shape", memory_shape, NULL, "Its extents.", NULL},
    {"size", memory_size, NULL, "Its bytes.", NULL},
    {"type", memory_type, NULL, "Its type in the kernel language.", NULL},
    {"__array_interface__", memory_interface, NULL, NULL, NULL},
    {"__cuda_array_interface__", memory_gpu_interface, NULL, NULL, NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {0},
};
static PyMemberDef members[] = {
    {"device", T_OBJECT_EX, offsetof(kiln_child, device), READONLY, "The device it belongs to."},
    {"__dictoffset__", T_PYSSIZET, offsetof(kiln_child, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(kiln_child, weak), READONLY, NULL},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "Device memory with a shape and a type. An argument of kernels of its device; on the host "
                "and on GPUs other\n"
                "libraries read it in place through __array_interface__ and __cuda_array_interface__. Made "
                "by Device.memory\n"
                "and Device.copy."},
    {Py_tp_repr, memory_repr},
    {Py_tp_new, memory_new},
    {Py_tp_dealloc, memory_free},
    {Py_tp_traverse, kiln_child_visit},
    {Py_tp_clear, kiln_child_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_members, members},
    {0, NULL},
};
PyType_Spec kiln_memory_spec = {"kiln.Memory", sizeof(kiln_memory_object), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
