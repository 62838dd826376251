// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements kiln._core.Operation, which launches a kernel for PyTorch's dispatcher and allocates what it
// returns.
#include "python/extension/operations.h"

#include <string.h>

enum { MOST_FOUND = 64, MOST_STACK = 16 };

// ------------------------------------------------------------------------------------------- extents

// Extents are programs over the integers among the arguments: pairs of an opcode and a value.
enum { PUSH, TAKE, ADD, SUB, MUL, DIV, MOD, NEG, CDIV, MIN, MAX };

static bool divide(int64_t a, int64_t b, int64_t *quotient) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return false;
  *quotient = a / b;
  return true;
}

static bool apply(int64_t opcode, int64_t a, int64_t b, int64_t *out) {
  int64_t q;
  switch (opcode) {
  case ADD: return !__builtin_add_overflow(a, b, out);
  case SUB: return !__builtin_sub_overflow(a, b, out);
  case MUL: return !__builtin_mul_overflow(a, b, out);
  case DIV: return divide(a, b, out);
  case MOD: return divide(a, b, &q) && (*out = a - b * q, true);
  case CDIV: return divide(a, b, &q) && (*out = q + (q * b != a && (a < 0) == (b < 0)), true);
  case MIN: return *out = a < b ? a : b, true;
  case MAX: return *out = a > b ? a : b, true;
  default: return false;
  }
}

// False, and perhaps an exception, where a general way has to tell.
static bool evaluate(const kiln_extent *e, PyObject *const *args, int64_t *out) {
  int64_t stack[MOST_STACK];
  int depth = 0;
  for (size_t i = 0; i < e->count; i++) {
    int64_t opcode = e->code[2 * i], value = e->code[2 * i + 1];
    int overflow = 0;
    if (opcode <= TAKE && depth == MOST_STACK) return false;
    if (opcode == PUSH) stack[depth++] = value;
    else if (opcode == TAKE) {
      if (!PyLong_CheckExact(args[value])) return false;
      stack[depth++] = PyLong_AsLongLongAndOverflow(args[value], &overflow);
      if (overflow) return false;
    } else if (opcode == NEG) {
      if (depth < 1 || __builtin_sub_overflow((int64_t)0, stack[depth - 1], &stack[depth - 1])) return false;
    } else if (depth < 2 || !apply(opcode, stack[depth - 2], stack[depth - 1], &stack[depth - 2]))
      return false;
    else depth--;
  }
  *out = depth == 1 ? stack[0] : -1;
  return *out >= 0;
}

// ------------------------------------------------------------------------------------------ launching

// Extents and strides; false, and perhaps an exception, where a general way has to tell.
static bool take_shape(const kiln_output *made, PyObject *const *args, int64_t *sizes, int64_t *strides) {
  int64_t step = 1;
  for (int i = 0; i < made->rank; i++)
    if (!evaluate(&made->extents[i], args, &sizes[i])) return false;
  for (int i = made->rank; i-- > 0;) {
    strides[i] = step;
    if (__builtin_mul_overflow(step, sizes[i] > 1 ? sizes[i] : 1, &step)) return false;
  }
  return true;
}

bool kiln_operation_has_shapes(const kiln_operation *o, PyObject *const *args) {
  int64_t sizes[KILN_MOST_RANK], strides[KILN_MOST_RANK];
  for (size_t i = 0; i < o->outputs_count; i++)
    if (!take_shape(&o->outputs[i], args, sizes, strides)) return false;
  return true;
}

// By PyTorch's Python; NULL without an exception where a general way has to tell.
static PyObject *allocate(const kiln_operation *o, const kiln_output *made, PyObject *named,
                          PyObject *const *args) {
  int64_t sizes[KILN_MOST_RANK], strides[KILN_MOST_RANK];
  if (!take_shape(made, args, sizes, strides)) return NULL;
  PyObject *shape = kiln_integers(sizes, (size_t)made->rank, 1);
  PyObject *apart = kiln_integers(strides, (size_t)made->rank, 1);
  PyObject *both = shape && apart ? PyTuple_Pack(2, shape, apart) : NULL;
  PyObject *tensor = both ? PyObject_Call(o->empty_strided, both, named) : NULL;
  Py_XDECREF(shape);
  Py_XDECREF(apart);
  Py_XDECREF(both);
  if (tensor && made->is_zeroed) {
    PyObject *zeroed = PyObject_CallMethod(tensor, "zero_", NULL);
    if (!zeroed) Py_CLEAR(tensor);
    Py_XDECREF(zeroed);
  }
  return tensor;
}

bool kiln_operation_tensors(const kiln_operation *o, PyObject *const *args, bool wants_dense,
                            kiln_found *out) {
  *out = (kiln_found){0};
  for (size_t i = 0; i < o->arrays_count; i++) {
    PyObject *tensor = args[o->arrays[i]];
    kiln_array array;
    if (wants_dense ? !kiln_torch_dense(tensor, &array)
                    : !kiln_torch_is_exact(tensor) || !kiln_handle_read(tensor, &array))
      return false;
    if (!i) out->place = array.place, out->index = array.index;
    out->types[i] = array.type;
  }
  return true;
}

// What was found for such tensors, found again by `resolve`; NULL where a general way has to tell.
static const kiln_found *find(kiln_operation *o, kiln_found wanted, PyObject *const *args) {
  for (size_t i = 0; i < o->found_count; i++)
    if (o->found[i].place == wanted.place && o->found[i].index == wanted.index &&
        !memcmp(o->found[i].types, wanted.types, o->arrays_count * sizeof *wanted.types))
      return &o->found[i];
  if (o->found_count == MOST_FOUND) return NULL;
  PyObject *tuple = kiln_tuple_of(args, o->taken);
  wanted.kernel = tuple ? PyObject_Call(o->resolve, tuple, NULL) : NULL;
  Py_XDECREF(tuple);
  PyObject *device = wanted.kernel ? PyObject_GetAttrString(args[o->arrays[0]], "device") : NULL;
  bool is_fine = device != NULL;
  for (size_t i = 0; is_fine && i < o->outputs_count; i++)
    is_fine =
        (wanted.named[i] = Py_BuildValue("{sOsO}", "dtype", o->outputs[i].dtype, "device", device)) != NULL;
  Py_XDECREF(device);
  kiln_found *more = is_fine && o->found_count < MOST_FOUND
                         ? PyMem_Realloc(o->found, (o->found_count + 1) * sizeof *more)
                         : NULL;
  if (!more) {
    Py_XDECREF(wanted.kernel);
    for (size_t i = 0; i < o->outputs_count; i++) Py_XDECREF(wanted.named[i]);
    return NULL; // what was raised is raised again, by the general way
  }
  o->found = more;
  more[o->found_count] = wanted;
  return &more[o->found_count++];
}

static PyObject *answer(PyObject *const *made, size_t count) {
  if (!count) Py_RETURN_NONE;
  return count == 1 ? Py_NewRef(made[0]) : kiln_tuple_of(made, count);
}

const char kiln_operation_ended[] = "this operation has ended"; // by the collector, with what still calls it

// Launches with new tensors, which the kernel writes in the order of its parameters; 0 where another way has
// to make them, -1 with an exception.
static int run_making(kiln_operation *o, kiln_kernel_object *kernel, kiln_place place, int index,
                      PyObject *const *args, PyObject **made) {
  kiln_new_tensor new[KILN_MOST_OUTPUTS];
  PyObject *passed[KILN_MOST_ARGUMENTS];
  size_t outputs[KILN_MOST_OUTPUTS], count = 0;
  bool is_able = o->outputs_count && o->passed == kernel->count;
  for (size_t i = 0; is_able && i < o->passed; i++) {
    passed[i] = o->order[i] < 0 ? NULL : args[o->order[i]];
    if (passed[i]) continue;
    const kiln_output *one = &o->outputs[outputs[count] = (size_t)(-1 - o->order[i])];
    kiln_new_tensor *tensor = &new[count++];
    tensor->rank = one->rank;
    is_able = !kernel->parameters[i].rank && take_shape(one, args, tensor->sizes, tensor->strides) &&
              kiln_handle_new_of(one->type, one->is_zeroed, place, index, tensor);
  }
  if (!is_able || count != o->outputs_count) return PyErr_Occurred() ? -1 : 0;
  int status = 1;
  for (size_t i = 0; i < count && status > 0; i++) {
    kiln_output *one = &o->outputs[outputs[i]];
    if (!kiln_handle_begin(&new[i], one->dtype, &one->last)) status = -1;
  }
  if (status > 0) status = kiln_launch_making(kernel, passed, new, count);
  for (size_t i = 0; i < count; i++)
    if (status <= 0) kiln_handle_drop(&new[i]);
    else if (!(made[outputs[i]] = kiln_handle_give(&new[i]))) status = -1;
  return status;
}

// The same by tensors that PyTorch's Python makes.
static int run_made(const kiln_operation *o, const kiln_found *these, PyObject *const *args,
                    PyObject **made) {
  PyObject *passed[KILN_MOST_ARGUMENTS], *named[KILN_MOST_OUTPUTS], *kernel = these->kernel;
  memcpy(named, these->named, sizeof named); // others may be found meanwhile; none is given up
  for (size_t i = 0; i < o->outputs_count; i++)
    if (!(made[i] = allocate(o, &o->outputs[i], named[i], args))) return PyErr_Occurred() ? -1 : 0;
  for (size_t i = 0; i < o->passed; i++)
    passed[i] = o->order[i] < 0 ? made[-1 - o->order[i]] : args[o->order[i]];
  PyObject *none = PyObject_Vectorcall(kernel, passed, o->passed, NULL);
  Py_XDECREF(none);
  return none ? 1 : -1;
}

PyObject *kiln_operation_run(kiln_operation *o, const kiln_found *wanted, PyObject *const *args,
                             size_t count) {
  const kiln_found *these = find(o, *wanted, args);
  if (!these) return PyErr_Clear(), NULL;
  if (Py_TYPE(these->kernel) == kiln_of.operation) { // what it cannot tell is told by way of this one
    PyObject *one = Py_NewRef(these->kernel);
    kiln_operation *chosen = (kiln_operation *)one;
    PyObject *found = chosen->launch ? kiln_operation_run(chosen, wanted, args, count) : NULL;
    Py_DECREF(one);
    return found;
  }
  PyObject *made[KILN_MOST_OUTPUTS] = {NULL}, *result = NULL;
  int status = 0;
  if (Py_TYPE(these->kernel) == kiln_of.kernel)
    status = run_making(o, (kiln_kernel_object *)these->kernel, these->place, these->index, args, made);
  if (!status) {
    these = find(o, *wanted, args); // others may have been found meanwhile
    if (these) status = run_made(o, these, args, made);
  }
  if (status > 0) result = answer(made, o->outputs_count);
  for (size_t i = 0; i < o->outputs_count; i++) Py_XDECREF(made[i]);
  return result;
}

static PyObject *operation_call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names) {
  kiln_operation *o = (kiln_operation *)self;
  PyObject *result = NULL;
  if (!o->launch) return PyErr_SetString(PyExc_ValueError, kiln_operation_ended), NULL;
  Py_INCREF(self);
  kiln_found wanted;
  size_t count = (size_t)PyVectorcall_NARGS(flagged);
  if (!kiln_named(names) && count == o->taken && kiln_operation_tensors(o, args, false, &wanted))
    result = kiln_operation_run(o, &wanted, args, count);
  if (!result && !PyErr_Occurred()) result = PyObject_Vectorcall(o->launch, args, count, names);
  Py_DECREF(self);
  return result;
}

// -------------------------------------------------------------------------------------------- making

static bool take_extent(PyObject *program, int64_t *code, size_t taken, kiln_extent *out) {
  Py_ssize_t count = PyTuple_Size(program);
  *out = (kiln_extent){.code = code, .count = (size_t)count / 2};
  for (Py_ssize_t i = 0; i < count; i++) {
    code[i] = PyLong_AsLongLong(PyTuple_GetItem(program, i));
    if (i % 2 && code[i - 1] == TAKE && (code[i] < 0 || (size_t)code[i] >= taken))
      PyErr_SetString(PyExc_ValueError, "an extent of an argument that is not there");
  }
  return count >= 0 && !PyErr_Occurred();
}

// (name of the element type, dtype, whether zeros, extents as tuples of code); `code` has room.
static bool take_output(PyObject *from, size_t taken, int64_t **code, kiln_output *out) {
  PyObject *dtype, *extents;
  const char *name;
  int is_zeroed;
  if (!PyArg_ParseTuple(from, "sOpO!", &name, &dtype, &is_zeroed, &PyTuple_Type, &extents)) return false;
  const kiln_element *element = kiln_element_find(name, strlen(name));
  if (!element) return PyErr_Format(PyExc_TypeError, "there is no type %s", name), false;
  *out = (kiln_output){.dtype = Py_NewRef(dtype),
                       .type = element->own,
                       .is_zeroed = is_zeroed,
                       .rank = (int)PyTuple_Size(extents)};
  if (out->rank > KILN_MOST_RANK) return PyErr_SetString(PyExc_ValueError, "too many axes"), false;
  for (int i = 0; i < out->rank; i++) {
    PyObject *program = PyTuple_GetItem(extents, i);
    if (!take_extent(program, *code, taken, &out->extents[i])) return false;
    *code += PyTuple_Size(program);
  }
  return true;
}

static Py_ssize_t code_size(PyObject *outputs) {
  Py_ssize_t size = 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(outputs); i++) {
    PyObject *extents = PyTuple_GetItem(PyTuple_GetItem(outputs, i), 3);
    for (Py_ssize_t j = 0; extents && j < PyTuple_Size(extents); j++)
      size += PyTuple_Size(PyTuple_GetItem(extents, j));
  }
  return PyErr_Occurred() ? -1 : size;
}

bool kiln_numbers_of(PyObject *tuple, long least, long most, int8_t *out) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) {
    long value = PyLong_AsLong(PyTuple_GetItem(tuple, i));
    if (PyErr_Occurred()) return false;
    if (value < least || value >= most)
      return PyErr_SetString(PyExc_ValueError, "a number out of range"), false;
    out[i] = (int8_t)value;
  }
  return true;
}

// Operation(launch, resolve, taken, arrays, order, outputs): see kiln.torch.
static PyObject *operation_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named)) {
  PyObject *launch, *resolve, *empty, *arrays, *order, *outputs;
  int taken;
  if (!PyArg_ParseTuple(args, "OOOiO!O!O!:Operation", &launch, &resolve, &empty, &taken, &PyTuple_Type,
                        &arrays, &PyTuple_Type, &order, &PyTuple_Type, &outputs))
    return NULL;
  if (taken > KILN_MOST_ARGUMENTS || PyTuple_Size(order) > KILN_MOST_ARGUMENTS ||
      PyTuple_Size(outputs) > KILN_MOST_OUTPUTS || PyTuple_Size(arrays) < 1 || PyTuple_Size(arrays) > taken)
    return PyErr_SetString(PyExc_ValueError, "an operation of more than 32 arguments or 8 outputs"), NULL;
  Py_ssize_t size = code_size(outputs);
  kiln_operation *o = size < 0 ? NULL : (kiln_operation *)PyType_GenericAlloc(type, 0);
  if (!o) return NULL;
  o->call = operation_call;
  o->launch = Py_NewRef(launch);
  o->resolve = Py_NewRef(resolve);
  o->empty_strided = Py_NewRef(empty);
  o->taken = (size_t)taken;
  o->arrays_count = (size_t)PyTuple_Size(arrays);
  o->passed = (size_t)PyTuple_Size(order);
  o->code = PyMem_Malloc((size_t)(size + 1) * sizeof *o->code);
  int64_t *code = o->code;
  bool is_fine = code && kiln_numbers_of(arrays, 0, taken, (int8_t *)o->arrays) &&
                 kiln_numbers_of(order, -(long)PyTuple_Size(outputs), taken, o->order);
  if (!code) PyErr_NoMemory();
  for (Py_ssize_t i = 0; is_fine && i < PyTuple_Size(outputs); i++) {
    is_fine = take_output(PyTuple_GetItem(outputs, i), o->taken, &code, &o->outputs[i]);
    o->outputs_count++;
  }
  if (!is_fine) Py_CLEAR(o);
  return (PyObject *)o;
}

static int operation_traverse(PyObject *self, visitproc visit, void *arg) {
  kiln_operation *o = (kiln_operation *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(o->launch);
  Py_VISIT(o->resolve);
  Py_VISIT(o->empty_strided);
  for (size_t i = 0; i < o->found_count; i++) Py_VISIT(o->found[i].kernel);
  return 0;
}

static int operation_clear(PyObject *self) {
  kiln_operation *o = (kiln_operation *)self;
  Py_CLEAR(o->launch);
  Py_CLEAR(o->resolve);
  Py_CLEAR(o->empty_strided);
  while (o->found_count) {
    kiln_found one = o->found[--o->found_count];
    Py_XDECREF(one.kernel);
    for (size_t i = 0; i < KILN_MOST_OUTPUTS; i++) Py_XDECREF(one.named[i]);
  }
  return 0;
}

static void operation_drop(PyObject *self) {
  kiln_operation *o = (kiln_operation *)self;
  for (size_t i = 0; i < o->outputs_count; i++) {
    Py_XDECREF(o->outputs[i].dtype);
    Py_XDECREF(o->outputs[i].last.args);
  }
  PyMem_Free(o->code);
  PyMem_Free(o->found);
}

static void operation_free(PyObject *self) { kiln_object_free(self, NULL, operation_clear, operation_drop); }

static PyMemberDef operation_members[] = {
    KILN_CALL_OF(kiln_operation),
    {0},
};
static PyType_Slot operation_slots[] = {
    {Py_tp_new, operation_new},
    {Py_tp_dealloc, operation_free},
    {Py_tp_traverse, operation_traverse},
    {Py_tp_clear, operation_clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, operation_members},
    {0, NULL},
};
PyType_Spec kiln_operation_spec = {"kiln.Operation", sizeof(kiln_operation), 0, KILN_CALLED, operation_slots};
