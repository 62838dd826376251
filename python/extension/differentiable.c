// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements kiln._core.Differentiable, which runs before an operation at autograd's key and records what
// requires grad.
#include "python/extension/operations.h"

#include <string.h>

// Attributes of what an autograd.Function passes to forward.
enum { NAME_SAVE, NAME_FIXED, NAME_MATERIALIZE, NAME_KEPT, NAMES };
static const char *const names_of_context[NAMES] = {"to_save", "non_differentiable", "materialize_grads",
                                                    "kept"};

// Attributes that the apply of the autograd.Function looks up each time, by new strings, which no cache of
// the interpreter's serves, in the order in which they were first asked for.
enum { MOST_ANSWERS = 8 };
typedef struct answer {
  const char *name;
  Py_ssize_t size; // of the name
  PyObject *value;
} answer;

struct kiln_differentiable {
  PyObject_HEAD vectorcallfunc call;
  kiln_operation *below;
  PyObject *general;          // owned: PyTorch's own way; called with the keyset
  PyObject *recorded, *apply; // owned: an autograd.Function and its method; NULL: no derivatives
  PyObject *answered;         // owned: a list of what `answers` borrows, names and values
  answer answers[MOST_ANSWERS];
  size_t answers_count, turn; // turn: the answer that is probably asked for next
  PyCFunction applied;        // of `apply`, without the calling convention; NULL: by that
  PyObject *has_transforms;   // owned
  PyObject *names[NAMES];     // owned
  size_t saved_count, fixed_count, wanted_count;
  int8_t saved[KILN_MOST_ARGUMENTS + KILN_MOST_OUTPUTS]; // tensors for backward: an argument, or -1 - output
  int8_t fixed[KILN_MOST_OUTPUTS];                       // outputs without derivatives, as -1 - output
  int8_t wanted[KILN_MOST_ARGUMENTS];                    // arguments with derivatives
};

// A call under way that is recorded: apply gets the tensors alone, and its forward the rest from here. What
// runs in between (the collector runs anything) may record calls of its own.
typedef struct recording {
  kiln_differentiable *of;
  const kiln_found *wanted;
  PyObject *const *args;
  size_t count;
  struct recording *outer;
} recording;
static _Thread_local recording *recorded_now;

static bool any_requires_grad(const kiln_operation *o, PyObject *const *args) {
  for (size_t i = 0; i < o->arrays_count; i++)
    if (kiln_handle_requires_grad(args[o->arrays[i]])) return true;
  return false;
}

static bool is_transformed(const kiln_differentiable *d) {
  PyObject *transforms = PyObject_Vectorcall(d->has_transforms, NULL, 0, NULL);
  Py_XDECREF(transforms);
  return transforms != Py_False;
}

static PyObject *record(kiln_differentiable *d, const kiln_found *wanted, PyObject *const *args,
                        size_t count) {
  const kiln_operation *o = d->below;
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

PyObject *kiln_operation_shortcut(kiln_operation *o, kiln_differentiable *above, bool is_thread_plain,
                                  PyObject *const *args, size_t count) {
  kiln_found wanted;
  if (count != o->taken || !kiln_handles_are_read() || !kiln_operation_tensors(o, args, true, &wanted))
    return NULL;
  if (!o->outputs_count || !any_requires_grad(o, args) || !kiln_handles_grad_is_enabled())
    return kiln_operation_run(o, &wanted, args, count);
  if (!above || !above->recorded || (!is_thread_plain && is_transformed(above))) return NULL;
  if (!kiln_operation_has_shapes(o, args)) return NULL; // the schema may refuse or convert them
  return record(above, &wanted, args, count);
}

static PyObject *differentiable_call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names) {
  kiln_differentiable *d = (kiln_differentiable *)self;
  size_t count = (size_t)PyVectorcall_NARGS(flagged);
  PyObject *result = NULL;
  if (!d->general || !d->below || !d->below->launch)
    return PyErr_SetString(PyExc_ValueError, kiln_operation_ended), NULL;
  Py_INCREF(self);
  if (!kiln_named(names) && count && kiln_handles_are_read() && !kiln_handles_has_mode())
    result = kiln_operation_shortcut(d->below, d, false, args + 1, count - 1);
  if (!result && !PyErr_Occurred()) result = PyObject_Vectorcall(d->general, args, count, names);
  Py_DECREF(self);
  return result;
}

// What the backward function has as ctx.kept: the arguments, None for tensors, then the types of those with
// derivatives.
static PyObject *kept_of(const kiln_differentiable *d, const recording *r) {
  const kiln_operation *o = d->below;
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

static bool keep(const kiln_differentiable *d, PyObject *ctx, const recording *r, PyObject *outputs) {
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
  kiln_differentiable *d = (kiln_differentiable *)self;
  const recording *r = recorded_now;
  if (!r || r->of != d || !d->below || count != (Py_ssize_t)d->below->arrays_count + 1)
    return PyErr_SetString(PyExc_TypeError, "an operation calls this, and nothing else"), NULL;
  PyObject *result = kiln_operation_run(d->below, r->wanted, r->args, r->count);
  if (!result && !PyErr_Occurred()) result = PyObject_Vectorcall(d->below->launch, r->args, r->count, NULL);
  if (result && !keep(d, args[0], r, result)) Py_CLEAR(result);
  return result;
}

// record(function, its apply): the autograd.Function that records calls.
static PyObject *differentiable_record(PyObject *self, PyObject *args) {
  kiln_differentiable *d = (kiln_differentiable *)self;
  PyObject *function, *apply;
  if (!PyArg_ParseTuple(args, "OO:record", &function, &apply)) return NULL;
  if (d->recorded) return PyErr_SetString(PyExc_ValueError, "it has one"), NULL;
  if (!(d->answered = PyList_New(0))) return NULL;
  if (Py_TYPE(apply) == &PyCFunction_Type && (PyCFunction_GetFlags(apply) & ~METH_CLASS) == METH_VARARGS &&
      PyCFunction_GetSelf(apply) == function)
    d->applied = PyCFunction_GetFunction(apply);
  d->recorded = Py_NewRef(function);
  d->apply = Py_NewRef(apply);
  Py_RETURN_NONE;
}

// NULL: that is the first time that the name is asked for.
static PyObject *known_answer(kiln_differentiable *d, const char *name, Py_ssize_t size) {
  for (size_t i = 0; i < d->answers_count; i++) {
    size_t at = d->turn + i < d->answers_count ? d->turn + i : d->turn + i - d->answers_count;
    const answer *a = &d->answers[at];
    if (a->size != size || memcmp(a->name, name, (size_t)size)) continue;
    d->turn = at + 1 < d->answers_count ? at + 1 : 0;
    return Py_NewRef(a->value);
  }
  return NULL;
}

static bool keep_answer(kiln_differentiable *d, PyObject *name, answer a) {
  if (d->answers_count == MOST_ANSWERS) return true;
  if (PyList_Append(d->answered, name) || PyList_Append(d->answered, a.value)) return false;
  d->answers[d->answers_count++] = a;
  return true;
}

// tp_getattro of the class of that autograd.Function.
static PyObject *recorded_attribute(PyObject *function, PyObject *name) {
  static getattrofunc of_types;
  if (!of_types) of_types = (getattrofunc)PyType_GetSlot(&PyType_Type, Py_tp_getattro);
  kiln_differentiable *d = recorded_now ? recorded_now->of : NULL;
  if (!d || d->recorded != function || !PyUnicode_Check(name)) return of_types(function, name);
  answer a = {0};
  if (!(a.name = PyUnicode_AsUTF8AndSize(name, &a.size))) return NULL;
  if ((a.value = known_answer(d, a.name, a.size))) return a.value;
  a.value = of_types(function, name);
  if (a.value && !keep_answer(d, name, a)) Py_CLEAR(a.value);
  return a.value;
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
  kiln_operation *o = (kiln_operation *)below;
  if (PyTuple_Size(saved) > KILN_MOST_ARGUMENTS || PyTuple_Size(fixed) > KILN_MOST_OUTPUTS ||
      PyTuple_Size(wanted) > KILN_MOST_ARGUMENTS)
    return PyErr_SetString(PyExc_ValueError, "too many tensors"), NULL;
  kiln_differentiable *d = (kiln_differentiable *)PyType_GenericAlloc(type, 0);
  if (!d) return NULL;
  d->call = differentiable_call;
  d->below = (kiln_operation *)Py_NewRef(below);
  d->general = Py_NewRef(general);
  d->has_transforms = Py_NewRef(has_transforms);
  d->saved_count = (size_t)PyTuple_Size(saved);
  d->fixed_count = (size_t)PyTuple_Size(fixed);
  d->wanted_count = (size_t)PyTuple_Size(wanted);
  bool is_fine = kiln_numbers_of(saved, -(long)o->outputs_count, (long)o->taken, d->saved) &&
                 kiln_numbers_of(fixed, -(long)o->outputs_count, 0, d->fixed) &&
                 kiln_numbers_of(wanted, 0, (long)o->taken, d->wanted);
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

KILN_COLLECTED(differentiable, NULL, offsetof(kiln_differentiable, general),
               offsetof(kiln_differentiable, below), offsetof(kiln_differentiable, recorded),
               offsetof(kiln_differentiable, apply), offsetof(kiln_differentiable, answered),
               offsetof(kiln_differentiable, has_transforms), offsetof(kiln_differentiable, names[NAME_SAVE]),
               offsetof(kiln_differentiable, names[NAME_FIXED]),
               offsetof(kiln_differentiable, names[NAME_MATERIALIZE]),
               offsetof(kiln_differentiable, names[NAME_KEPT]))

static PyMethodDef differentiable_methods[] = {
    {"forward", (PyCFunction)(void (*)(void))differentiable_forward, METH_FASTCALL, NULL},
    {"record", differentiable_record, METH_VARARGS, NULL},
    {0},
};
static PyMemberDef differentiable_members[] = {
    KILN_CALL_OF(kiln_differentiable),
    {0},
};
static PyType_Slot differentiable_slots[] = {
    {Py_tp_new, differentiable_new},         KILN_COLLECTED_SLOTS(differentiable),
    {Py_tp_call, PyVectorcall_Call},         {Py_tp_methods, differentiable_methods},
    {Py_tp_members, differentiable_members}, {0, NULL},
};
PyType_Spec kiln_differentiable_spec = {"kiln.Differentiable", sizeof(kiln_differentiable), 0, KILN_CALLED,
                                        differentiable_slots};
