// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds an array's memory, shape and type by the cheapest protocol that its type supports: our own memory,
// exact tensors of PyTorch, NumPy by its buffer, then array interfaces (kiln._arrays), DLPack, and any
// other buffer. For arrays on the host the interface comes before DLPack, since not every DLPack can say
// read-only.
#include "python/extension/extension.h"

#include <stdio.h>
#include <string.h>

static const struct {
  int number;
  const char *name;
  unsigned devices;
} places[] = {
#define PLACE(name, number, text, devices) {number, text, devices},
#include "python/extension/places.def"
#undef PLACE
};

const char *kiln_place_name(kiln_place place) { return places[place].name; }
unsigned kiln_place_devices(kiln_place place) { return places[place].devices; }

static kiln_place place_of(int number) {
  if (number == places[KILN_PLACE_CUDA].number) return KILN_PLACE_CUDA;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (places[i].number == number && number) return (kiln_place)i;
  return KILN_PLACE_ELSEWHERE;
}

void kiln_hold_drop(kiln_hold *hold) {
  switch (hold->kind) {
  case HOLDS_NOTHING: break;
  case HOLDS_OBJECT: Py_DECREF(hold->object); break;
  case HOLDS_BUFFER: PyBuffer_Release(&hold->buffer); break;
  case HOLDS_CHILD: {
    PyObject *object = (PyObject *)hold->child;
    kiln_child_unuse(hold->child);
    Py_DECREF(object);
    break;
  }
  }
  hold->kind = HOLDS_NOTHING;
}

// ------------------------------------------------------------------------------------------- shapes

static size_t element_size(const kiln_array *array) { return (array->type & 0xFFFF) / 8; }

size_t kiln_array_size(const kiln_array *array) {
  size_t size = element_size(array);
  for (int i = 0; i < array->rank; i++) size *= (size_t)array->shape[i];
  return size;
}

bool kiln_array_is_contiguous(const kiln_array *array) {
  if (!array->strides) return true;
  int64_t step = array->strides_are_bytes ? (int64_t)element_size(array) : 1;
  bool is_dense = true;
  for (int i = array->rank; i-- > 0;) {
    if (array->shape[i] == 0) return true;
    is_dense &= array->shape[i] == 1 || array->strides[i] == step; // strides of extents below 2 say nothing
    step *= array->shape[i];
  }
  return is_dense;
}

void kiln_array_refuse_strides(const kiln_array *array) {
  int64_t size = (int64_t)element_size(array), step = size;
  PyObject *shape = kiln_integers(array->shape, (size_t)array->rank, 1), *dense = PyTuple_New(array->rank);
  PyObject *strides = kiln_integers(array->strides, (size_t)array->rank, array->strides_are_bytes ? 1 : size);
  for (int i = array->rank; dense && i-- > 0;) {
    PyTuple_SetItem(dense, i, PyLong_FromLongLong(step));
    step *= array->shape[i];
  }
  if (shape && dense && strides)
    PyErr_Format(PyExc_ValueError,
                 "expected contiguous elements, since a pointer has no strides, found shape %R with strides "
                 "%R in bytes "
                 "where %R is contiguous; pass a copy, or kiln.strided(array) to a kernel that takes the "
                 "strides itself",
                 shape, strides, dense);
  Py_XDECREF(shape);
  Py_XDECREF(dense);
  Py_XDECREF(strides);
}

PyObject *kiln_array_type_text(uint32_t type) {
  unsigned kind = type >> 16, bits = type & 0xFFFF;
  if (kind == 'F') return PyUnicode_FromFormat("bf%u", bits);
  if (kind == '4') return PyUnicode_FromString("e4m3");
  if (kind == '5') return PyUnicode_FromString("e5m2");
  if (kind == '?') return PyUnicode_FromFormat("code %u", bits);
  return PyUnicode_FromFormat("%c%u", (int)kind, bits);
}

// ------------------------------------------------------------------------------------------- buffer

// The kind of a format of one letter, as the struct module has them; V for all else.
static unsigned kind_of_format(const char *format) {
  if (!*format) return 'u';
  if (format[0] == 'Z') return 'c';
  if (format[1])
    return strspn(format, "0123456789") + 1 == strlen(format) && strpbrk(format, "sp") ? 'S' : 'V';
  static const char *const letters[] = {"bhilqn", "i", "BHILQN", "u", "efdg", "f",
                                        "?",      "b", "scp",    "S", "wu",   "U"};
  for (size_t i = 0; i < sizeof letters / sizeof *letters; i += 2)
    if (strchr(letters[i], format[0])) return (unsigned)letters[i + 1][0];
  return 'V';
}

static int from_buffer(PyObject *value, kiln_array *out, kiln_hold *hold) {
  Py_buffer *view = &hold->buffer;
  if (PyObject_GetBuffer(value, view, PyBUF_STRIDES | PyBUF_FORMAT)) return -1;
  hold->kind = HOLDS_BUFFER;
  const char *format = view->format ? view->format : "B";
  bool is_foreign = (*format == '>' || *format == '!') && view->itemsize > 1;
  if (strchr("@=<>!|", *format) && *format) format++;
  unsigned kind = kind_of_format(format);
  if (is_foreign) {
    PyErr_Format(PyExc_TypeError, "expected little-endian elements, found >%c%zd", (int)kind, view->itemsize);
    kiln_hold_drop(hold);
    return -1;
  }
  *out = (kiln_array){
      .address = (uintptr_t)view->buf,
      .type = KILN_IS(kind, (uint32_t)(view->itemsize > 4095 ? 0xFFF8 : view->itemsize * 8)),
      .rank = view->ndim,
      .shape = (const int64_t *)view->shape,
      .strides = (const int64_t *)view->strides,
      .strides_are_bytes = true,
      .place = KILN_PLACE_HOST,
      .index = -1,
      .read_only = view->readonly ? "is read-only" : NULL,
  };
  return 1;
}

// A type of a module that the program uses, kept in `found`; borrowed.
static PyTypeObject *type_of_module(const char *module, const char *name, PyTypeObject **found) {
  if (*found) return *found;
  PyObject *modules = PyImport_GetModuleDict(),
           *used = modules ? PyDict_GetItemString(modules, module) : NULL;
  PyObject *type = used ? PyObject_GetAttrString(used, name) : NULL;
  if (type && PyType_Check(type)) return *found = (PyTypeObject *)type;
  Py_XDECREF(type);
  PyErr_Clear();
  return NULL;
}

static PyTypeObject *numpy_array(void) {
  static PyTypeObject *found;
  return type_of_module("numpy", "ndarray", &found);
}

// JAX shares the memory of arrays that never change, and its DLPack does not say so.
static bool is_of_jax(PyObject *value) {
  static PyTypeObject *found;
  PyObject *array = (PyObject *)type_of_module("jax", "Array", &found);
  int is = array ? PyObject_IsInstance(value, array) : 0;
  if (is < 0) PyErr_Clear();
  return is > 0;
}

// ------------------------------------------------------------------------------------------- DLPack

static void place_array(kiln_array *array, int device_type, int device_id) {
  array->place = place_of(device_type);
  array->index = array->place == KILN_PLACE_CUDA || array->place == KILN_PLACE_HIP ? device_id : -1;
}

bool kiln_array_from_dlpack(const dlpack_tensor *tensor, kiln_array *out) {
  static const char kinds[] = "iuf?Fcb?4?4?5"; // by code
  if (tensor->lanes != 1) {
    PyErr_Format(PyExc_TypeError, "expected elements of one lane, found %d", (int)tensor->lanes);
    return false;
  }
  unsigned kind = tensor->code < sizeof kinds - 1 ? (unsigned char)kinds[tensor->code] : '?';
  *out = (kiln_array){
      .address = (uintptr_t)tensor->data + tensor->byte_offset,
      .type = KILN_IS(kind, kind == '?' ? (uint32_t)tensor->code : tensor->bits),
      .rank = tensor->rank,
      .shape = tensor->shape,
      .strides = tensor->strides,
  };
  place_array(out, tensor->device_type, tensor->device_id);
  return true;
}

// A capsule, by version 1 where the producer knows it: only that says whether the tensor may be written.
static PyObject *ask_for_capsule(PyObject *value, int device_type, kiln_stream stream) {
  PyObject *method = PyObject_GetAttrString(value, "__dlpack__"), *capsule = NULL;
  PyObject *none = PyTuple_New(0), *named = PyDict_New(), *version = Py_BuildValue("(ii)", DLPACK_MAJOR, 0);
  PyObject *number = NULL;
  uintptr_t handle = (uintptr_t)stream;
  if (device_type == 2 || device_type == 13)
    number = PyLong_FromUnsignedLongLong(handle ? handle : 1); // 1: the legacy default stream
  else if (device_type == 10) number = PyLong_FromUnsignedLongLong(handle);
  bool is_fine = method && none && named && version && !PyErr_Occurred();
  is_fine = is_fine && (!number || !PyDict_SetItemString(named, "stream", number));
  is_fine = is_fine && !PyDict_SetItemString(named, "max_version", version);
  if (is_fine) capsule = PyObject_Call(method, none, named);
  if (is_fine && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    if (!PyDict_DelItemString(named, "max_version")) capsule = PyObject_Call(method, none, named);
  }
  Py_XDECREF(method);
  Py_XDECREF(none);
  Py_XDECREF(named);
  Py_XDECREF(version);
  Py_XDECREF(number);
  return capsule;
}

static bool open_capsule(PyObject *capsule, kiln_array *out) {
  if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const dlpack_tensor *tensor = PyCapsule_GetPointer(capsule, "dltensor");
    return tensor && kiln_array_from_dlpack(tensor, out);
  }
  const dlpack_versioned *found = PyCapsule_GetPointer(capsule, "dltensor_versioned");
  if (!found) return false;
  if (found->version.major > DLPACK_MAJOR) {
    PyErr_Format(PyExc_BufferError, "expected DLPack of version %d, found %u.%u", DLPACK_MAJOR,
                 found->version.major, found->version.minor);
    return false;
  }
  if (!kiln_array_from_dlpack(&found->tensor, out)) return false;
  out->read_only = found->flags & DLPACK_READ_ONLY   ? "is read-only"
                   : found->flags & DLPACK_IS_COPIED ? "is given as a copy"
                                                     : NULL;
  return true;
}

// A number of a pair; some have enumerations there.
static int member_of(PyObject *pair, Py_ssize_t at) {
  PyObject *item = pair ? PySequence_GetItem(pair, at) : NULL, *number = item ? PyNumber_Long(item) : NULL;
  int member = number ? (int)PyLong_AsLong(number) : -1;
  Py_XDECREF(item);
  Py_XDECREF(number);
  return member;
}

static int from_dlpack(PyObject *value, kiln_stream stream, kiln_array *out, kiln_hold *hold) {
  PyObject *device = PyObject_CallMethod(value, "__dlpack_device__", NULL);
  int type = member_of(device, 0), index = member_of(device, 1);
  Py_XDECREF(device);
  PyObject *capsule = PyErr_Occurred() ? NULL : ask_for_capsule(value, type, stream);
  if (!capsule) return -1;
  if (!open_capsule(capsule, out)) {
    Py_DECREF(capsule);
    return -1;
  }
  place_array(out, type, index);
  if (is_of_jax(value))
    out->read_only = "is JAX's, whose arrays never change; kiln.jax.call returns new ones";
  hold->kind = HOLDS_OBJECT; // the capsule is not renamed, so its own end gives the tensor back
  hold->object = capsule;
  return 1;
}

// --------------------------------------------------------------------------------------- interfaces

static bool copy_integers(PyObject *sequence, int64_t *out, Py_ssize_t count) {
  if (PySequence_Size(sequence) != count) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_ValueError, "the array interface has strides of another rank");
    return false;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *item = PySequence_GetItem(sequence, i);
    out[i] = item ? PyNumber_AsSsize_t(item, PyExc_OverflowError) : -1;
    Py_XDECREF(item);
    if (out[i] == -1 && PyErr_Occurred()) return false;
  }
  return true;
}

// kiln._arrays reads the dictionaries: (address, kind, bits, shape, strides or None, is on a GPU, is
// read-only, stream to wait for).
static int from_interface(PyObject *value, const char *name, kiln_stream stream, kiln_device_object *device,
                          kiln_array *out, kiln_hold *hold) {
  PyObject *found = PyObject_CallFunction(kiln_of.describe, "Os", value, name);
  if (!found) return -1;
  unsigned long long address;
  const char *kind;
  int bits, is_gpu, is_read_only;
  PyObject *shape, *strides, *producer, *storage = NULL;
  if (!PyArg_ParseTuple(found, "KsiOOppO", &address, &kind, &bits, &shape, &strides, &is_gpu, &is_read_only,
                        &producer))
    goto failed;
  Py_ssize_t rank = PySequence_Size(shape);
  if (rank < 0 || !(storage = PyBytes_FromStringAndSize(NULL, (2 * rank + 1) * (Py_ssize_t)sizeof(int64_t))))
    goto failed;
  int64_t *extents = (int64_t *)PyBytes_AsString(storage);
  if (!copy_integers(shape, extents, rank)) goto failed;
  if (strides != Py_None && !copy_integers(strides, extents + rank, rank)) goto failed;
  if (device && producer != Py_None) { // its work comes first; 1 is the default stream's name there
    unsigned long long its = PyLong_AsUnsignedLongLong(producer), ours = (uintptr_t)stream;
    if (PyErr_Occurred()) goto failed;
    if (its != (ours ? ours : 1) && !kiln_device_wait(device, (kiln_stream)(uintptr_t)its)) goto failed;
  }
  *out = (kiln_array){
      .address = address,
      .type = KILN_IS((uint32_t)kind[0], (uint32_t)(bits > 0xFFF8 ? 0xFFF8 : bits)),
      .rank = (int)rank,
      .shape = extents,
      .strides = strides == Py_None ? NULL : extents + rank,
      .strides_are_bytes = true,
      .place = is_gpu ? KILN_PLACE_GPU : KILN_PLACE_HOST,
      .index = is_gpu && device ? kiln_gpu_of_address(address, device->place) : -1,
      .read_only = is_read_only ? "is read-only" : NULL,
  };
  Py_DECREF(found);
  hold->kind = HOLDS_OBJECT;
  hold->object = storage;
  return 1;
failed:
  Py_DECREF(found);
  Py_XDECREF(storage);
  return -1;
}

// ---------------------------------------------------------------------------------------------- all

static int from_memory(PyObject *value, kiln_array *out, kiln_hold *hold) {
  kiln_memory_object *m = (kiln_memory_object *)value;
  kiln_device_object *device = m->child.device;
  if (!m->child.is_open || !device) return kiln_closed(value), -1;
  *out = (kiln_array){
      .address = (uintptr_t)m->child.handle,
      .type = m->element->own,
      .rank = m->rank,
      .shape = m->shape,
      .place = device->place == BY_HOST   ? KILN_PLACE_HOST
               : device->place == BY_CUDA ? KILN_PLACE_CUDA
               : device->place == BY_HIP  ? KILN_PLACE_HIP
                                          : KILN_PLACE_NULL,
      .index = device->index,
      .owner = device,
  };
  Py_INCREF(value);
  m->child.uses++;
  hold->kind = HOLDS_CHILD;
  hold->child = &m->child;
  return 1;
}

int kiln_array_of(PyObject *value, kiln_stream stream, kiln_device_object *device, bool wants_extents,
                  kiln_array *out, kiln_hold *hold) {
  PyTypeObject *type = Py_TYPE(value), *array;
  if (kiln_torch_is_exact(value)) return kiln_torch_array(value, wants_extents, out, hold);
  if (type == kiln_of.memory) return from_memory(value, out, hold);
  array = numpy_array();
  if (type == array || (array && PyType_IsSubtype(type, array))) {
    int found = from_buffer(value, out, hold);
    if (found > 0 || !PyErr_ExceptionMatches(PyExc_ValueError)) return found;
    PyErr_Clear(); // types that buffers cannot name
    return from_interface(value, "__array_interface__", stream, device, out, hold);
  }
  int found = kiln_torch_array(value, wants_extents, out, hold);
  if (found) return found;
  if (PyObject_HasAttrString(value, "__array_interface__"))
    return from_interface(value, "__array_interface__", stream, device, out, hold);
  if (PyObject_HasAttrString(value, "__dlpack__") && PyObject_HasAttrString(value, "__dlpack_device__")) {
    found = from_dlpack(value, stream, out, hold);
    out->is_tensor = found > 0 && kiln_torch_is(value); // a plain subclass
    return found;
  }
  if (PyObject_HasAttrString(value, "__cuda_array_interface__"))
    return from_interface(value, "__cuda_array_interface__", stream, device, out, hold);
  return PyObject_CheckBuffer(value) ? from_buffer(value, out, hold) : 0;
}
