// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements kiln.Device and kiln.Stream, and closes what belongs to a device.
#include "python/extension/extension.h"

#include <string.h>

// -------------------------------------------------------------------------------------------- held

static void end(kiln_held *h) {
  kiln_device *handle = h->handle;
  if (!handle || h->calls) return;
  h->handle = NULL;
  Py_BEGIN_ALLOW_THREADS h->c->device_close(handle);
  Py_END_ALLOW_THREADS
}

static void close_held(kiln_held *h) {
  h->is_ending = true;
  end(h);
}

void kiln_held_drop(kiln_held *h) {
  if (--h->claims) return;
  close_held(h);
  if (h->calls) return; // the last call comes here again
  kiln_opened_drop(h->opened);
  PyMem_Free(h);
}

bool kiln_held_begin(kiln_held *h) {
  if (!h || !h->handle || h->is_ending) {
    PyErr_SetString(PyExc_ValueError, "this device is closed, or the library that it is of");
    return false;
  }
  h->claims++;
  h->calls++;
  return true;
}

void kiln_held_end(kiln_held *h) {
  h->calls--;
  if (h->is_ending) end(h);
  kiln_held_drop(h);
}

// ------------------------------------------------------------------------------------------ children

void kiln_child_add(kiln_child *child, kiln_device_object *device, void *handle,
                    void (*release)(kiln_child *child)) {
  child->device = (kiln_device_object *)Py_NewRef((PyObject *)device);
  child->held = device->held;
  child->held->claims++;
  child->handle = handle;
  child->release = release;
  child->is_open = true;
  child->next = device->children;
  if (device->children) device->children->previous = child;
  device->children = child;
}

static void release(kiln_child *child) {
  kiln_held *h = child->held;
  if (child->is_released || child->is_open || child->uses) return;
  child->is_released = true;
  if (!h->handle) return;
  h->calls++; // freeing may wait for the device
  child->release(child);
  h->calls--;
  if (h->is_ending) end(h);
}

void kiln_child_close(kiln_child *child) {
  if (!child->is_open) return;
  child->is_open = false;
  if (child->previous) child->previous->next = child->next;
  else if (child->device && child->device->children == child) child->device->children = child->next;
  if (child->next) child->next->previous = child->previous;
  child->previous = child->next = NULL;
  release(child);
}

void kiln_child_unuse(kiln_child *child) {
  child->uses--;
  release(child);
}

int kiln_child_visit(PyObject *self, visitproc visit, void *arg) {
  kiln_child *child = (kiln_child *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(child->dict);
  Py_VISIT(child->device);
  return 0;
}

int kiln_child_clear(PyObject *self) {
  kiln_child *child = (kiln_child *)self;
  Py_CLEAR(child->dict);
  kiln_child_close(child); // it leaves the device's list while the device is there
  Py_CLEAR(child->device);
  return 0;
}

static void child_drop(PyObject *self) {
  kiln_held *held = ((kiln_child *)self)->held;
  if (held) kiln_held_drop(held);
}

void kiln_child_free(PyObject *self) {
  kiln_object_free(self, ((kiln_child *)self)->weak, kiln_child_clear, child_drop);
}

// ----------------------------------------------------------------------------------- shared methods

PyObject *kiln_enter(PyObject *self, PyObject *Py_UNUSED(none)) {
  Py_INCREF(self);
  return self;
}

PyObject *kiln_exit(PyObject *self, PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(count)) {
  return PyObject_CallMethod(self, "close", NULL);
}

// "Device" as "device"; new.
static PyObject *kind_of(PyObject *self) {
  PyObject *name = PyType_GetName(Py_TYPE(self));
  PyObject *lower = name ? PyObject_CallMethod(name, "lower", NULL) : NULL;
  Py_XDECREF(name);
  return lower;
}

PyObject *kiln_closed(PyObject *self) {
  PyObject *kind = kind_of(self);
  if (kind) PyErr_Format(PyExc_ValueError, "this %U is closed", kind);
  Py_XDECREF(kind);
  return NULL;
}

PyObject *kiln_refuse_pickling(PyObject *self, PyObject *Py_UNUSED(none)) {
  PyObject *kind = kind_of(self);
  if (kind)
    PyErr_Format(PyExc_TypeError, "a %U belongs to its process: open the bundle in the other one", kind);
  Py_XDECREF(kind);
  return NULL;
}

PyObject *kiln_pickle(PyObject *self, PyObject *Py_UNUSED(none)) {
  PyObject *pickling = PyImport_ImportModule("kiln._pickling");
  PyObject *found = pickling ? PyObject_CallMethod(pickling, "reduce", "O", self) : NULL;
  Py_XDECREF(pickling);
  return found;
}

// ------------------------------------------------------------------------------------------- device

bool kiln_device_is_open(kiln_device_object *device) {
  if (device && device->is_open && device->held->handle && !device->held->is_ending) return true;
  PyErr_SetString(PyExc_ValueError, "this device is closed, or the library that it is of");
  return false;
}

static void leave_library(kiln_device_object *d) {
  if (d->previous) d->previous->next = d->next;
  else if (d->library && d->library->devices == d) d->library->devices = d->next;
  if (d->next) d->next->previous = d->previous;
  d->previous = d->next = NULL;
}

static PyObject *device_close(PyObject *self, PyObject *Py_UNUSED(none)) {
  kiln_device_object *d = (kiln_device_object *)self;
  if (!d->is_open) Py_RETURN_NONE;
  d->is_open = false;
  leave_library(d);
  while (d->children) kiln_child_close(d->children);
  close_held(d->held);
  Py_RETURN_NONE;
}

static PyObject *device_target(PyObject *self, void *Py_UNUSED(closure)) {
  kiln_device_object *d = (kiln_device_object *)self;
  return kiln_device_is_open(d) ? kiln_text(d->held->c->device_target_name(d->held->handle)) : NULL;
}

static PyObject *device_description(PyObject *self, void *Py_UNUSED(closure)) {
  kiln_device_object *d = (kiln_device_object *)self;
  return kiln_device_is_open(d) ? kiln_text(d->held->c->device_description(d->held->handle)) : NULL;
}

static PyObject *device_kernel(PyObject *self, PyObject *name) {
  return kiln_kernel_new((kiln_device_object *)self, name);
}

// The report of a kernel; to be freed. NULL with an exception.
static kiln_report *report_of(kiln_device_object *d, PyObject *name) {
  const char *text = kiln_text_for("name", name);
  if (!text || !kiln_held_begin(d->held)) return NULL;
  kiln_report *report = NULL;
  kiln_error err;
  kiln_status status = d->held->c->explain(d->held->handle, text, &report, &err);
  kiln_held_end(d->held);
  if (status) kiln_raise(status, &err);
  return status ? NULL : report;
}

static PyObject *device_explain(PyObject *self, PyObject *name) {
  kiln_device_object *d = (kiln_device_object *)self;
  kiln_report *report = report_of(d, name);
  if (!report) return NULL;
  PyObject *text = kiln_text(d->held->c->report_text(report));
  d->held->c->report_free(report);
  return text;
}

static PyObject *device_candidates(PyObject *self, PyObject *name) {
  kiln_device_object *d = (kiln_device_object *)self;
  kiln_report *report = report_of(d, name);
  if (!report) return NULL;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < d->held->c->report_count(report); i++) {
    kiln_candidate found;
    d->held->c->report_at(report, i, &found);
    PyObject *one = kiln_result("Candidate", "(ssssIs)", found.bundle, found.target, found.config,
                                found.variant, found.rank, found.rule);
    if (!one || PyList_Append(list, one)) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  d->held->c->report_free(report);
  return list;
}

static PyObject *device_preflight(PyObject *self, PyObject *Py_UNUSED(none)) {
  kiln_device_object *d = (kiln_device_object *)self;
  if (!kiln_held_begin(d->held)) return NULL;
  kiln_preflight found;
  kiln_error err;
  kiln_status status;
  Py_BEGIN_ALLOW_THREADS status = d->held->c->device_preflight(d->held->handle, &found, &err);
  Py_END_ALLOW_THREADS PyObject *result =
      status ? kiln_raise(status, &err)
             : kiln_result("Preflight", "(nnnnnz)", (Py_ssize_t)found.kernels, (Py_ssize_t)found.exact,
                           (Py_ssize_t)found.generic, (Py_ssize_t)found.jit, (Py_ssize_t)found.missing,
                           found.first_missing);
  kiln_held_end(d->held);
  return result;
}

bool kiln_device_wait(kiln_device_object *d, kiln_stream stream) {
  if (!kiln_held_begin(d->held)) return false;
  kiln_held *h = d->held;
  kiln_error err;
  kiln_status status;
  Py_BEGIN_ALLOW_THREADS status = h->c->sync(h->handle, stream, &err);
  Py_END_ALLOW_THREADS kiln_held_end(h);
  if (status) kiln_raise(status, &err);
  return !status;
}

static PyObject *device_sync(PyObject *self, PyObject *args, PyObject *named) {
  static char *names[] = {"stream", NULL};
  PyObject *value = Py_None;
  kiln_stream stream;
  if (!kiln_know_keywords("sync", named, names) ||
      !PyArg_ParseTupleAndKeywords(args, named, "|O:sync", names, &value) ||
      !kiln_stream_of(value, (kiln_device_object *)self, &stream) ||
      !kiln_device_wait((kiln_device_object *)self, stream))
    return NULL;
  Py_RETURN_NONE;
}

static PyObject *device_memory(PyObject *self, PyObject *args, PyObject *named) {
  static char *names[] = {"shape", "type", NULL};
  PyObject *shape, *type = NULL;
  if (!kiln_know_keywords("memory", named, names) ||
      !PyArg_ParseTupleAndKeywords(args, named, "O|U:memory", names, &shape, &type))
    return NULL;
  if (type) return PyObject_CallFunctionObjArgs((PyObject *)kiln_of.memory, self, shape, type, NULL);
  return PyObject_CallFunction((PyObject *)kiln_of.memory, "OOs", self, shape, "i8");
}

// The type of the kernel language that new memory for an array gets: what it says of itself, or `wanted`.
static const kiln_element *element_for(const kiln_array *array, const char *wanted) {
  const kiln_element *own = NULL;
  for (size_t i = 0; i < kiln_element_count; i++) {
    const kiln_element *e = &kiln_elements[i];
    bool is_taken = false;
    for (const uint32_t *a = e->accepted; *a; a++) is_taken |= *a == array->type;
    if (is_taken && wanted && !strcmp(wanted, e->name)) return e;
    uint32_t type = array->type >> 16 == 'u' ? KILN_IS('i', array->type & 0xFFFF) : array->type;
    if (is_taken && e->own == type) own = e;
  }
  return wanted ? NULL : own;
}

static PyObject *device_copy(PyObject *self, PyObject *args, PyObject *named) {
  static char *names[] = {"array", "type", NULL};
  PyObject *value, *memory = NULL, *shape = NULL, *done = NULL;
  const char *wanted = NULL;
  kiln_array array;
  kiln_hold hold = {HOLDS_NOTHING};
  if (!kiln_know_keywords("copy", named, names) ||
      !PyArg_ParseTupleAndKeywords(args, named, "O|z:copy", names, &value, &wanted))
    return NULL;
  int found = kiln_array_of(value, NULL, NULL, true, &array, &hold);
  if (found < 0) return NULL;
  const kiln_element *element = found ? element_for(&array, wanted) : NULL;
  if (!found) PyErr_Format(PyExc_TypeError, "expected a host array, found %R", Py_TYPE(value));
  else if (!element) {
    PyObject *text = kiln_array_type_text(array.type);
    if (text && wanted)
      PyErr_Format(PyExc_TypeError, "elements of %U are not %s of the kernel language", text, wanted);
    else if (text) PyErr_Format(PyExc_TypeError, "elements of %U are no type of the kernel language", text);
    Py_XDECREF(text);
  } else shape = PyTuple_New(array.rank);
  for (int i = 0; shape && i < array.rank; i++)
    PyTuple_SetItem(shape, i, PyLong_FromLongLong(array.shape[i]));
  if (shape) memory = PyObject_CallFunction((PyObject *)kiln_of.memory, "OOs", self, shape, element->name);
  if (memory) done = PyObject_CallMethod(memory, "copy_in", "(O)", value);
  if (!done) Py_CLEAR(memory);
  Py_XDECREF(done);
  Py_XDECREF(shape);
  kiln_hold_drop(&hold);
  return memory;
}

static PyObject *device_stream(PyObject *self, PyObject *Py_UNUSED(none)) {
  return PyObject_CallFunctionObjArgs((PyObject *)kiln_of.stream, self, NULL);
}

static int device_traverse(PyObject *self, visitproc visit, void *arg) {
  kiln_device_object *d = (kiln_device_object *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(d->dict);
  Py_VISIT(d->library);
  return 0;
}

// What depends on the device lives on by its own claims.
static int device_clear(PyObject *self) {
  kiln_device_object *d = (kiln_device_object *)self;
  Py_CLEAR(d->dict);
  leave_library(d);
  Py_CLEAR(d->library);
  return 0;
}

static void device_drop(PyObject *self) {
  kiln_device_object *d = (kiln_device_object *)self;
  for (kiln_child *child = d->children, *next; child; child = next) {
    next = child->next;
    child->previous = child->next = NULL;
  }
  Py_CLEAR(d->name);
  if (d->held) kiln_held_drop(d->held);
}

static void device_free(PyObject *self) {
  kiln_object_free(self, ((kiln_device_object *)self)->weak, device_clear, device_drop);
}

static PyObject *device_repr(PyObject *self) {
  kiln_device_object *d = (kiln_device_object *)self;
  return PyUnicode_FromFormat("<kiln.Device %U%s>", d->name, d->is_open ? "" : ", closed");
}

static PyMethodDef device_methods[] = {
    {"kernel", device_kernel, METH_O,
     "kernel($self, name, /)\n--\n\nThe kernel of that name (\"softmax[T=f32]\"). Raises NotFound, or "
     "NoVariant with "
     "the report of every "
     "candidate."},
    {"explain", device_explain, METH_O,
     "explain($self, name, /)\n--\n\nWhy each code of a kernel fits this device or not; one paragraph, also "
     "for "
     "kernels that do not "
     "exist."},
    {"candidates", device_candidates, METH_O,
     "candidates($self, name, /)\n--\n\nThe same as a list of Candidate; `rule` is \"\" for those that fit."},
    {"preflight", device_preflight, METH_NOARGS,
     "preflight($self)\n--\n\nHow many kernels of the library run here, by the best path of each."},
    {"memory", (PyCFunction)(void (*)(void))device_memory, METH_VARARGS | METH_KEYWORDS,
     "memory($self, shape, type=\"i8\")\n--\n\nNew memory of the device: `shape` elements (an integer or a "
     "tuple) "
     "of a type of the "
     "kernel language."},
    {"copy", (PyCFunction)(void (*)(void))device_copy, METH_VARARGS | METH_KEYWORDS,
     "copy($self, array, type=None)\n--\n\nNew memory of the device with a copy of a contiguous host array; "
     "`type` "
     "where its own says "
     "less (\"bf16\" of 16-bit words)."},
    {"stream", device_stream, METH_NOARGS, "stream($self)\n--\n\nA new stream."},
    {"sync", (PyCFunction)(void (*)(void))device_sync, METH_VARARGS | METH_KEYWORDS,
     "sync($self, stream=None)\n--\n\nWaits for all work given to the stream; raises the errors of earlier "
     "launches."},
    {"close", device_close, METH_NOARGS,
     "close($self)\n--\n\nEnds the device's memory, streams and kernels, then the device."},
    {"__enter__", kiln_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))kiln_exit, METH_FASTCALL, NULL},
    {"__reduce__", kiln_pickle, METH_NOARGS, NULL},
    {0},
};
static PyGetSetDef device_getters[] = {
    {"target", device_target, NULL, "The processor, such as \"sm_90\" or \"x86-64-v3\".", NULL},
    {"description", device_description, NULL, "The driver's name of the device.", NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {0},
};
static PyMemberDef device_members[] = {
    {"name", T_OBJECT_EX, offsetof(kiln_device_object, name), READONLY, "What it was opened by."},
    {"library", T_OBJECT_EX, offsetof(kiln_device_object, library), READONLY,
     "The library it was opened from."},
    {"__dictoffset__", T_PYSSIZET, offsetof(kiln_device_object, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(kiln_device_object, weak), READONLY, NULL},
    {0},
};
static PyType_Slot device_slots[] = {
    {Py_tp_doc, "One device, seen through one library. Made by Library.device."},
    {Py_tp_repr, device_repr},
    {Py_tp_dealloc, device_free},
    {Py_tp_traverse, device_traverse},
    {Py_tp_clear, device_clear},
    {Py_tp_methods, device_methods},
    {Py_tp_getset, device_getters},
    {Py_tp_members, device_members},
    {0, NULL},
};
PyType_Spec kiln_device_spec = {"kiln.Device", sizeof(kiln_device_object), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                device_slots};

// ------------------------------------------------------------------------------------------- stream

static bool from_integer(PyObject *value, kiln_stream *out) {
  *out = value ? PyLong_AsVoidPtr(value) : NULL;
  Py_XDECREF(value);
  return !PyErr_Occurred();
}

bool kiln_device_is_same(const kiln_device_object *a, const kiln_device_object *b) {
  if (a == b) return true;
  if (a->place != b->place) return false;
  return a->place == BY_NULL ? !PyUnicode_Compare(a->name, b->name)
                             : a->place == BY_HOST || a->index == b->index;
}

// What a framework's stream says of its device, of which the default stream has no handle to tell it by.
static bool is_stream_of(PyObject *value, const char *name, const kiln_device_object *device) {
  PyObject *number = name ? PyObject_GetAttrString(value, name) : NULL;
  long index = number ? PyLong_AsLong(number) : -1;
  Py_XDECREF(number);
  PyErr_Clear();
  if (index < 0 || index == device->index) return true;
  PyErr_Format(PyExc_TypeError, "argument 'stream': expected a stream of %U, found one of %s:%ld",
               device->name, device->place == BY_HIP ? "hip" : "cuda", index);
  return false;
}

static bool foreign_stream(PyObject *value, const kiln_device_object *device, kiln_stream *out) {
  static const struct {
    const char *handle, *device;
  } names[] = {
      {"cuda_stream", "device_index"}, {"__cuda_stream__", NULL}, {"handle", NULL}, {"ptr", "device_id"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!PyObject_HasAttrString(value, names[i].handle)) continue;
    PyObject *handle = PyObject_GetAttrString(value, names[i].handle);
    if (handle && PyCallable_Check(handle)) { // of the protocol: a version and the handle
      PyObject *pair = PyObject_CallFunctionObjArgs(handle, NULL);
      Py_DECREF(handle);
      handle = pair ? PySequence_GetItem(pair, 1) : NULL;
      Py_XDECREF(pair);
    }
    if (handle == Py_None) return Py_DECREF(handle), true;
    return from_integer(handle, out) &&
           (!(device->place & (BY_CUDA | BY_HIP)) || is_stream_of(value, names[i].device, device));
  }
  PyErr_Format(PyExc_TypeError,
               "expected a stream (None, an integer, kiln.Stream, or with cuda_stream or ptr), found %R",
               Py_TYPE(value));
  return false;
}

bool kiln_stream_of(PyObject *value, const kiln_device_object *device, kiln_stream *out) {
  *out = NULL;
  if (!value || value == Py_None) return true;
  if (Py_TYPE(value) == kiln_of.stream) {
    kiln_child *stream = (kiln_child *)value;
    if (!stream->is_open || !stream->device) return kiln_closed(value), false;
    if (!kiln_device_is_same(stream->device, device))
      return PyErr_Format(PyExc_TypeError, "argument 'stream': expected a stream of %U, found one of %U",
                          device->name, stream->device->name),
             false;
    *out = stream->handle;
    return true;
  }
  if (PyLong_Check(value)) {
    Py_INCREF(value);
    return from_integer(value, out);
  }
  return foreign_stream(value, device, out);
}

static void destroy_stream(kiln_child *child) {
  child->held->c->stream_destroy(child->held->handle, child->handle);
}

static PyObject *stream_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named)) {
  PyObject *owner;
  if (!PyArg_ParseTuple(args, "O!:Stream", kiln_of.device, &owner)) return NULL;
  kiln_device_object *device = (kiln_device_object *)owner;
  if (!kiln_held_begin(device->held)) return NULL;
  kiln_stream handle = NULL;
  kiln_error err;
  kiln_status status = device->held->c->stream_create(device->held->handle, &handle, &err);
  kiln_child *self = status ? NULL : (kiln_child *)PyType_GenericAlloc(type, 0);
  if (self) kiln_child_add(self, device, handle, destroy_stream);
  kiln_held_end(device->held);
  return status ? kiln_raise(status, &err) : (PyObject *)self;
}

static PyObject *stream_sync(PyObject *self, PyObject *Py_UNUSED(none)) {
  kiln_child *stream = (kiln_child *)self;
  if (!stream->is_open) return kiln_closed(self);
  if (!kiln_device_wait(stream->device, stream->handle)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *stream_close(PyObject *self, PyObject *Py_UNUSED(none)) {
  kiln_child_close((kiln_child *)self);
  Py_RETURN_NONE;
}

static PyObject *stream_handle(PyObject *self, void *Py_UNUSED(closure)) {
  kiln_child *stream = (kiln_child *)self;
  if (stream->handle) return PyLong_FromVoidPtr(stream->handle);
  Py_RETURN_NONE;
}

static PyMethodDef stream_methods[] = {
    {"sync", stream_sync, METH_NOARGS, "sync($self)\n--\n\nWaits for all work given to it."},
    {"close", stream_close, METH_NOARGS, "close($self)\n--\n\nDestroys the stream."},
    {"__enter__", kiln_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))kiln_exit, METH_FASTCALL, NULL},
    {"__reduce__", kiln_refuse_pickling, METH_NOARGS, NULL},
    {0},
};
static PyGetSetDef stream_getters[] = {
    {"handle", stream_handle, NULL,
     "The driver's handle as an integer; None on devices that have no streams.", NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {0},
};
static PyMemberDef stream_members[] = {
    {"device", T_OBJECT_EX, offsetof(kiln_child, device), READONLY, "The device it belongs to."},
    {"__dictoffset__", T_PYSSIZET, offsetof(kiln_child, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(kiln_child, weak), READONLY, NULL},
    {0},
};
static PyType_Slot stream_slots[] = {
    {Py_tp_doc, "A stream of a device. Made by Device.stream."},
    {Py_tp_new, stream_new},
    {Py_tp_dealloc, kiln_child_free},
    {Py_tp_traverse, kiln_child_visit},
    {Py_tp_clear, kiln_child_clear},
    {Py_tp_methods, stream_methods},
    {Py_tp_getset, stream_getters},
    {Py_tp_members, stream_members},
    {0, NULL},
};
PyType_Spec kiln_stream_spec = {"kiln.Stream", sizeof(kiln_child), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                stream_slots};
