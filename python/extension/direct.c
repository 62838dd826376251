// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements kiln._core.Direct, which runs when torch.ops.NAMESPACE.NAME is called.
#include "python/extension/operations.h"

typedef struct direct {
  PyObject_HEAD vectorcallfunc call;
  kiln_operation *below;
  kiln_differentiable *above; // owned; NULL: PyTorch has no function of ours at autograd's key
  PyObject *general;          // owned: through PyTorch's dispatcher
} direct;

static PyObject *direct_call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names) {
  direct *d = (direct *)self;
  size_t count = (size_t)PyVectorcall_NARGS(flagged);
  PyObject *result = NULL;
  if (!d->general || !d->below || !d->below->launch)
    return PyErr_SetString(PyExc_ValueError, kiln_operation_ended), NULL;
  Py_INCREF(self);
  if (!kiln_named(names) && kiln_handles_thread_is_plain())
    result = kiln_operation_shortcut(d->below, d->above, true, args, count);
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
  d->below = (kiln_operation *)Py_NewRef(below);
  d->above = above == Py_None ? NULL : (kiln_differentiable *)Py_NewRef(above);
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
