// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A count of launches that several objects share: Counter(). What launches in C adds one under the
// interpreter's lock, so nothing is lost between threads.
#include "python/extension/extension.h"

typedef struct counter {
  PyObject_HEAD unsigned long long value;
} counter;

void kiln_count(PyObject *object) { ((counter *)object)->value++; }

static PyObject *counter_add(PyObject *self, PyObject *Py_UNUSED(none)) {
  kiln_count(self);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"add", counter_add, METH_NOARGS, "add()\n--\n\nAdds one."},
    {0},
};
static PyMemberDef members[] = {
    {"value", T_ULONGLONG, offsetof(counter, value), READONLY, "The count."},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "Counter(): counts launches."},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};
PyType_Spec kiln_counter_spec = {"kiln.Counter", sizeof(counter), 0, Py_TPFLAGS_DEFAULT, slots};
