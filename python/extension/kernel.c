// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements kiln.Kernel and its call. Arguments are packed into a block on the stack (arguments.c), and
// libkiln gets the block without the GIL. Only the arguments' own protocols allocate anything.
#include "python/extension/extension.h"

#include <string.h>

// --------------------------------------------------------------------------------------- parameters

static bool take_parameter(kiln_kernel_object *k, size_t index, kiln_parameter *out) {
  kiln_param from;
  if (k->device->held->c->param_at(k->handle, index, &from))
    return PyErr_SetString(kiln_of.error, "a parameter is missing"), false;
  const char *scalar = strrchr(from.type, ' ');
  scalar = scalar ? scalar + 1 : from.type;
  scalar += strspn(scalar, "*");
  PyObject *name = PyUnicode_InternFromString(from.name), *type = kiln_text(from.type);
  *out = (kiln_parameter){
      .name = name, .type = type, .offset = from.offset, .size = from.size, .rank = from.rank};
  out->depth = from.pointer;
  out->access = from.access;
  out->element = kiln_element_find(scalar, strlen(scalar));
  out->has_size = from.pointer && k->device->held->c->param_has_size(k->handle, index);
  if (name && type && !out->element)
    PyErr_Format(PyExc_TypeError, "%U: parameter '%U' is a %U, which this package does not know", k->name,
                 name, type);
  return name && type && out->element;
}

// Which parts of a block are numbers.
static bool take_sizes(kiln_kernel_object *k) {
  size_t used = 0;
  bool is_beside = false, has_sizes = false;
  for (size_t i = 0; i < k->count; i++) has_sizes |= k->parameters[i].has_size;
  if (!has_sizes) return true;
  kiln_sizes_memo *m = k->sizes = PyMem_Calloc(1, sizeof *m);
  if (!m) return PyErr_NoMemory(), false;
  m->is_able = k->count <= KILN_FEW;
  for (size_t i = 0; i < k->count && m->is_able; i++) {
    const kiln_parameter *p = &k->parameters[i];
    bool is_number = !p->depth && !p->rank;
    if (is_number && !is_beside && (m->is_able = m->run_count < KILN_SIZES_RUNS))
      m->runs[m->run_count++].at = (uint16_t)(p->offset & ~3u);
    if (is_number && m->is_able)
      m->runs[m->run_count - 1].words =
          (uint16_t)((p->offset + p->size - m->runs[m->run_count - 1].at + 3) / 4);
    is_beside = is_number;
  }
  for (size_t i = 0; i < m->run_count; i++) used += m->runs[i].words;
  m->is_able = m->is_able && used <= KILN_SIZES_WORDS;
  return true;
}

static PyObject *kernel_call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names);

PyObject *kiln_kernel_new(kiln_device_object *device, PyObject *name) {
  const char *text = kiln_text_for("name", name);
  kiln_held *h = device->held;
  if (!text || !kiln_held_begin(h)) return NULL;
  kiln_kernel *handle = NULL;
  kiln_error err;
  kiln_status status;
  Py_BEGIN_ALLOW_THREADS status = h->c->kernel_get(h->handle, text, NULL, &handle, &err);
  Py_END_ALLOW_THREADS PyObject *self =
      status ? kiln_raise(status, &err) : PyType_GenericAlloc(kiln_of.kernel, 0);
  kiln_kernel_object *k = (kiln_kernel_object *)self;
  bool is_fine = self != NULL;
  if (is_fine) {
    k->call = kernel_call;
    k->device = (kiln_device_object *)Py_NewRef((PyObject *)device);
    k->name = Py_NewRef(name);
    k->handle = handle;
    k->block_size = h->c->block_size(handle);
    size_t count = h->c->param_count(handle);
    k->parameters = PyMem_Calloc(count + 1, sizeof *k->parameters);
    is_fine = k->parameters && k->block_size <= KILN_MOST_BLOCK;
    if (!k->parameters) PyErr_NoMemory();
    for (; is_fine && k->count < count; k->count++)
      is_fine = take_parameter(k, k->count, &k->parameters[k->count]);
    is_fine = is_fine && take_sizes(k);
    k->uses_scratch = is_fine && h->c->kernel_uses_scratch(handle);
  }
  kiln_held_end(h);
  if (!is_fine) Py_CLEAR(self);
  return self;
}

static PyObject *params_of(kiln_kernel_object *k) {
  if (k->params) return k->params;
  PyObject *tuple = PyTuple_New((Py_ssize_t)k->count);
  for (size_t i = 0; tuple && i < k->count; i++) {
    const kiln_parameter *p = &k->parameters[i];
    PyObject *one = kiln_result("Param", "(OOIIiiis)", p->name, p->type, p->offset, p->size, p->rank,
                                p->depth, p->access, p->element->name);
    if (!one) Py_CLEAR(tuple);
    else PyTuple_SetItem(tuple, (Py_ssize_t)i, one);
  }
  return k->params = tuple;
}

// "a: f32, x: *f32"; new.
static PyObject *heads_of(kiln_kernel_object *k) {
  PyObject *text = PyUnicode_FromString("");
  for (size_t i = 0; text && i < k->count; i++) {
    PyObject *more =
        PyUnicode_FromFormat("%U%s%U: %U", text, i ? ", " : "", k->parameters[i].name, k->parameters[i].type);
    Py_DECREF(text);
    text = more;
  }
  return text;
}

// ------------------------------------------------------------------------------------------- launch

// Without the GIL.
static kiln_status launch_block(const kiln_arguments *a, const kiln_scratch *scratch, kiln_error *err) {
  const kiln_api *c = a->kernel->device->held->c;
  kiln_kernel *handle = a->kernel->handle;
  size_t size = a->kernel->block_size;
  if (a->has_grid) return c->launch_grid(handle, a->stream, a->grid, a->block, size, err);
  if (!scratch->address) return c->launch_packed(handle, a->stream, a->block, size, err);
  return c->launch_scratch(handle, a->stream, a->block, size, scratch->address, scratch->bytes, err);
}

// False with an exception. The device is held.
static bool launch_now(kiln_arguments *a) {
  kiln_scratch scratch = {.tensor = NULL};
  kiln_error err;
  kiln_status status = KILN_OK;
  bool is_fine = !(a->kernel->uses_scratch || a->scratch_object) || kiln_scratch_take(a, &scratch);
  if (is_fine) {
    Py_BEGIN_ALLOW_THREADS status = launch_block(a, &scratch, &err);
    Py_END_ALLOW_THREADS if (status) kiln_raise(status, &err);
  }
  kiln_scratch_drop(&scratch);
  return is_fine && !status && (!a->written || kiln_torch_wrote(a->written));
}

bool kiln_arguments_launch(kiln_arguments *a) {
  kiln_held *h = a->kernel->device->held;
  bool is_begun = kiln_held_begin(h), is_fine = is_begun && launch_now(a);
  kiln_arguments_deinit(a); // what was closed meanwhile is freed before the device
  if (is_begun) kiln_held_end(h);
  return is_fine;
}

// Deinits `a`.
static PyObject *launch_arguments(kiln_arguments *a) {
  return kiln_arguments_launch(a) ? Py_NewRef(Py_None) : NULL;
}

// Makes the tensors for which there are no values. Without the GIL.
static bool make_all(kiln_arguments *a, kiln_new_tensor *made, size_t count) {
  bool is_made = true;
  size_t at = 0;
  for (size_t i = 0; is_made && i < a->kernel->count; i++) {
    if (a->values[i] || at == count) continue;
    void *data = NULL;
    is_made = kiln_handle_make(&made[at++], &data);
    memcpy(a->block + a->kernel->parameters[i].offset, &data, sizeof data);
  }
  return is_made;
}

int kiln_launch_making(kiln_kernel_object *k, PyObject *const *values, kiln_new_tensor *made, size_t count) {
  kiln_arguments a;
  a.is_lenient = false;
  if (!kiln_arguments_init(&a, k, values, k->count, NULL, NULL)) return -1;
  kiln_held *h = k->device->held;
  bool is_begun = kiln_held_begin(h), is_made = false;
  if (is_begun) {
    Py_BEGIN_ALLOW_THREADS is_made = make_all(&a, made, count);
    Py_END_ALLOW_THREADS
  }
  int result = !is_begun ? -1 : is_made ? launch_now(&a) ? 1 : -1 : 0;
  kiln_arguments_deinit(&a);
  if (is_begun) kiln_held_end(h);
  return result;
}

static PyObject *launch(kiln_kernel_object *k, PyObject *const *args, size_t flagged, PyObject *names,
                        const uint32_t *grid) {
  kiln_arguments a;
  a.is_lenient = false;
  if (!kiln_arguments_init(&a, k, args, (size_t)PyVectorcall_NARGS(flagged), names, grid)) return NULL;
  return launch_arguments(&a);
}

// How kiln.triton launches, which has Triton's manners: _launch(values, grid, stream). Pointers take tensors
// of any strides, those that require grad, and whatever has a data_ptr(); launches go to PyTorch's current
// stream.
static PyObject *kernel_launch_lenient(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  kiln_kernel_object *k = (kiln_kernel_object *)self;
  if (count != 3 || !PyList_Check(args[0]))
    return PyErr_SetString(PyExc_TypeError, "expected a list of values, a grid and a stream"), NULL;
  uint32_t grid[3];
  kiln_arguments a;
  a.is_lenient = true;
  PyObject *values[KILN_FEW], **these = values;
  size_t values_count = (size_t)PyList_Size(args[0]);
  if (!kiln_grid_of(k, args[1], grid)) return NULL;
  if (values_count + 1 > KILN_FEW) these = PyMem_Malloc((values_count + 1) * sizeof *these);
  if (!these) return PyErr_NoMemory();
  for (size_t i = 0; i < values_count; i++) these[i] = PyList_GetItem(args[0], (Py_ssize_t)i);
  these[values_count] = args[2];
  PyObject *names = args[2] == Py_None ? NULL : kiln_of.stream_name;
  PyObject *result =
      kiln_arguments_init(&a, k, these, values_count, names, grid) ? launch_arguments(&a) : NULL;
  if (these != values) PyMem_Free(these);
  return result;
}

static PyObject *kernel_call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names) {
  return launch((kiln_kernel_object *)self, args, flagged, names, NULL);
}

static PyObject *kernel_new_plain(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named)) {
  PyObject *device, *name;
  (void)type;
  if (!PyArg_ParseTuple(args, "O!U:Kernel", kiln_of.device, &device, &name)) return NULL;
  return kiln_kernel_new((kiln_device_object *)device, name);
}

static PyObject *kernel_choose(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  kiln_kernel_object *k = (kiln_kernel_object *)self;
  kiln_arguments a;
  a.is_lenient = false;
  if (!kiln_arguments_init(&a, k, args, (size_t)count, names, NULL)) return NULL;
  kiln_choice c;
  kiln_error err;
  kiln_status status = k->device->held->c->choose(k->handle, a.block, k->block_size, &c, &err);
  kiln_arguments_deinit(&a);
  if (status) return kiln_raise(status, &err);
  return kiln_result("Choice", "(ssss(III)IIIII)", c.config, c.variant, c.target, c.bundle, c.grid[0],
                     c.grid[1], c.grid[2], c.block_threads, c.shared_bytes, c.registers, c.spill_bytes,
                     c.rank);
}

static PyObject *kernel_prepare(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  return kiln_prepare_new((kiln_kernel_object *)self, args, (size_t)count, names);
}

static PyObject *kernel_preload(PyObject *self, PyObject *Py_UNUSED(none)) {
  kiln_kernel_object *k = (kiln_kernel_object *)self;
  if (!kiln_device_is_open(k->device)) return NULL;
  kiln_held *h = k->device->held;
  if (!kiln_held_begin(h)) return NULL;
  kiln_error err;
  kiln_status status;
  Py_BEGIN_ALLOW_THREADS status = h->c->preload(k->handle, &err);
  Py_END_ALLOW_THREADS kiln_held_end(h);
  if (status) return kiln_raise(status, &err);
  Py_RETURN_NONE;
}

// --------------------------------------------------------------------------------------- attributes

static PyObject *kernel_abi(PyObject *self, void *Py_UNUSED(closure)) {
  kiln_kernel_object *k = (kiln_kernel_object *)self;
  if (!kiln_device_is_open(k->device)) return NULL;
  return PyLong_FromUnsignedLongLong(k->device->held->c->kernel_abi(k->handle));
}

// Of @returns and @backward; `closure` says which.
static PyObject *kernel_statement(PyObject *self, void *closure) {
  kiln_kernel_object *k = (kiln_kernel_object *)self;
  if (!kiln_device_is_open(k->device)) return NULL;
  const kiln_api *c = k->device->held->c;
  const char *text = closure ? c->kernel_backward(k->handle) : c->kernel_returns(k->handle);
  if (!text) Py_RETURN_NONE;
  return kiln_text(text);
}

static PyObject *kernel_params(PyObject *self, void *Py_UNUSED(closure)) {
  PyObject *params = params_of((kiln_kernel_object *)self);
  Py_XINCREF(params);
  return params;
}

static PyObject *kernel_repr(PyObject *self) {
  kiln_kernel_object *k = (kiln_kernel_object *)self;
  PyObject *heads = heads_of(k);
  PyObject *text = heads && k->device
                       ? PyUnicode_FromFormat("<kiln.Kernel %U(%U) on %U>", k->name, heads, k->device->name)
                       : NULL;
  Py_XDECREF(heads);
  return text || PyErr_Occurred() ? text : PyUnicode_FromFormat("<kiln.Kernel %U>", k->name);
}

// What help() and editors show of this kernel.
static PyObject *kernel_doc(PyObject *self, void *Py_UNUSED(closure)) {
  kiln_kernel_object *k = (kiln_kernel_object *)self;
  PyObject *text = PyUnicode_FromFormat(
      "%U on %U. Call it with its arguments in order or by name; stream=, grid=, scratch= besides.\n",
      k->name, k->device ? k->device->name : k->name);
  static const char *const accesses[] = {"", "read", "written", "read and written", "added to"};
  for (size_t i = 0; text && i < k->count; i++) {
    const kiln_parameter *p = &k->parameters[i];
    const char *access = p->access < 5 ? accesses[p->access] : "";
    PyObject *more =
        PyUnicode_FromFormat("%U\n%U: %U%s%s", text, p->name, p->type, *access ? ", " : "", access);
    Py_DECREF(text);
    text = more;
  }
  return text;
}

static PyObject *kernel_signature(PyObject *self, void *Py_UNUSED(closure)) {
  PyObject *results = PyImport_ImportModule("kiln._results");
  PyObject *params = results ? params_of((kiln_kernel_object *)self) : NULL;
  PyObject *signature = params ? PyObject_CallMethod(results, "signature", "(O)", params) : NULL;
  Py_XDECREF(results);
  return signature;
}

static int kernel_traverse(PyObject *self, visitproc visit, void *arg) {
  kiln_kernel_object *k = (kiln_kernel_object *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(k->dict);
  Py_VISIT(k->device);
  return 0;
}

static int kernel_clear(PyObject *self) {
  kiln_kernel_object *k = (kiln_kernel_object *)self;
  Py_CLEAR(k->dict);
  Py_CLEAR(k->device);
  return 0;
}

static void kernel_drop(PyObject *self) {
  kiln_kernel_object *k = (kiln_kernel_object *)self;
  for (size_t i = 0; i < k->count; i++) {
    Py_CLEAR(k->parameters[i].name);
    Py_CLEAR(k->parameters[i].type);
  }
  PyMem_Free(k->parameters);
  PyMem_Free(k->sizes);
  Py_CLEAR(k->spare);
  Py_CLEAR(k->name);
  Py_CLEAR(k->params);
}

static void kernel_free(PyObject *self) {
  kiln_object_free(self, ((kiln_kernel_object *)self)->weak, kernel_clear, kernel_drop);
}

// ------------------------------------------------------------------------------------------ gridded

// kernel[grid], as people of Triton know it.
typedef struct gridded {
  PyObject_HEAD vectorcallfunc call;
  kiln_kernel_object *kernel;
  uint32_t grid[3];
} gridded;

static PyObject *gridded_call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names) {
  gridded *g = (gridded *)self;
  kiln_kernel_object *kernel = g->kernel;
  if (!kernel) return kiln_device_is_open(NULL), NULL;
  Py_INCREF((PyObject *)kernel);
  PyObject *result = launch(kernel, args, flagged, names, g->grid);
  Py_DECREF(kernel);
  return result;
}

static PyObject *kernel_item(PyObject *self, PyObject *grid) {
  gridded *g = (gridded *)PyType_GenericAlloc(kiln_of.gridded, 0);
  if (!g) return NULL;
  g->call = gridded_call;
  g->kernel = (kiln_kernel_object *)Py_NewRef(self);
  if (!kiln_grid_of(g->kernel, grid, g->grid)) Py_CLEAR(g);
  return (PyObject *)g;
}

KILN_COLLECTED(gridded, NULL, offsetof(gridded, kernel))

static PyMemberDef gridded_members[] = {
    KILN_CALL_OF(gridded),
    {0},
};
static PyType_Slot gridded_slots[] = {
    {Py_tp_doc, "A kernel with a grid. Made by kernel[grid]."},
    KILN_COLLECTED_SLOTS(gridded),
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, gridded_members},
    {0, NULL},
};
PyType_Spec kiln_gridded_spec = {"kiln.GriddedKernel", sizeof(gridded), 0,
                                 KILN_CALLED | Py_TPFLAGS_DISALLOW_INSTANTIATION, gridded_slots};

// -------------------------------------------------------------------------------------------- kernel

static PyMethodDef methods[] = {
    {"choose", (PyCFunction)(void (*)(void))kernel_choose, METH_FASTCALL | METH_KEYWORDS,
     "choose($self, *arguments, **named)\n--\n\nWhat a launch with these arguments would run, as a Choice."},
    {"prepare", (PyCFunction)(void (*)(void))kernel_prepare, METH_FASTCALL | METH_KEYWORDS,
     "prepare($self, *arguments, grid=None, **named)\n--\n\nA launch with everything decided before, as a "
     "Prepared; "
     "call "
     "that to launch."},
    {"_launch", (PyCFunction)(void (*)(void))kernel_launch_lenient, METH_FASTCALL, NULL},
    {"preload", kernel_preload, METH_NOARGS,
     "preload($self)\n--\n\nLoads every code that the device could launch: needed before a graph is "
     "captured."},
    {"__reduce__", kiln_pickle, METH_NOARGS, NULL},
    {0},
};
static PyGetSetDef getters[] = {
    {"abi", kernel_abi, NULL, "The number of the parameter list; the same as in headers by `kiln header`.",
     NULL},
    {"returns", kernel_statement, NULL,
     "What a caller may allocate, as the source states it (@returns): \"y[rows, cols], rstd[rows]\"; or "
     "None.",
     NULL},
    {"backward", kernel_statement, NULL, "The name of the kernel of its derivatives (@backward); or None.",
     (void *)1},
    {"params", kernel_params, NULL, "The parameters, as a tuple of Param.", NULL},
    {"__doc__", kernel_doc, NULL, NULL, NULL},
    {"__signature__", kernel_signature, NULL, NULL, NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {0},
};
static PyMemberDef members[] = {
    {"name", T_OBJECT_EX, offsetof(kiln_kernel_object, name), READONLY, "\"softmax[T=f32]\""},
    {"__name__", T_OBJECT_EX, offsetof(kiln_kernel_object, name), READONLY, NULL},
    {"device", T_OBJECT_EX, offsetof(kiln_kernel_object, device), READONLY, "The device it runs on."},
    KILN_CALL_OF(kiln_kernel_object),
    {"__dictoffset__", T_PYSSIZET, offsetof(kiln_kernel_object, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(kiln_kernel_object, weak), READONLY, NULL},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_new, kernel_new_plain},
    {Py_tp_dealloc, kernel_free},
    {Py_tp_traverse, kernel_traverse},
    {Py_tp_clear, kernel_clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_repr, kernel_repr},
    {Py_mp_subscript, kernel_item},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_members, members},
    {0, NULL},
};
PyType_Spec kiln_kernel_spec = {"kiln.Kernel", sizeof(kiln_kernel_object), 0, KILN_CALLED, slots};
