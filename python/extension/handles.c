// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the handles of PyTorch tensors. An object of torch.Tensor contains the at::Tensor, which is the
// handle of PyTorch's stable interface for C: its functions take 2 ns each, where DLPack's exchange takes
// 60 to 90 for all. No header says where the handle lies in the object, so it is searched and proved once
// per process: it is the one word of the object that equals `_cdata`, at the same place in all tensors
// asked, and each function has to agree with the tensor's attributes. If anything differs, nothing is read
// this way. Versions without the exchange keep another word there, which need not be the handle; with them
// `_cdata` itself is asked each time.
#include "python/extension/extension.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { MOST_NUMBERS = 64, TYPE_OF_CPU = 0, TYPE_OF_CUDA = 1 };

static struct {
  bool is_proved;
  size_t offset;   // of the handle in an object; 0: by `_cdata`
  PyObject *cdata; // owned: the descriptor of that, and its function
  descrgetfunc get;
  PyObject *empty_of_gpu; // owned: makes tensors on the current GPU, asking no dispatcher; NULL: nothing does
  bool is_empty_proved;   // at the first tensor that it made
  kiln_place gpu;
  uint32_t types[MOST_NUMBERS]; // KILN_IS by PyTorch's number; 0: unknown
#define FUNCTION(name, library, symbol, result, parameters) result(*name) parameters;
#define MAKER FUNCTION
#include "python/extension/handles.def"
#undef FUNCTION
#undef MAKER
} by;

// `word` has room for what a handle points to. NULL, and no exception, where there is none.
static void **handle_of(PyObject *tensor, void **word) {
  if (by.offset) return (void **)((char *)tensor + by.offset);
  PyObject *data = by.get(by.cdata, tensor, (PyObject *)Py_TYPE(tensor));
  *word = data ? PyLong_AsVoidPtr(data) : NULL;
  Py_XDECREF(data);
  if (!*word) PyErr_Clear();
  return *word ? word : NULL;
}

// -------------------------------------------------------------------------------------------- proof

static void *symbol_of(const char *library, const char *symbol) {
  char name[32];
  snprintf(name, sizeof name, "%s.so", library);
  void *handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD); // kept: PyTorch is not unloaded
  return handle ? dlsym(handle, symbol) : NULL;
}

// Whether those are there that read tensors.
static bool find_functions(void) {
  bool is_fine = true;
#define FUNCTION(name, library, symbol, result, parameters) \
  is_fine &= (*(void **)&by.name = symbol_of(library, symbol)) != NULL;
#define MAKER(name, library, symbol, result, parameters) *(void **)&by.name = symbol_of(library, symbol);
#include "python/extension/handles.def"
#undef FUNCTION
#undef MAKER
  return is_fine;
}

static long long integer_at(PyObject *object, const char *name) {
  PyObject *value = object ? PyObject_GetAttrString(object, name) : NULL;
  PyObject *called = value && PyCallable_Check(value) ? PyObject_CallFunctionObjArgs(value, NULL) : NULL;
  long long found = -1;
  if (called) found = PyLong_AsLongLong(called);
  else if (value && PyLong_Check(value)) found = PyLong_AsLongLong(value);
  Py_XDECREF(value);
  Py_XDECREF(called);
  return found;
}

// The place of the one word that is the tensor's `_cdata`; 0: there are none or several.
static size_t offset_in(PyObject *tensor) {
  long long size = integer_at((PyObject *)Py_TYPE(tensor), "__basicsize__");
  long long data = integer_at(tensor, "_cdata");
  size_t found = 0, count = 0;
  for (size_t at = sizeof(PyObject); data > 0 && (long long)(at + sizeof(void *)) <= size;
       at += sizeof(void *))
    if (*(uintptr_t *)((char *)tensor + at) == (uintptr_t)data) found = at, count++;
  return count == 1 ? found : 0;
}

// Whether the functions say of `tensor`, 2 x 3 of f32 of which every other column is there, what it says.
static bool is_right_of(PyObject *tensor, bool requires_grad) {
  kiln_array array;
  if ((by.offset && offset_in(tensor) != by.offset) || !kiln_handle_read(tensor, &array)) return false;
  long long version = integer_at(tensor, "_version");
  return array.address == (uint64_t)integer_at(tensor, "data_ptr") && array.type == KILN_IS('f', 32) &&
         array.rank == 2 && array.shape[0] == 2 && array.shape[1] == 3 && array.strides[0] == 6 &&
         array.strides[1] == 2 && array.place == KILN_PLACE_HOST &&
         kiln_handle_requires_grad(tensor) == requires_grad && kiln_handle_wrote(tensor) && version >= 0 &&
         !kiln_handle_is_negative(&array) && integer_at(tensor, "_version") == version + 1;
}

static bool is_right(bool is_in_object) {
  PyObject *module = PyImport_ImportModule("kiln._tensor_probe");
  PyObject *made = module ? PyObject_CallMethod(module, "tensors", NULL) : NULL;
  PyObject *half, *learned, *negative;
  kiln_array array;
  bool is_fine = made && PyArg_ParseTuple(made, "OOO", &half, &learned, &negative);
  if (is_fine) {
    by.offset = is_in_object ? offset_in(half) : 0;
    by.is_proved = by.offset || !is_in_object; // as a supposition
    is_fine = by.is_proved && is_right_of(half, false) && is_right_of(learned, true) &&
              kiln_handle_read(negative, &array) && kiln_handle_is_negative(&array);
  }
  Py_XDECREF(module);
  Py_XDECREF(made);
  return is_fine;
}

void kiln_handles_find(bool is_hip, bool is_in_object, PyObject *cdata, PyObject *empty) {
  by.empty_of_gpu = Py_XNewRef(empty);
  by.cdata = Py_XNewRef(cdata);
  by.get = cdata ? (descrgetfunc)PyType_GetSlot(Py_TYPE(cdata), Py_tp_descr_get) : NULL;
  bool is_fine = find_functions() && (is_in_object || by.get);
  by.gpu = is_hip ? KILN_PLACE_HIP : KILN_PLACE_CUDA;
  for (size_t i = 0; is_fine && i < kiln_torch_type_count; i++) {
    char symbol[64];
    snprintf(symbol, sizeof symbol, "aoti_torch_dtype_%s", kiln_torch_types[i].name);
    int32_t (*number)(void) = NULL;
    *(void **)&number = symbol_of("libtorch_cpu", symbol);
    int32_t found = number ? number() : -1;
    if (found >= 0 && found < MOST_NUMBERS) by.types[found] = kiln_torch_types[i].type;
  }
  by.is_proved = is_fine && is_right(is_in_object);
  PyErr_Clear();
}

// -------------------------------------------------------------------------------------------- tensors

bool kiln_handle_read(PyObject *tensor, kiln_array *out) {
  void *word, *data, **handle = by.is_proved ? handle_of(tensor, &word) : NULL;
  int32_t number, type, index;
  int64_t rank, *sizes, *strides;
  // What fails here leaves a text on stderr, so what has no memory is not asked further.
  if (!handle || !*handle || !by.has_memory(*handle) || by.number(handle, &number) ||
      by.device_type(handle, &type) || by.device_index(handle, &index) || by.rank(handle, &rank) ||
      by.sizes(handle, &sizes) || by.strides(handle, &strides) || by.data(handle, &data))
    return false;
  if (number < 0 || number >= MOST_NUMBERS || !by.types[number] || type > TYPE_OF_CUDA) return false;
  *out = (kiln_array){
      .address = (uintptr_t)data,
      .type = by.types[number],
      .rank = (int)rank,
      .shape = sizes,
      .strides = strides,
      .is_tensor = true,
      .place = type == TYPE_OF_CPU ? KILN_PLACE_HOST : by.gpu,
      .index = type == TYPE_OF_CPU ? -1 : index,
      .handle = *handle,
  };
  return true;
}

bool kiln_handles_are_read(void) { return by.is_proved; }

bool kiln_handle_requires_grad(PyObject *tensor) {
  void *word, **handle = handle_of(tensor, &word);
  return !handle || by.requires_grad(*handle);
}

bool kiln_handle_of_array_requires_grad(const kiln_array *array) { return by.requires_grad(array->handle); }

bool kiln_handle_is_negative(const kiln_array *array) {
  void *handle = array->handle; // an at::Tensor is this word
  return by.is_negative(&handle);
}

bool kiln_handle_new_of(uint32_t type, bool is_zeroed, kiln_place place, int index, kiln_new_tensor *out) {
  int32_t number = 0;
  while (number < MOST_NUMBERS && by.types[number] != type) number++;
  bool is_able = by.is_proved && by.empty && by.zero && by.drop && by.wrap;
  if (!is_able || number == MOST_NUMBERS || (place != KILN_PLACE_HOST && place != by.gpu)) return false;
  bool is_host = place == KILN_PLACE_HOST;
  out->number = number;
  out->is_zeroed = is_zeroed;
  out->device_type = is_host ? TYPE_OF_CPU : TYPE_OF_CUDA;
  out->device_index = is_host ? 0 : index;
  out->handle = NULL;
  out->object = NULL;
  return true;
}

// Whether `t->object` is what `t` asks for.
static bool is_as_asked(const kiln_new_tensor *t) {
  kiln_array made;
  if (!kiln_torch_is_exact(t->object) || !kiln_handle_read(t->object, &made)) return false;
  size_t bytes = (size_t)t->rank * sizeof *t->sizes;
  return made.type == by.types[t->number] && made.place == by.gpu && made.index == t->device_index &&
         made.rank == t->rank && !memcmp(made.shape, t->sizes, bytes) &&
         !memcmp(made.strides, t->strides, bytes) && !kiln_handle_requires_grad(t->object);
}

// The arguments for `t`, owned by `last`; NULL with an exception.
static PyObject *arguments_for(const kiln_new_tensor *t, PyObject *dtype, kiln_asked *last) {
  size_t rank = (size_t)t->rank;
  if (last->args && !memcmp(last->sizes, t->sizes, rank * sizeof *t->sizes)) return last->args;
  PyObject *shape = kiln_integers(t->sizes, rank, 1), *apart = kiln_integers(t->strides, rank, 1);
  Py_CLEAR(last->args);
  if (shape && apart) last->args = PyTuple_Pack(3, shape, apart, dtype);
  memcpy(last->sizes, t->sizes, rank * sizeof *t->sizes);
  Py_XDECREF(shape);
  Py_XDECREF(apart);
  return last->args;
}

static PyObject *call_empty(const kiln_new_tensor *t, PyObject *dtype, kiln_asked *last) {
  PyObject *args = arguments_for(t, dtype, last);
  if (!args) return NULL;
  Py_INCREF(args); // what runs meanwhile may ask for others
  PyObject *made = PyObject_Call(by.empty_of_gpu, args, NULL);
  Py_DECREF(args);
  return made;
}

bool kiln_handle_begin(kiln_new_tensor *t, PyObject *dtype, kiln_asked *last) {
  int32_t current;
  bool is_able = t->device_type == TYPE_OF_CUDA && by.empty_of_gpu && by.offset && by.current_device &&
                 !by.current_device(&current) && current == t->device_index;
  if (!is_able) return true;
  t->object = call_empty(t, dtype, last);
  if (by.is_empty_proved) return t->object;
  by.is_empty_proved = t->object && is_as_asked(t);
  if (by.is_empty_proved) return true;
  PyErr_Clear();
  Py_CLEAR(t->object);
  Py_CLEAR(by.empty_of_gpu);
  return true;
}

bool kiln_handle_make(kiln_new_tensor *t, void **data) {
  void *handle = t->object ? (char *)t->object + by.offset : NULL;
  if (!handle &&
      by.empty(t->rank, t->sizes, t->strides, t->number, t->device_type, t->device_index, &t->handle))
    return false;
  if (!handle) handle = t->handle;
  return (!t->is_zeroed || !by.zero(handle)) && !by.data(handle, data);
}

PyObject *kiln_handle_give(kiln_new_tensor *t) {
  PyObject *tensor = t->object ? t->object : by.wrap(t->handle);
  t->object = NULL;
  kiln_handle_drop(t);
  return tensor;
}

void kiln_handle_drop(kiln_new_tensor *t) {
  Py_CLEAR(t->object);
  if (t->handle) by.drop(t->handle);
  t->handle = NULL;
}

bool kiln_handles_has_mode(void) { return by.has_mode(); }

// The dispatch keys that this thread adds and takes away, two words that are zero where they are those of a
// new thread.
static const uint64_t *thread_keys(void) {
  static _Thread_local const uint64_t *keys;
  if (!keys) keys = symbol_of("libc10", "_ZN3c104impl26raw_local_dispatch_key_setE"); // this thread's
  return keys;
}

static uint64_t inference[2]; // those of a new thread in inference mode; zero: not known

bool kiln_handles_thread_is_plain(void) {
  const uint64_t *keys = by.is_proved ? thread_keys() : NULL;
  if (!keys || ((keys[0] || keys[1]) && (keys[0] != inference[0] || keys[1] != inference[1]))) return false;
  return !by.has_mode() && !by.function_mode() && !by.is_observed();
}

void kiln_handles_take_inference(void) {
  const uint64_t *keys = by.is_proved ? thread_keys() : NULL;
  if (keys) memcpy(inference, keys, sizeof inference);
}

bool kiln_handles_grad_is_enabled(void) { return by.grad_enabled(); }

bool kiln_handle_wrote(PyObject *tensor) {
  void *word, **handle = by.is_proved ? handle_of(tensor, &word) : NULL;
  if (!handle || !*by.version(handle)) return false; // of inference mode: PyTorch says what is to be
  by.raise_version(handle);
  return true;
}
