// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads PyTorch tensors by their handles (handles.c), else by the C functions that their type provides
// (DLPack's exchange) or, without these, by attributes. Neither of the first two knows about flags, and
// other types inherit them, so they are used for exact torch.Tensor and Parameter only, and what DLPack
// would have refused is refused here.
#include "python/extension/extension.h"

#include <string.h>

// A function of PyTorch's own module, called without the calling convention where it is plain C of one
// argument or none.
typedef struct builtin {
  PyObject *object; // NULL: absent
  PyCFunction function;
  PyObject *self;
} builtin;

// An attribute that a descriptor of the type gives, without the search for it.
typedef struct property {
  PyObject *descriptor;
  descrgetfunc get;
} property;

enum { MOST_DTYPES = 32 };
static struct {
  bool is_looked_up;
  PyTypeObject *tensor, *parameter; // owned, with all below
  const dlpack_exchange *exchange;  // NULL: by attributes
  PyObject *is_neg, *disabled_dispatch, *data_ptr, *stride, *get_device, *is_contiguous, *current_stream;
  builtin is_grad_enabled, increment_version;
  property requires_grad, dtype, shape, is_cuda, is_nested;
  struct {
    PyObject *dtype;
    uint32_t type;
  } dtypes[MOST_DTYPES];
} torch;

const kiln_torch_type kiln_torch_types[] = {
    {"float32", KILN_IS('f', 32)},   {"float16", KILN_IS('f', 16)},      {"bfloat16", KILN_IS('F', 16)},
    {"float64", KILN_IS('f', 64)},   {"int32", KILN_IS('i', 32)},        {"int64", KILN_IS('i', 64)},
    {"int16", KILN_IS('i', 16)},     {"int8", KILN_IS('i', 8)},          {"uint8", KILN_IS('u', 8)},
    {"uint16", KILN_IS('u', 16)},    {"uint32", KILN_IS('u', 32)},       {"uint64", KILN_IS('u', 64)},
    {"bool", KILN_IS('b', 8)},       {"float8_e4m3fn", KILN_IS('4', 8)}, {"float8_e5m2", KILN_IS('5', 8)},
    {"complex64", KILN_IS('c', 64)}, {"complex128", KILN_IS('c', 128)},
};
const size_t kiln_torch_type_count = sizeof kiln_torch_types / sizeof *kiln_torch_types;

// ------------------------------------------------------------------------------------------ look-up

static void find_exchange(void) {
  PyObject *capsule = PyObject_GetAttrString((PyObject *)torch.tensor, "__dlpack_c_exchange_api__");
  const dlpack_exchange *e = capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
  Py_XDECREF(capsule); // the functions live as long as the process
  PyErr_Clear();
  while (e && e->version.major != DLPACK_MAJOR) e = e->previous;
  torch.exchange = e && e->tensor_from_object && e->current_stream ? e : NULL;
}

// The attribute at the end of a path of names; NULL without an exception.
static PyObject *attribute(PyObject *from, const char *path) {
  char name[64];
  Py_XINCREF(from);
  while (from && *path) {
    size_t length = strcspn(path, ".");
    memcpy(name, path, length);
    name[length] = 0;
    path += length + (path[length] == '.');
    PyObject *next = PyObject_GetAttrString(from, name);
    Py_DECREF(from);
    from = next;
  }
  PyErr_Clear();
  return from;
}

// Takes over `object`, which may be NULL.
static builtin builtin_of(PyObject *object, int flags) {
  builtin b = {.object = object};
  if (!object || Py_TYPE(object) != &PyCFunction_Type || PyCFunction_GetFlags(object) != flags) return b;
  b.function = PyCFunction_GetFunction(object);
  b.self = PyCFunction_GetSelf(object);
  return b;
}

static PyObject *call(const builtin *b, PyObject *argument) {
  return b->function ? b->function(b->self, argument)
                     : PyObject_CallFunctionObjArgs(b->object, argument, NULL);
}

static property property_of(PyObject *type, const char *name) {
  property p = {.descriptor = attribute(type, name)};
  if (p.descriptor) p.get = (descrgetfunc)PyType_GetSlot(Py_TYPE(p.descriptor), Py_tp_descr_get);
  return p;
}

static PyObject *get(const property *p, PyObject *value) {
  if (p->get) return p->get(p->descriptor, value, (PyObject *)Py_TYPE(value));
  return PyErr_SetString(PyExc_AttributeError, "this PyTorch lacks an attribute of tensors"), NULL;
}

// A method without arguments.
static PyObject *call_method(PyObject *method, PyObject *value) {
  return PyObject_Vectorcall(method, &value, 1, NULL);
}

bool kiln_torch_is_used(void) {
  if (torch.is_looked_up) return torch.tensor != NULL;
  PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
  PyObject *tensor = attribute(module, "Tensor"), *parameter = attribute(module, "nn.Parameter");
  if (!module || !tensor || !parameter || !PyType_Check(tensor)) { // not yet, or half imported
    Py_XDECREF(tensor);
    Py_XDECREF(parameter);
    return false;
  }
  torch.is_looked_up = true;
  torch.tensor = (PyTypeObject *)tensor;
  torch.parameter = (PyTypeObject *)parameter;
  torch.is_neg = attribute(tensor, "is_neg");
  torch.data_ptr = attribute(tensor, "data_ptr");
  torch.stride = attribute(tensor, "stride");
  torch.get_device = attribute(tensor, "get_device");
  torch.is_contiguous = attribute(tensor, "is_contiguous");
  torch.is_grad_enabled = builtin_of(attribute(module, "is_grad_enabled"), METH_NOARGS);
  torch.increment_version = builtin_of(attribute(module, "_C._increment_version"), METH_O);
  torch.disabled_dispatch = attribute(module, "_C._disabled_torch_dispatch_impl");
  torch.current_stream = attribute(module, "_C._cuda_getCurrentRawStream");
  torch.requires_grad = property_of(tensor, "requires_grad");
  torch.dtype = property_of(tensor, "dtype");
  torch.shape = property_of(tensor, "shape");
  torch.is_cuda = property_of(tensor, "is_cuda");
  torch.is_nested = property_of(tensor, "is_nested");
  size_t count = 0;
  for (size_t i = 0; i < kiln_torch_type_count; i++) {
    torch.dtypes[count].type = kiln_torch_types[i].type;
    if ((torch.dtypes[count].dtype = attribute(module, kiln_torch_types[i].name))) count++;
  }
  find_exchange();
  PyObject *hip = attribute(module, "version.hip");
  PyObject *cdata = attribute(tensor, "_cdata");
  PyObject *empty = attribute(module, "_C._dynamo.guards._empty_strided_cuda");
  kiln_handles_find(hip && hip != Py_None, torch.exchange != NULL, cdata, empty);
  Py_XDECREF(empty);
  Py_XDECREF(cdata);
  Py_XDECREF(hip);
  return true;
}

PyObject *kiln_torch_dtype(uint32_t type) {
  for (size_t i = 0; i < MOST_DTYPES && torch.dtypes[i].dtype; i++)
    if (torch.dtypes[i].type == type) return torch.dtypes[i].dtype;
  return NULL;
}

static bool is_exact(PyTypeObject *type) { return type == torch.tensor || type == torch.parameter; }

bool kiln_torch_is_exact(PyObject *value) { return is_exact(Py_TYPE(value)); }

// A subclass that handles its operations itself (fake, functional, distributed) need not have memory of its
// own.
static int refuse_dispatching(PyObject *value) {
  PyTypeObject *type = Py_TYPE(value);
  if (!PyType_IsSubtype(type, torch.tensor)) return 0;
  PyObject *dispatch = attribute((PyObject *)type, "__torch_dispatch__");
  bool is_plain = !dispatch || dispatch == torch.disabled_dispatch;
  Py_XDECREF(dispatch);
  if (is_plain) return 0;
  PyObject *name = PyType_GetName(type);
  if (name)
    PyErr_Format(PyExc_TypeError, "expected a plain tensor, found a %U, which handles its operations itself",
                 name);
  Py_XDECREF(name);
  return -1;
}

// ------------------------------------------------------------------------------------------- arrays

// Whether the memory of the tensor holds its numbers with the other sign, as that of a conjugate's imaginary
// part does. -1 with an exception.
static int is_negative(PyObject *value, const kiln_array *array) {
  if (array->handle) return kiln_handle_is_negative(array);
  PyObject *answer = torch.is_neg ? call_method(torch.is_neg, value) : Py_NewRef(Py_False);
  Py_XDECREF(answer);
  return !answer ? -1 : answer == Py_True;
}

static bool has_elements(const kiln_array *array) {
  for (int i = 0; i < array->rank; i++)
    if (!array->shape[i]) return false;
  return true;
}

// Says what the tensor is that has no memory, and the first line of why: PyTorch's errors have a trace of C++ after it.
static void say_what_it_is(PyObject *tensor) {
  static const char *const names[] = {"dtype", "layout", "device"};
  PyObject *type, *error, *trace, *found[3];
  PyErr_Fetch(&type, &error, &trace);
  for (unsigned i = 0; i < 3; i++) {
    found[i] = PyObject_GetAttrString(tensor, names[i]);
    PyErr_Clear();
  }
  PyObject *text = error ? PyObject_Str(error) : NULL;
  PyObject *lines = text ? PyUnicode_Splitlines(text, 0) : NULL;
  PyObject *first = lines && PyList_Size(lines) > 0 ? PyList_GetItem(lines, 0) : Py_None;
  PyErr_Format(PyExc_TypeError,
               "expected a dense tensor with memory on the CPU or a GPU, found one of %S, %S, on %S: %S",
               found[0] ? found[0] : Py_None, found[1] ? found[1] : Py_None, found[2] ? found[2] : Py_None,
               first);
  for (unsigned i = 0; i < 3; i++) Py_XDECREF(found[i]);
  Py_XDECREF(lines);
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(error);
  Py_XDECREF(trace);
}

static bool is_plain(PyObject *value, const kiln_array *array) {
  if (!array->address &&
      (!array->shape || has_elements(array))) { // of a transform, or zeros that are none yet
    PyErr_SetString(PyExc_ValueError, "the tensor has no memory of its own");
    say_what_it_is(value);
    return false;
  }
  int negative = is_negative(value, array);
  if (negative > 0)
    PyErr_SetString(PyExc_ValueError,
                    "the tensor is negative: its memory holds other numbers; pass tensor.resolve_neg()");
  return !negative;
}

static bool by_exchange(PyObject *value, kiln_array *out) {
  dlpack_tensor tensor;
  if (!torch.exchange->tensor_from_object(value, &tensor)) return kiln_array_from_dlpack(&tensor, out);
  say_what_it_is(value);
  return false;
}

static bool integers(PyObject *tuple, int64_t *out, int count) {
  bool is_fine = PyTuple_Size(tuple) == count;
  for (int i = 0; is_fine && i < count; i++) out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
  return is_fine && !PyErr_Occurred();
}

// Where extents and strides of a rank lie: in the hold, or in bytes that it keeps.
static int64_t *room_for(Py_ssize_t rank, kiln_hold *hold) {
  if (2 * (size_t)rank <= sizeof hold->extents / sizeof *hold->extents) return hold->extents;
  PyObject *storage = PyBytes_FromStringAndSize(NULL, 2 * rank * (Py_ssize_t)sizeof(int64_t));
  if (!storage) return NULL;
  *hold = (kiln_hold){.kind = HOLDS_OBJECT, .object = storage};
  return (int64_t *)PyBytes_AsString(storage);
}

static kiln_place place_of(PyObject *value, int index) {
  if (index < 0) return KILN_PLACE_HOST;
  PyObject *is_cuda = get(&torch.is_cuda, value);
  Py_XDECREF(is_cuda);
  return is_cuda == Py_True ? KILN_PLACE_GPU : KILN_PLACE_ELSEWHERE;
}

static bool take_extents(PyObject *value, kiln_array *out, kiln_hold *hold) {
  PyObject *shape = get(&torch.shape, value), *strides = NULL;
  Py_ssize_t rank = shape ? PyTuple_Size(shape) : -1;
  int64_t *extents = rank < 0 ? NULL : room_for(rank, hold);
  bool is_fine = extents && integers(shape, extents, (int)rank);
  if (is_fine) strides = call_method(torch.stride, value);
  is_fine = strides && integers(strides, extents + rank, (int)rank);
  if (is_fine) {
    out->rank = (int)rank;
    out->shape = extents;
    out->strides = extents + rank;
  }
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  return is_fine;
}

// What is contiguous and has memory needs no extents unless they are `wanted`.
static bool by_attributes(PyObject *value, bool wanted, kiln_array *out, kiln_hold *hold) {
  PyObject *is_nested = torch.is_nested.get ? get(&torch.is_nested, value) : NULL;
  Py_XDECREF(is_nested);
  if (is_nested == Py_True) {
    PyErr_SetString(PyExc_TypeError, "the tensor is nested");
    say_what_it_is(value);
    return false;
  }
  PyObject *address = call_method(torch.data_ptr, value);
  PyObject *dtype = address ? get(&torch.dtype, value) : NULL;
  PyObject *device = dtype ? call_method(torch.get_device, value) : NULL;
  PyObject *is_dense = device && !wanted ? call_method(torch.is_contiguous, value) : NULL;
  bool is_fine = device && (wanted || is_dense);
  if (is_fine) {
    *out = (kiln_array){.address = PyLong_AsUnsignedLongLong(address), .type = KILN_IS('?', 0)};
    out->index = (int)PyLong_AsLong(device);
    out->place = place_of(value, out->index);
    for (size_t i = 0; i < MOST_DTYPES && torch.dtypes[i].dtype; i++)
      if (torch.dtypes[i].dtype == dtype) {
        out->type = torch.dtypes[i].type;
        break;
      }
    is_fine = (is_dense == Py_True && out->address) || take_extents(value, out, hold);
  }
  Py_XDECREF(address);
  Py_XDECREF(dtype);
  Py_XDECREF(device);
  Py_XDECREF(is_dense);
  if (!is_fine) say_what_it_is(value);
  return is_fine;
}

int kiln_torch_array(PyObject *value, bool wants_extents, kiln_array *out, kiln_hold *hold) {
  PyTypeObject *type = Py_TYPE(value);
  if (!is_exact(type)) {
    if (!kiln_torch_is_used()) return 0;
    if (!is_exact(type)) return refuse_dispatching(value);
  }
  bool is_there = kiln_handle_read(value, out) ||
                  (torch.exchange ? by_exchange(value, out) : by_attributes(value, wants_extents, out, hold));
  if (!is_there) return -1;
  out->is_tensor = true;
  if (is_plain(value, out)) return 1;
  kiln_hold_drop(hold);
  return -1;
}

bool kiln_torch_dense(PyObject *value, kiln_array *out) {
  if (!is_exact(Py_TYPE(value))) return false;
  if (!kiln_handle_read(value, out)) {
    dlpack_tensor tensor;
    if (!torch.exchange) return false;
    if (torch.exchange->tensor_from_object(value, &tensor) || !kiln_array_from_dlpack(&tensor, out))
      return PyErr_Clear(), false;
    out->is_tensor = true;
  }
  int64_t step = 1;
  bool is_dense = out->strides != NULL;
  for (int i = out->rank; is_dense && i-- > 0;) {
    is_dense = out->strides[i] == step || out->shape[i] == 1;
    step *= out->shape[i];
  }
  if (!is_dense || !step || !out->address || is_negative(value, out)) return PyErr_Clear(), false;
  return true;
}

// ----------------------------------------------------------------------------------------- autograd

bool kiln_torch_may_write(PyObject *tensor, const kiln_array *array) {
  if (array->handle && !kiln_handle_of_array_requires_grad(array)) return true;
  PyObject *requires = get(&torch.requires_grad, tensor), *enabled = NULL;
  if (requires == Py_True) enabled = call(&torch.is_grad_enabled, NULL);
  if (enabled == Py_True)
    PyErr_SetString(PyExc_ValueError,
                    "the kernel writes it, but the tensor requires grad, and autograd would not know; launch "
                    "under torch.no_grad(), or pass tensor.detach()");
  bool may = requires && (requires != Py_True || enabled == Py_False);
  Py_XDECREF(requires);
  Py_XDECREF(enabled);
  return may;
}

bool kiln_torch_wrote(PyObject *tensors) {
  Py_ssize_t count = PyList_Size(tensors), raised = 0;
  for (; raised < count; raised++) {
    PyObject *tensor = PyList_GetItem(tensors, raised);
    if (!is_exact(Py_TYPE(tensor)) || !kiln_handle_wrote(tensor)) break;
  }
  if (raised == count || !torch.increment_version.object) return true;
  PyObject *rest = PyList_GetSlice(tensors, raised, count);
  PyObject *done = rest ? call(&torch.increment_version, rest) : NULL;
  Py_XDECREF(rest);
  Py_XDECREF(done);
  return done != NULL;
}

// ------------------------------------------------------------------------------------------ streams

bool kiln_torch_is(PyObject *value) {
  PyTypeObject *type = Py_TYPE(value);
  if (is_exact(type)) return true;
  if ((PyObject *)type != kiln_of.strided)
    return !PyLong_Check(value) && kiln_torch_is_used() && PyType_IsSubtype(type, torch.tensor);
  PyObject *array = PyObject_GetAttrString(value, "array");
  bool is = array && kiln_torch_is(array);
  Py_XDECREF(array);
  PyErr_Clear();
  return is;
}

bool kiln_torch_stream(const kiln_device_object *device, kiln_stream *out) {
  if (torch.exchange) {
    if (!torch.exchange->current_stream(device->place == BY_HIP ? 10 : 2, device->index, out)) return true;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "PyTorch does not give its current stream");
    return false;
  }
  PyObject *index = torch.current_stream ? PyLong_FromLong(device->index) : NULL;
  PyObject *handle = index ? PyObject_Vectorcall(torch.current_stream, &index, 1, NULL) : NULL;
  Py_XDECREF(index);
  if (handle) *out = PyLong_AsVoidPtr(handle);
  else if (!PyErr_Occurred()) *out = NULL;
  Py_XDECREF(handle);
  return !PyErr_Occurred();
}

PyObject *kiln_torch_bytes(const kiln_device_object *device, size_t bytes) {
  PyObject *module = PyImport_ImportModule("torch"),
           *type = module ? PyObject_GetAttrString(module, "uint8") : NULL,
           *named = type ? Py_BuildValue("{s:O,s:N}", "dtype", type, "device",
                                         PyUnicode_FromFormat("cuda:%d", device->index))
                         : NULL,
           *empty = named ? PyObject_GetAttrString(module, "empty") : NULL,
           *args = empty ? Py_BuildValue("(n)", (Py_ssize_t)bytes) : NULL;
  PyObject *tensor = args ? PyObject_Call(empty, args, named) : NULL;
  Py_XDECREF(module);
  Py_XDECREF(type);
  Py_XDECREF(named);
  Py_XDECREF(empty);
  Py_XDECREF(args);
  return tensor;
}

bool kiln_torch_record(PyObject *tensor, const kiln_device_object *device, kiln_stream stream,
                       PyObject *object) {
  kiln_stream current = NULL;
  if (!kiln_torch_stream(device, &current)) return false;
  if (current == stream) return true;
  PyObject *cuda = PyImport_ImportModule("torch.cuda"),
           *theirs = cuda ? PyObject_GetAttrString(cuda, "Stream") : NULL, *of = NULL;
  if (theirs && PyObject_IsInstance(object, theirs) == 1) {
    Py_INCREF(object);
    of = object;
  } else if (theirs)
    of = PyObject_CallMethod(cuda, "ExternalStream", "Ki", (unsigned long long)(uintptr_t)stream,
                             device->index);
  PyObject *done = of ? PyObject_CallMethod(tensor, "record_stream", "O", of) : NULL;
  Py_XDECREF(cuda);
  Py_XDECREF(theirs);
  Py_XDECREF(of);
  Py_XDECREF(done);
  return done != NULL;
}
