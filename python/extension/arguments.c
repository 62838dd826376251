// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Puts the arguments of a launch in order, checks them and packs them into a block.
#include "python/extension/extension.h"

#include <string.h>

// ------------------------------------------------------------------------------------------ ordering

static bool refuse_count(kiln_kernel_object *k, size_t count) {
  PyErr_Format(PyExc_TypeError, "%U: expected %zu arguments, found %zu", k->name, k->count, count);
  return false;
}

bool kiln_refuse_name(const kiln_kernel_object *k, PyObject *name, bool is_call) {
  PyObject *words = is_call ? Py_BuildValue("[sss]", "grid", "stream", "scratch") : PyList_New(0);
  for (size_t i = 0; words && i < k->count; i++)
    if (PyList_Append(words, k->parameters[i].name)) Py_CLEAR(words);
  PyObject *text = kiln_did_you_mean(name, words);
  if (text) PyErr_Format(PyExc_TypeError, "%U: there is no parameter '%U'%U", k->name, name, text);
  Py_XDECREF(text);
  return false;
}

static bool take_named(kiln_arguments *a, PyObject *name, PyObject *value) {
  kiln_kernel_object *k = a->kernel;
  size_t found = 0;
  while (found < k->count && k->parameters[found].name != name) found++;
  if (found == k->count)
    for (found = 0; found < k->count && PyUnicode_Compare(k->parameters[found].name, name);) found++;
  if (found < k->count) {
    if (a->values[found])
      return PyErr_Format(PyExc_TypeError, "%U: argument '%U' is given twice", k->name, name), false;
    a->values[found] = value;
  } else if (kiln_is_name(name, "stream")) {
    a->stream_object = value == Py_None ? NULL : value;
    return kiln_stream_of(value, k->device, &a->stream);
  } else if (kiln_is_name(name, "grid")) a->grid_object = value == Py_None ? NULL : value;
  else if (kiln_is_name(name, "scratch")) a->scratch_object = value == Py_None ? NULL : value;
  else return kiln_refuse_name(k, name, true), false;
  return true;
}

static bool order(kiln_arguments *a, PyObject *const *args, size_t count, PyObject *names) {
  kiln_kernel_object *k = a->kernel;
  if (count > k->count) return refuse_count(k, count);
  for (size_t i = 0; i < count; i++) a->values[i] = args[i];
  if (count == k->count && !names) return true;
  for (size_t i = count; i < k->count; i++) a->values[i] = NULL;
  Py_ssize_t named = kiln_named(names);
  for (Py_ssize_t i = 0; i < named; i++)
    if (!take_named(a, PyTuple_GetItem(names, i), args[count + (size_t)i])) return false;
  for (size_t i = count; i < k->count; i++)
    if (!a->values[i])
      return PyErr_Format(PyExc_TypeError, "%U: argument '%U' (%U) is missing", k->name,
                          k->parameters[i].name, k->parameters[i].type),
             false;
  return true;
}

// ------------------------------------------------------------------------------------------- packing

// "saxpy: argument 'x' (*f32): " before the text of what was raised.
void kiln_argument_name(const kiln_kernel_object *k, const kiln_parameter *p) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyObject *const renamed[] = {PyExc_TypeError, PyExc_ValueError, PyExc_OverflowError, PyExc_BufferError,
                               PyExc_RuntimeError};
  for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
    if (type == renamed[i]) {
      PyErr_Format(type, "%U: argument '%U' (%U): %S", k->name, p->name, p->type, value);
      Py_XDECREF(type);
      Py_XDECREF(value);
      Py_XDECREF(trace);
      return;
    }
  PyErr_Restore(type, value, trace);
}

static bool is_of_device(const kiln_array *array, const kiln_device_object *device) {
  if (array->owner == device) return true;
  if (!(kiln_place_devices(array->place) & device->place)) return false;
  if (device->place == BY_NULL) // which takes what is not another null device's
    return !array->owner || array->owner->place != BY_NULL || kiln_device_is_same(array->owner, device);
  return array->index < 0 || array->index == device->index || device->place == BY_HOST;
}

// Raises.
static bool refuse_place(const kiln_array *array, const kiln_device_object *device) {
  const char *place = kiln_place_name(array->place);
  bool is_numbered = array->index >= 0 && array->place != KILN_PLACE_HOST;
  PyObject *text = array->owner  ? Py_NewRef(array->owner->name)
                   : is_numbered ? PyUnicode_FromFormat("%s:%d", place, array->index)
                                 : PyUnicode_FromString(place);
  if (text) PyErr_Format(PyExc_TypeError, "expected memory of %U, found memory of %U", device->name, text);
  Py_XDECREF(text);
  return false;
}

static bool fits(const kiln_arguments *a, const kiln_parameter *p, const kiln_array *array, PyObject *value) {
  const kiln_device_object *device = a->kernel->device;
  const uint32_t *taken = p->element->accepted;
  while (*taken && *taken != array->type) taken++;
  if (!*taken) {
    PyObject *text = kiln_array_type_text(array->type);
    if (text) PyErr_Format(PyExc_TypeError, "expected elements of type %s, found %U", p->element->name, text);
    Py_XDECREF(text);
    return false;
  }
  if (!is_of_device(array, device)) return refuse_place(array, device);
  if (p->access < 2) return true;
  if (array->read_only)
    return PyErr_Format(PyExc_ValueError, "the kernel writes it, but the array %s", array->read_only), false;
  return !array->is_tensor || a->is_lenient || kiln_torch_may_write(value, array);
}

static bool pack_address(const kiln_parameter *p, PyObject *value, uint8_t *out) {
  unsigned long long address = PyLong_AsUnsignedLongLong(value);
  if (address == (unsigned long long)-1 && PyErr_Occurred()) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError))
      PyErr_Format(PyExc_OverflowError, "%R is not an address", value);
    return false;
  }
  memcpy(out, &address, p->size);
  return true;
}

enum { MOST_RANK = 8 }; // of a view

// Whether two different indices of extents and strides sorted from the largest stride on lead to one place: a
// difference of indices, not all zero, at which the strides add up to `rest`. Gives up, with false, after
// `budget` differences.
static bool meets(const int64_t *extents, const int64_t *strides, int rank, int64_t rest, bool is_other,
                  int *budget) {
  if (--*budget < 0) return false;
  if (!rank) return is_other && !rest;
  int64_t reach = 0; // of all strides after this one
  for (int i = 1; i < rank; i++) reach += (extents[i] - 1) * strides[i];
  int64_t last = extents[0] - 1, least = is_other ? -last : 0; // the first that is not zero is positive
  int64_t from = (-reach - rest) / strides[0] - 1, to = (reach - rest) / strides[0] + 1;
  for (int64_t d = from > least ? from : least; d <= (to < last ? to : last) && *budget > 0; d++)
    if (meets(extents + 1, strides + 1, rank - 1, rest + d * strides[0], is_other || d, budget)) return true;
  return false;
}

// Whether elements of an array share memory, which PyTorch refuses to write as well: certain where it says so.
static bool shares_memory(const kiln_array *array) {
  int64_t extents[MOST_RANK], strides[MOST_RANK];
  int rank = 0, budget = 100000;
  if (array->rank > MOST_RANK) return false;
  for (int i = 0; i < array->rank; i++) {
    int64_t extent = array->shape[i], stride = array->strides[i] < 0 ? -array->strides[i] : array->strides[i];
    if (extent <= 0) return false;
    if (extent == 1) continue;
    int at = rank++;
    for (; at && strides[at - 1] < stride; at--) extents[at] = extents[at - 1], strides[at] = strides[at - 1];
    extents[at] = extent;
    strides[at] = stride;
  }
  if (rank && !strides[rank - 1]) return true;
  return meets(extents, strides, rank, 0, false, &budget);
}

// Whether the elements are apart because each stride reaches past all after it, as in most arrays.
static bool is_in_order(const kiln_array *array) {
  int64_t reach = 0;
  for (int i = array->rank; array->strides && i-- > 0;) {
    if (array->strides[i] <= reach) return false;
    reach += (array->shape[i] - 1) * array->strides[i];
  }
  return true;
}

static bool refuse_sharing(const kiln_array *array) {
  PyObject *shape = kiln_integers(array->shape, (size_t)array->rank, 1);
  PyObject *strides = kiln_integers(array->strides, (size_t)array->rank,
                                    array->strides_are_bytes ? 1 : (array->type & 0xFFFF) / 8);
  if (shape && strides)
    PyErr_Format(PyExc_ValueError,
                 "the kernel writes it, but several of its elements are one place in memory: found shape %R "
                 "with strides %R in bytes; pass a copy",
                 shape, strides);
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  return false;
}

static bool pack_extents(const kiln_parameter *p, const kiln_array *array, uint8_t *out) {
  int64_t size = p->element->size, step = 1;
  if (array->rank != p->rank) {
    PyObject *shape = kiln_integers(array->shape, (size_t)array->rank, 1);
    if (shape)
      PyErr_Format(PyExc_ValueError, "expected an array of rank %d, found shape %R", (int)p->rank, shape);
    Py_XDECREF(shape);
    return false;
  }
  for (int i = array->rank; i-- > 0;) {
    int64_t stride = array->strides ? array->strides[i] : step;
    if (array->strides && array->strides_are_bytes && stride % size) {
      PyErr_Format(PyExc_ValueError, "strides of %lld bytes are not whole elements of %d bytes",
                   (long long)stride, (int)size);
      return false;
    }
    if (array->strides && array->strides_are_bytes) stride /= size;
    memcpy(out + 8 + 8 * i, &array->shape[i], 8);
    memcpy(out + 8 + 8 * (array->rank + i), &stride, 8);
    step *= array->shape[i];
  }
  return true;
}

static bool refuse_type(PyObject *value) {
  PyObject *name = PyType_GetName(Py_TYPE(value));
  if (name)
    PyErr_Format(PyExc_TypeError,
                 "expected an array (DLPack, __array_interface__, __cuda_array_interface__ or a buffer) or "
                 "kiln memory, found %U",
                 name);
  Py_XDECREF(name);
  return false;
}

// Bytes from the first element to the end of the farthest one.
static size_t bytes_of(const kiln_array *array) {
  const int64_t element = (array->type & 0xFFFF) / 8, unit = array->strides_are_bytes ? 1 : element;
  int64_t step = array->strides_are_bytes ? element : 1, farthest = 0;
  for (int i = array->rank; i-- > 0; step *= array->shape[i]) {
    if (array->shape[i] <= 0) return 0;
    int64_t stride = array->strides ? array->strides[i] : step;
    if (stride > 0) farthest += (array->shape[i] - 1) * stride;
  }
  return (size_t)(farthest * unit + element);
}

// What has an address and nothing else that is known here, as tensors that Triton reads as another type.
static bool pack_data_pointer(const kiln_parameter *p, PyObject *value, uint8_t *out) {
  PyObject *method = PyObject_GetAttrString(value, "data_ptr");
  if (!method) return PyErr_Clear(), refuse_type(value);
  PyObject *address = PyObject_CallFunctionObjArgs(method, NULL);
  bool is_packed = address && pack_address(p, address, out);
  Py_DECREF(method);
  Py_XDECREF(address);
  return is_packed;
}

bool kiln_list_add(PyObject **list, kiln_kernel_object *k, PyObject *value) {
  if (*list) return !PyList_Append(*list, value);
  *list = k->spare ? k->spare : PyList_New(1);
  k->spare = NULL;
  if (!*list) return false;
  Py_INCREF(value);
  return !PyList_SetItem(*list, 0, value);
}

void kiln_list_keep(kiln_kernel_object *k, PyObject *list) {
  if (!list) return;
  if (k->spare || PyList_Size(list) != 1 || Py_REFCNT(list) != 1) {
    Py_DECREF(list);
    return;
  }
  k->spare = list;
  PyList_SetItem(list, 0,
                 Py_NewRef(Py_None)); // may run code of the tensor's, to which the list is not ours any more
}

static bool pack_array(kiln_arguments *a, const kiln_parameter *p, PyObject *value, bool is_strided,
                       uint8_t *out, kiln_hold *hold) {
  kiln_device_object *device = a->kernel->device;
  kiln_array array;
  bool is_dense = !p->rank && kiln_torch_dense(value, &array);
  if (!is_dense) {
    int found = kiln_array_of(value, a->stream, device, p->rank > 0 || p->has_size, &array, hold);
    if (!found && a->is_lenient && !p->rank) return pack_data_pointer(p, value, out);
    if (found <= 0) return found < 0 ? false : refuse_type(value);
  }
  if (!fits(a, p, &array, value)) return false;
  if (p->rank) {
    if (!pack_extents(p, &array, out)) return false;
    if (p->access >= 2 && !is_in_order(&array) && shares_memory(&array)) return refuse_sharing(&array);
  } else if (!is_dense && !is_strided && !a->is_lenient && !kiln_array_is_contiguous(&array))
    return kiln_array_refuse_strides(&array), false;
  memcpy(out, &array.address, 8);
  if (p->has_size) a->bytes[p - a->kernel->parameters] = bytes_of(&array);
  if (!array.is_tensor) return true;
  if (a->stream_object && device->place & (BY_CUDA | BY_HIP) &&
      !kiln_torch_record(value, device, a->stream, a->stream_object))
    return false;
  if (p->access < 2) return true;
  return kiln_list_add(&a->written, a->kernel, value);
}

static bool pack_strided(kiln_arguments *a, const kiln_parameter *p, PyObject *value, uint8_t *out,
                         kiln_hold *hold) {
  PyObject *array = PyObject_GetAttrString(value, "array");
  bool is_packed = array && pack_array(a, p, array, true, out, hold);
  Py_XDECREF(array);
  return is_packed;
}

static bool pack_one(kiln_arguments *a, const kiln_parameter *p, PyObject *value, uint8_t *out,
                     kiln_hold *hold) {
  if (!p->rank && !p->depth) return kiln_scalar_pack(p->element, value, out);
  if (!p->rank && PyLong_Check(value) && !PyBool_Check(value)) return pack_address(p, value, out);
  if (p->depth > 1) {
    PyObject *name = PyType_GetName(Py_TYPE(value));
    if (name) PyErr_Format(PyExc_TypeError, "expected the address of pointers as an integer, found %U", name);
    Py_XDECREF(name);
    return false;
  }
  if ((PyObject *)Py_TYPE(value) == kiln_of.strided && !p->rank) return pack_strided(a, p, value, out, hold);
  return pack_array(a, p, value, false, out, hold);
}

bool kiln_argument_pack(kiln_arguments *a, const kiln_parameter *p, PyObject *value, uint8_t *out,
                        kiln_hold *hold) {
  hold->kind = HOLDS_NOTHING;
  if (pack_one(a, p, value, out, hold)) return true;
  kiln_hold_drop(hold);
  kiln_argument_name(a->kernel, p);
  return false;
}

// A tuple of one to three plain integers in range, as most grids are.
static bool take_plain_grid(PyObject *value, uint32_t *out) {
  Py_ssize_t count = PyTuple_CheckExact(value) ? PyTuple_Size(value) : 0;
  out[0] = out[1] = out[2] = 1;
  for (Py_ssize_t i = 0; i < count && count <= 3; i++) {
    PyObject *item = PyTuple_GetItem(value, i);
    int overflow = 1;
    long long extent = PyLong_CheckExact(item) ? PyLong_AsLongLongAndOverflow(item, &overflow) : -1;
    if (overflow || extent < 0 || extent > UINT32_MAX) return false;
    out[i] = (uint32_t)extent;
  }
  return count >= 1 && count <= 3;
}

bool kiln_grid_of(kiln_kernel_object *k, PyObject *value, uint32_t *out) {
  if (take_plain_grid(value, out)) return true;
  PyObject *grid = PySequence_Check(value) ? PySequence_Tuple(value) : PyTuple_Pack(1, value);
  if (!grid) return false;
  Py_ssize_t count = PyTuple_Size(grid);
  bool is_fine = count >= 1 && count <= 3;
  out[0] = out[1] = out[2] = 1;
  for (Py_ssize_t i = 0; is_fine && i < count; i++) {
    PyObject *item = PyTuple_GetItem(grid, i);
    int overflow = 0;
    PyObject *whole = PyIndex_Check(item) ? PyNumber_Index(item) : NULL;
    long long extent = whole ? PyLong_AsLongLongAndOverflow(whole, &overflow) : -1;
    Py_XDECREF(whole);
    PyErr_Clear();
    is_fine = !overflow && extent >= 0 && extent <= UINT32_MAX;
    out[i] = (uint32_t)extent;
  }
  if (!is_fine)
    PyErr_Format(PyExc_ValueError, "%U: grid: expected one to three integers of 0 to 4294967295, found %R",
                 k->name, value);
  Py_DECREF(grid);
  return is_fine;
}

// The stream of a launch is the framework's current one where none is given.
static bool take_stream(kiln_arguments *a) {
  kiln_device_object *device = a->kernel->device;
  a->has_tensors = false;
  if (!(device->place & (BY_CUDA | BY_HIP))) return true;
  a->has_tensors = a->is_lenient;
  for (size_t i = 0; i < a->kernel->count && !a->has_tensors; i++)
    a->has_tensors = a->values[i] && kiln_torch_is(a->values[i]);
  return !a->has_tensors || a->stream_object || kiln_torch_stream(device, &a->stream);
}

// -------------------------------------------------------------------------------------------- sizes

static uint32_t word_at(const uint8_t *at) {
  uint32_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

// Loops: what is compared are a few words, for which a call takes longer.
static bool is_kept(const kiln_arguments *a, size_t entry) {
  const kiln_sizes_memo *m = a->kernel->sizes;
  const size_t *bytes = m->kept[entry].bytes;
  size_t at = 0, differs = !m->kept[entry].is_set;
  for (size_t i = 0; i < a->kernel->count; i++) differs |= bytes[i] ^ a->bytes[i];
  for (size_t i = 0; i < m->run_count && !differs; i++)
    for (size_t end = at + m->runs[i].words, j = m->runs[i].at; at < end; at++, j += 4)
      differs |= word_at(a->block + j) ^ m->kept[entry].numbers[at];
  return !differs;
}

static void keep(const kiln_arguments *a) {
  kiln_sizes_memo *m = a->kernel->sizes;
  size_t at = 0;
  memcpy(m->kept[m->next].bytes, a->bytes, a->kernel->count * sizeof *a->bytes);
  for (size_t i = 0; i < m->run_count; i++)
    for (size_t end = at + m->runs[i].words, j = m->runs[i].at; at < end; at++, j += 4)
      m->kept[m->next].numbers[at] = word_at(a->block + j);
  m->kept[m->next].is_set = true;
  m->next = (m->next + 1) % KILN_SIZES_KEPT;
}

// An array may be a part of a larger one, as what a slice gives: the kernel may reach to the end of that.
static bool take_storage(kiln_arguments *a) {
  const kiln_kernel_object *k = a->kernel;
  for (size_t i = 0; i < k->count; i++) {
    const kiln_parameter *p = &k->parameters[i];
    if (!p->has_size || a->bytes[i] == KILN_SIZE_UNKNOWN || !a->values[i]) continue;
    uint64_t address;
    memcpy(&address, a->block + p->offset, sizeof address);
    PyObject *room = PyObject_CallFunction(kiln_of.room, "OK", a->values[i], (unsigned long long)address);
    size_t bytes = room ? PyLong_AsSize_t(room) : 0;
    Py_XDECREF(room);
    if (PyErr_Occurred()) return false;
    if (bytes > a->bytes[i]) a->bytes[i] = bytes;
  }
  return true;
}

// Whether they suffice, with the status that says why not; false with an exception where other code closed
// the device while it was asked for an array.
static bool compare(const kiln_arguments *a, kiln_status *status, kiln_error *err) {
  const kiln_kernel_object *k = a->kernel;
  if (!kiln_device_is_open(k->device)) return false;
  *status = k->device->held->c->check_sizes(k->handle, a->block, k->block_size, a->bytes, k->count, err);
  return true;
}

bool kiln_arguments_fit(kiln_arguments *a) {
  const kiln_sizes_memo *m = a->kernel->sizes;
  kiln_status status;
  kiln_error err;
  for (size_t i = 0; i < KILN_SIZES_KEPT && m->is_able; i++)
    if (is_kept(a, i)) return true;
  if (!compare(a, &status, &err)) return false;
  if (!status && m->is_able) keep(a);
  if (!status) return true;
  if (!take_storage(a) || !compare(a, &status, &err)) return false;
  return status ? kiln_raise(status, &err), false : true;
}

// --------------------------------------------------------------------------------------------- all

bool kiln_arguments_init(kiln_arguments *a, kiln_kernel_object *k, PyObject *const *args, size_t count,
                         PyObject *names, const uint32_t *grid) {
  if (!kiln_device_is_open(k->device)) return false;
  a->kernel = k;
  a->stream = NULL;
  a->stream_object = a->grid_object = a->scratch_object = a->written = NULL;
  a->has_grid = grid != NULL;
  if (grid) memcpy(a->grid, grid, sizeof a->grid);
  a->holds = a->few_holds;
  a->values = a->few_values;
  a->bytes = a->few_bytes;
  a->held_count = 0;
  if (k->count > KILN_FEW) {
    a->holds = PyMem_Malloc(k->count * sizeof *a->holds);
    a->values = PyMem_Malloc(k->count * sizeof *a->values);
    a->bytes = PyMem_Malloc(k->count * sizeof *a->bytes);
    if (!a->holds || !a->values || !a->bytes) PyErr_NoMemory();
  }
  for (size_t i = 0; k->sizes && a->bytes && i < k->count; i++) a->bytes[i] = KILN_SIZE_UNKNOWN;
  memset(a->block, 0, k->block_size);
  bool is_fine = a->holds && a->values && a->bytes && order(a, args, count, names) && take_stream(a);
  for (size_t i = 0; is_fine && i < k->count; i++) {
    const kiln_parameter *p = &k->parameters[i];
    if (!a->values[i]) a->holds[i].kind = HOLDS_NOTHING; // kiln_launch_making
    else is_fine = kiln_argument_pack(a, p, a->values[i], a->block + p->offset, &a->holds[i]);
    a->held_count += is_fine;
  }
  if (is_fine && k->sizes) is_fine = kiln_arguments_fit(a);
  if (is_fine && a->grid_object) is_fine = a->has_grid = kiln_grid_of(k, a->grid_object, a->grid);
  if (!is_fine) kiln_arguments_deinit(a);
  return is_fine;
}

void kiln_arguments_deinit(kiln_arguments *a) {
  for (size_t i = 0; i < a->held_count; i++)
    if (a->holds[i].kind) kiln_hold_drop(&a->holds[i]);
  if (a->holds != a->few_holds) PyMem_Free(a->holds);
  if (a->values != a->few_values) PyMem_Free(a->values);
  if (a->bytes != a->few_bytes) PyMem_Free(a->bytes);
  kiln_list_keep(a->kernel, a->written);
  a->written = NULL;
}
