// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations of PyTorch as its dispatcher calls them: kiln._core.Operation launches and allocates what is
// returned, kiln._core.Differentiable stands at autograd's key above it, and kiln._core.Direct is what
// torch.ops.NAMESPACE.NAME does when it is called. Each takes the common case, plain tensors in order,
// itself, and gives all else to functions of kiln.torch or PyTorch, whose answer is the same.
#include "python/extension/extension.h"

#include <string.h>

enum { MOST_ARGUMENTS = 32, MOST_OUTPUTS = 8, MOST_RANK = 8, MOST_FOUND = 64, MOST_STACK = 16 };

// Extents are programs over the integers among the arguments: pairs of an opcode and a value.
enum { PUSH, TAKE, ADD, SUB, MUL, DIV, MOD, NEG, CDIV, MIN, MAX };

typedef struct extent {
  const int64_t *code;
  size_t count; // of pairs
} extent;

typedef struct output {
  PyObject *dtype; // owned
  uint32_t type;
  bool is_zeroed;
  int rank;
  extent extents[MOST_RANK];
} output;

// What launches for tensors of some types on some device.
typedef struct found {
  kiln_place place;
  int index;
  uint32_t types[MOST_ARGUMENTS];
  PyObject *kernel;              // owned: a kiln.Kernel, or the operation of the instance
  PyObject *named[MOST_OUTPUTS]; // owned: of torch.empty_strided for each output
} found;

typedef struct operation {
  PyObject_HEAD vectorcallfunc call;
  PyObject *launch, *resolve; // owned: of kiln.torch.
  PyObject *empty_strided;
  size_t taken, arrays_count, passed, outputs_count, found_count;
  uint8_t arrays[MOST_ARGUMENTS]; // numbers of the arguments that are tensors
  int8_t order[MOST_ARGUMENTS];   // of the kernel's: an argument, or -1 - output
  output outputs[MOST_OUTPUTS];
  int64_t *code; // owned
  found *found;  // owned
} operation;

// ------------------------------------------------------------------------------------------- extents

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
static bool evaluate(const extent *e, PyObject *const *args, int64_t *out) {
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
static bool take_shape(const output *made, PyObject *const *args, int64_t *sizes, int64_t *strides) {
  int64_t step = 1;
  for (int i = 0; i < made->rank; i++)
    if (!evaluate(&made->extents[i], args, &sizes[i])) return false;
  for (int i = made->rank; i-- > 0;) {
    strides[i] = step;
    if (__builtin_mul_overflow(step, sizes[i] > 1 ? sizes[i] : 1, &step)) return false;
  }
  return true;
}

// By PyTorch's Python; NULL without an exception where a general way has to tell.
static PyObject *allocate(const operation *o, const output *made, PyObject *named, PyObject *const *args) {
  int64_t sizes[MOST_RANK], strides[MOST_RANK];
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

// The types and the device of plain tensors; false where a general way has to tell. `wants_dense`: for which
// a device's own code is all that is below autograd.
static bool take_tensors(const operation *o, PyObject *const *args, bool wants_dense, found *out) {
  *out = (found){0};
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
static const found *find(operation *o, found wanted, PyObject *const *args) {
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
  found *more = is_fine && o->found_count < MOST_FOUND
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

static PyObject *operation_call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names);
static const char has_ended[] = "this operation has ended"; // by the collector, with what still calls it

// Launches with new tensors, which the kernel writes in the order of its parameters; 0 where another way has
// to make them, -1 with an exception.
static int run_making(const operation *o, kiln_kernel_object *kernel, kiln_place place, int index,
                      PyObject *const *args, PyObject **made) {
  kiln_new_tensor new[MOST_OUTPUTS];
  PyObject *passed[MOST_ARGUMENTS];
  size_t outputs[MOST_OUTPUTS], count = 0;
  bool is_able = o->outputs_count && o->passed == kernel->count;
  for (size_t i = 0; is_able && i < o->passed; i++) {
    passed[i] = o->order[i] < 0 ? NULL : args[o->order[i]];
    if (passed[i]) continue;
    const output *one = &o->outputs[outputs[count] = (size_t)(-1 - o->order[i])];
    kiln_new_tensor *tensor = &new[count++];
    tensor->rank = one->rank;
    is_able = !kernel->parameters[i].rank && take_shape(one, args, tensor->sizes, tensor->strides) &&
              kiln_handle_new_of(one->type, one->is_zeroed, place, index, tensor);
  }
  if (!is_able || count != o->outputs_count) return PyErr_Occurred() ? -1 : 0;
  int status = kiln_launch_making(kernel, passed, new, count);
  for (size_t i = 0; i < count; i++)
    if (status <= 0) kiln_handle_drop(&new[i]);
    else if (!(made[outputs[i]] = kiln_handle_give(&new[i]))) status = -1;
  return status;
}

// The same by tensors that PyTorch's Python makes.
static int run_made(const operation *o, const found *these, PyObject *const *args, PyObject **made) {
  PyObject *passed[MOST_ARGUMENTS], *named[MOST_OUTPUTS], *kernel = these->kernel;
  memcpy(named, these->named, sizeof named); // others may be found meanwhile; none is given up
  for (size_t i = 0; i < o->outputs_count; i++)
    if (!(made[i] = allocate(o, &o->outputs[i], named[i], args))) return PyErr_Occurred() ? -1 : 0;
  for (size_t i = 0; i < o->passed; i++)
    passed[i] = o->order[i] < 0 ? made[-1 - o->order[i]] : args[o->order[i]];
  PyObject *none = PyObject_Vectorcall(kernel, passed, o->passed, NULL);
  Py_XDECREF(none);
  return none ? 1 : -1;
}

// The answer for such tensors, or NULL: with an exception, or without where a general way has to tell.
static PyObject *run(operation *o, const found *wanted, PyObject *const *args, size_t count) {
  const found *these = find(o, *wanted, args);
  if (!these) return PyErr_Clear(), NULL;
  if (Py_TYPE(these->kernel) == kiln_of.operation) return operation_call(these->kernel, args, count, NULL);
  PyObject *made[MOST_OUTPUTS] = {NULL}, *result = NULL;
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
  operation *o = (operation *)self;
  PyObject *result = NULL;
  if (!o->launch) return PyErr_SetString(PyExc_ValueError, has_ended), NULL;
  Py_INCREF(self);
  found wanted;
  size_t count = (size_t)PyVectorcall_NARGS(flagged);
  if ((!names || !PyTuple_Size(names)) && count == o->taken && take_tensors(o, args, false, &wanted))
    result = run(o, &wanted, args, count);
  if (!result && !PyErr_Occurred()) result = PyObject_Vectorcall(o->launch, args, count, names);
  Py_DECREF(self);
  return result;
}

// -------------------------------------------------------------------------------------------- making

static bool take_extent(PyObject *program, int64_t *code, size_t taken, extent *out) {
  Py_ssize_t count = PyTuple_Size(program);
  *out = (extent){.code = code, .count = (size_t)count / 2};
  for (Py_ssize_t i = 0; i < count; i++) {
    code[i] = PyLong_AsLongLong(PyTuple_GetItem(program, i));
    if (i % 2 && code[i - 1] == TAKE && (code[i] < 0 || (size_t)code[i] >= taken))
      PyErr_SetString(PyExc_ValueError, "an extent of an argument that is not there");
  }
  return count >= 0 && !PyErr_Occurred();
}

// (name of the element type, dtype, whether zeros, extents as tuples of code); `code` has room.
static bool take_output(PyObject *from, size_t taken, int64_t **code, output *out) {
  PyObject *dtype, *extents;
  const char *name;
  int is_zeroed;
  if (!PyArg_ParseTuple(from, "sOpO!", &name, &dtype, &is_zeroed, &PyTuple_Type, &extents)) return false;
  const kiln_element *element = kiln_element_find(name, strlen(name));
  if (!element) return PyErr_Format(PyExc_TypeError, "there is no type %s", name), false;
  *out = (output){.dtype = Py_NewRef(dtype),
                  .type = element->own,
                  .is_zeroed = is_zeroed,
                  .rank = (int)PyTuple_Size(extents)};
  if (out->rank > MOST_RANK) return PyErr_SetString(PyExc_ValueError, "too many axes"), false;
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

static bool take_numbers(PyObject *tuple, long least, long most, int8_t *out) {
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
  if (taken > MOST_ARGUMENTS || PyTuple_Size(order) > MOST_ARGUMENTS ||
      PyTuple_Size(outputs) > MOST_OUTPUTS || PyTuple_Size(arrays) < 1 || PyTuple_Size(arrays) > taken)
    return PyErr_SetString(PyExc_ValueError, "an operation of more than 32 arguments or 8 outputs"), NULL;
  Py_ssize_t size = code_size(outputs);
  operation *o = size < 0 ? NULL : (operation *)PyType_GenericAlloc(type, 0);
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
  bool is_fine = code && take_numbers(arrays, 0, taken, (int8_t *)o->arrays) &&
                 take_numbers(order, -(long)PyTuple_Size(outputs), taken, o->order);
  if (!code) PyErr_NoMemory();
  for (Py_ssize_t i = 0; is_fine && i < PyTuple_Size(outputs); i++) {
    is_fine = take_output(PyTuple_GetItem(outputs, i), o->taken, &code, &o->outputs[i]);
    o->outputs_count++;
  }
  if (!is_fine) Py_CLEAR(o);
  return (PyObject *)o;
}

static int operation_traverse(PyObject *self, visitproc visit, void *arg) {
  operation *o = (operation *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(o->launch);
  Py_VISIT(o->resolve);
  Py_VISIT(o->empty_strided);
  for (size_t i = 0; i < o->found_count; i++) Py_VISIT(o->found[i].kernel);
  return 0;
}

static int operation_clear(PyObject *self) {
  operation *o = (operation *)self;
  Py_CLEAR(o->launch);
  Py_CLEAR(o->resolve);
  Py_CLEAR(o->empty_strided);
  while (o->found_count) {
    found one = o->found[--o->found_count];
    Py_XDECREF(one.kernel);
    for (size_t i = 0; i < MOST_OUTPUTS; i++) Py_XDECREF(one.named[i]);
  }
  return 0;
}

static void operation_drop(PyObject *self) {
  operation *o = (operation *)self;
  for (size_t i = 0; i < o->outputs_count; i++) Py_XDECREF(o->outputs[i].dtype);
  PyMem_Free(o->code);
  PyMem_Free(o->found);
}

static void operation_free(PyObject *self) { kiln_object_free(self, NULL, operation_clear, operation_drop); }

static PyMemberDef operation_members[] = {
    KILN_CALL_OF(operation),
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
PyType_Spec kiln_operation_spec = {"kiln.Operation", sizeof(operation), 0, KILN_CALLED, operation_slots};

// ------------------------------------------------------------------------------------------ autograd

// Attributes of what an autograd.Function passes to forward.
enum { NAME_SAVE, NAME_FIXED, NAME_MATERIALIZE, NAME_KEPT, NAMES };
static const char *const names_of_context[NAMES] = {"to_save", "non_differentiable", "materialize_grads",
                                                    "kept"};

// Attributes of the autograd.Function that its apply looks up each time, by new strings, which no cache of
// the interpreter's serves.
enum { ANSWER_CONTEXT, ANSWER_SETUP, ANSWER_FORWARD, ANSWERS };
static const char *const names_of_answers[ANSWERS] = {"_backward_cls", "setup_context", "forward"};

typedef struct differentiable {
  PyObject_HEAD vectorcallfunc call;
  operation *below;
  PyObject *general;          // owned: PyTorch's own way; called with the keyset
  PyObject *recorded, *apply; // owned: an autograd.Function and its method; NULL: no derivatives
  PyObject *answers[ANSWERS]; // owned
  PyCFunction applied;        // of `apply`, without the calling convention; NULL: by that
  PyObject *has_transforms;   // owned
  PyObject *names[NAMES];     // owned
  size_t saved_count, fixed_count, wanted_count;
  int8_t saved[MOST_ARGUMENTS + MOST_OUTPUTS]; // tensors for backward: an argument, or -1 - output
  int8_t fixed[MOST_OUTPUTS];                  // outputs without derivatives, as -1 - output
  int8_t wanted[MOST_ARGUMENTS];               // arguments with derivatives
} differentiable;

// A call under way that is recorded: apply gets the tensors alone, and its forward the rest from here. What
// runs in between (the collector runs anything) may record calls of its own.
typedef struct recording {
  const differentiable *of;
  const found *wanted;
  PyObject *const *args;
  size_t count;
  struct recording *outer;
} recording;
static _Thread_local recording *recorded_now;

static bool any_requires_grad(const operation *o, PyObject *const *args) {
  for (size_t i = 0; i < o->arrays_count; i++)
    if (kiln_handle_requires_grad(args[o->arrays[i]])) return true;
  return false;
}

static bool is_transformed(const differentiable *d) {
  PyObject *transforms = PyObject_Vectorcall(d->has_transforms, NULL, 0, NULL);
  Py_XDECREF(transforms);
  return transforms != Py_False;
}

static PyObject *record(const differentiable *d, const found *wanted, PyObject *const *args, size_t count) {
  const operation *o = d->below;
  PyObject *tensors = PyTuple_New((Py_ssize_t)o->arrays_count);
  for (size_t i = 0; tensors && i < o->arrays_count; i++)
    PyTuple_SetItem(tensors, (Py_ssize_t)i, Py_NewRef(args[o->arrays[i]]));
  if (!tensors) return NULL;
  recording r = {d, wanted, args, count, recorded_now};
  recorded_now = &r;
  PyObject *result = d->applied ? d->applied(d->recorded, tensors) : PyObject_Call(d->apply, tensors, NULL);
  recorded_now = r.outer;
  Py_DECREF(tensors);
  return result;
}

// The answer for plain tensors, or NULL: with an exception, or without where a general way has to tell.
// `above` records what autograd wants to know of; NULL: nothing does. `is_thread_plain`: there are no
// transforms.
static PyObject *shortcut(operation *o, const differentiable *above, bool is_thread_plain,
                          PyObject *const *args, size_t count) {
  found wanted;
  if (count != o->taken || !kiln_handles_are_read() || !take_tensors(o, args, true, &wanted)) return NULL;
  if (!o->outputs_count || !any_requires_grad(o, args) || !kiln_handles_grad_is_enabled())
    return run(o, &wanted, args, count);
  if (!above || !above->recorded || (!is_thread_plain && is_transformed(above))) return NULL;
  return record(above, &wanted, args, count);
}

static PyObject *differentiable_call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names) {
  differentiable *d = (differentiable *)self;
  size_t count = (size_t)PyVectorcall_NARGS(flagged);
  PyObject *result = NULL;
  if (!d->general || !d->below || !d->below->launch)
    return PyErr_SetString(PyExc_ValueError, has_ended), NULL;
  Py_INCREF(self);
  if ((!names || !PyTuple_Size(names)) && count && kiln_handles_are_read() && !kiln_handles_has_mode())
    result = shortcut(d->below, d, false, args + 1, count - 1);
  if (!result && !PyErr_Occurred()) result = PyObject_Vectorcall(d->general, args, count, names);
  Py_DECREF(self);
  return result;
}

// What the backward function has as ctx.kept: the arguments, None for tensors, then the types of those with
// derivatives.
static PyObject *kept_of(const differentiable *d, const recording *r) {
  const operation *o = d->below;
  PyObject *kept = PyTuple_New((Py_ssize_t)(o->taken + d->wanted_count));
  for (size_t i = 0, array = 0; kept && i < o->taken; i++) {
    bool is_array = array < o->arrays_count && o->arrays[array] == i;
    PyObject *one = is_array ? Py_None : r->args[i];
    array += is_array;
    PyTuple_SetItem(kept, (Py_ssize_t)i, Py_NewRef(one));
  }
  for (size_t i = 0; kept && i < d->wanted_count; i++) {
    size_t array = 0;
    while (o->arrays[array] != d->wanted[i]) array++;
    PyObject *dtype = kiln_torch_dtype(r->wanted->types[array]);
    PyTuple_SetItem(kept, (Py_ssize_t)(o->taken + i), Py_NewRef(dtype ? dtype : Py_None));
  }
  return kept;
}

// Those of the arguments and outputs that `numbers` says, an argument or -1 - output.
static PyObject *tensors_of(const int8_t *numbers, size_t count, PyObject *const *args, PyObject *outputs) {
  PyObject *tensors = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; tensors && i < count; i++) {
    int at = numbers[i];
    PyObject *one = at >= 0 ? args[at] : PyTuple_Check(outputs) ? PyTuple_GetItem(outputs, -1 - at) : outputs;
    PyTuple_SetItem(tensors, (Py_ssize_t)i, Py_NewRef(one));
  }
  return tensors;
}

// Takes over `value`.
static bool set(PyObject *ctx, PyObject *name, PyObject *value) {
  bool is_set = value && !PyObject_SetAttr(ctx, name, value);
  Py_XDECREF(value);
  return is_set;
}

static bool keep(const differentiable *d, PyObject *ctx, const recording *r, PyObject *outputs) {
  bool may_lack_gradients = d->below->outputs_count > 1; // the only output has one, where backward is called
  return (!may_lack_gradients || set(ctx, d->names[NAME_MATERIALIZE], Py_NewRef(Py_False))) &&
         (!d->saved_count ||
          set(ctx, d->names[NAME_SAVE], tensors_of(d->saved, d->saved_count, r->args, outputs))) &&
         (!d->fixed_count ||
          set(ctx, d->names[NAME_FIXED], tensors_of(d->fixed, d->fixed_count, r->args, outputs))) &&
         set(ctx, d->names[NAME_KEPT], kept_of(d, r));
}

// forward(ctx, *tensors) of the autograd.Function.
static PyObject *differentiable_forward(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  differentiable *d = (differentiable *)self;
  const recording *r = recorded_now;
  if (!r || r->of != d || !d->below || count != (Py_ssize_t)d->below->arrays_count + 1)
    return PyErr_SetString(PyExc_TypeError, "an operation calls this, and nothing else"), NULL;
  PyObject *result = run(d->below, r->wanted, r->args, r->count);
  if (!result && !PyErr_Occurred()) result = PyObject_Vectorcall(d->below->launch, r->args, r->count, NULL);
  if (result && !keep(d, args[0], r, result)) Py_CLEAR(result);
  return result;
}

// record(function, its apply): the autograd.Function that records calls.
static PyObject *differentiable_record(PyObject *self, PyObject *args) {
  differentiable *d = (differentiable *)self;
  PyObject *function, *apply;
  if (!PyArg_ParseTuple(args, "OO:record", &function, &apply)) return NULL;
  if (d->recorded) return PyErr_SetString(PyExc_ValueError, "it has one"), NULL;
  for (size_t i = 0; i < ANSWERS; i++)
    if (!d->answers[i] && !(d->answers[i] = PyObject_GetAttrString(function, names_of_answers[i])))
      return NULL;
  if (Py_TYPE(apply) == &PyCFunction_Type && (PyCFunction_GetFlags(apply) & ~METH_CLASS) == METH_VARARGS &&
      PyCFunction_GetSelf(apply) == function)
    d->applied = PyCFunction_GetFunction(apply);
  d->recorded = Py_NewRef(function);
  d->apply = Py_NewRef(apply);
  Py_RETURN_NONE;
}

// tp_getattro of the class of that autograd.Function.
static PyObject *recorded_attribute(PyObject *function, PyObject *name) {
  static getattrofunc of_types;
  const recording *r = recorded_now;
  if (r && r->of->recorded == function) {
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(name, &size);
    for (size_t i = 0; text && i < ANSWERS; i++)
      if (!strcmp(text, names_of_answers[i])) return Py_NewRef(r->of->answers[i]);
    PyErr_Clear();
  }
  if (!of_types) of_types = (getattrofunc)PyType_GetSlot(&PyType_Type, Py_tp_getattro);
  return of_types(function, name);
}

// recorded_type(base): the class of autograd.Functions for record(), which derives from `base`, theirs.
PyObject *kiln_recorded_type(PyObject *Py_UNUSED(module), PyObject *base) {
  static PyType_Slot slots[] = {{Py_tp_getattro, recorded_attribute}, {0, NULL}};
  static PyType_Spec spec = {"kiln.RecordedType", 0, 0, Py_TPFLAGS_DEFAULT, slots};
  if (!PyType_Check(base) || !PyType_IsSubtype((PyTypeObject *)base, &PyType_Type))
    return PyErr_SetString(PyExc_TypeError, "expected the class of a class"), NULL;
  PyObject *bases = PyTuple_Pack(1, base), *type = bases ? PyType_FromSpecWithBases(&spec, bases) : NULL;
  Py_XDECREF(bases);
  return type;
}

// Differentiable(operation, general, has_transforms, saved, fixed, wanted)
static PyObject *differentiable_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named)) {
  PyObject *below, *general, *has_transforms, *saved, *fixed, *wanted;
  if (!PyArg_ParseTuple(args, "O!OOO!O!O!:Differentiable", kiln_of.operation, &below, &general,
                        &has_transforms, &PyTuple_Type, &saved, &PyTuple_Type, &fixed, &PyTuple_Type,
                        &wanted))
    return NULL;
  operation *o = (operation *)below;
  if (PyTuple_Size(saved) > MOST_ARGUMENTS || PyTuple_Size(fixed) > MOST_OUTPUTS ||
      PyTuple_Size(wanted) > MOST_ARGUMENTS)
    return PyErr_SetString(PyExc_ValueError, "too many tensors"), NULL;
  differentiable *d = (differentiable *)PyType_GenericAlloc(type, 0);
  if (!d) return NULL;
  d->call = differentiable_call;
  d->below = (operation *)Py_NewRef(below);
  d->general = Py_NewRef(general);
  d->has_transforms = Py_NewRef(has_transforms);
  d->saved_count = (size_t)PyTuple_Size(saved);
  d->fixed_count = (size_t)PyTuple_Size(fixed);
  d->wanted_count = (size_t)PyTuple_Size(wanted);
  bool is_fine = take_numbers(saved, -(long)o->outputs_count, (long)o->taken, d->saved) &&
                 take_numbers(fixed, -(long)o->outputs_count, 0, d->fixed) &&
                 take_numbers(wanted, 0, (long)o->taken, d->wanted);
  for (size_t i = 0; is_fine && i < d->wanted_count; i++)
    if (!memchr(o->arrays, d->wanted[i], o->arrays_count)) {
      PyErr_SetString(PyExc_ValueError, "the derivative of a number");
      is_fine = false;
    }
  for (size_t i = 0; i < NAMES; i++)
    is_fine &= (d->names[i] = PyUnicode_InternFromString(names_of_context[i])) != NULL;
  if (!is_fine) Py_CLEAR(d);
  return (PyObject *)d;
}

KILN_COLLECTED(differentiable, NULL, offsetof(differentiable, general), offsetof(differentiable, below),
               offsetof(differentiable, recorded), offsetof(differentiable, apply),
               offsetof(differentiable, answers[ANSWER_CONTEXT]),
               offsetof(differentiable, answers[ANSWER_SETUP]),
               offsetof(differentiable, answers[ANSWER_FORWARD]), offsetof(differentiable, has_transforms),
               offsetof(differentiable, names[NAME_SAVE]), offsetof(differentiable, names[NAME_FIXED]),
               offsetof(differentiable, names[NAME_MATERIALIZE]), offsetof(differentiable, names[NAME_KEPT]))

static PyMethodDef differentiable_methods[] = {
    {"forward", (PyCFunction)(void (*)(void))differentiable_forward, METH_FASTCALL, NULL},
    {"record", differentiable_record, METH_VARARGS, NULL},
    {0},
};
static PyMemberDef differentiable_members[] = {
    KILN_CALL_OF(differentiable),
    {0},
};
static PyType_Slot differentiable_slots[] = {
    {Py_tp_new, differentiable_new},         KILN_COLLECTED_SLOTS(differentiable),
    {Py_tp_call, PyVectorcall_Call},         {Py_tp_methods, differentiable_methods},
    {Py_tp_members, differentiable_members}, {0, NULL},
};
PyType_Spec kiln_differentiable_spec = {"kiln.Differentiable", sizeof(differentiable), 0, KILN_CALLED,
                                        differentiable_slots};

// ------------------------------------------------------------------------------------- torch.ops.NAME

typedef struct direct {
  PyObject_HEAD vectorcallfunc call;
  operation *below;
  differentiable *above; // owned; NULL: PyTorch has no function of ours at autograd's key
  PyObject *general;     // owned: through PyTorch's dispatcher
} direct;

static PyObject *direct_call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names) {
  direct *d = (direct *)self;
  size_t count = (size_t)PyVectorcall_NARGS(flagged);
  PyObject *result = NULL;
  if (!d->general || !d->below || !d->below->launch)
    return PyErr_SetString(PyExc_ValueError, has_ended), NULL;
  Py_INCREF(self);
  if ((!names || !PyTuple_Size(names)) && kiln_handles_thread_is_plain())
    result = shortcut(d->below, d->above, true, args, count);
  if (!result && !PyErr_Occurred()) result = PyObject_Vectorcall(d->general, args, count, names);
  Py_DECREF(self);
  return result;
}

// Direct(operation, differentiable or None, general)
static PyObject *direct_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named)) {
  PyObject *below, *above, *general;
  if (!PyArg_ParseTuple(args, "O!OO:Direct", kiln_of.operation, &below, &above, &general)) return NULL;
  if (above != Py_None && Py_TYPE(above) != kiln_of.differentiable)
    return PyErr_SetString(PyExc_TypeError, "expected a Differentiable or None"), NULL;
  direct *d = (direct *)PyType_GenericAlloc(type, 0);
  if (!d) return NULL;
  d->call = direct_call;
  d->below = (operation *)Py_NewRef(below);
  d->above = above == Py_None ? NULL : (differentiable *)Py_NewRef(above);
  d->general = Py_NewRef(general);
  return (PyObject *)d;
}

KILN_COLLECTED(direct, NULL, offsetof(direct, general), offsetof(direct, below), offsetof(direct, above))

static PyMemberDef direct_members[] = {
    KILN_CALL_OF(direct),
    {0},
};
static PyType_Slot direct_slots[] = {
    {Py_tp_new, direct_new},
    KILN_COLLECTED_SLOTS(direct),
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, direct_members},
    {0, NULL},
};
PyType_Spec kiln_direct_spec = {"kiln.Direct", sizeof(direct), 0, KILN_CALLED, direct_slots};
