// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches a @triton.jit function that was launched before with arguments of the same kind: the call of
// kiln.triton.Jit. A table maps the kinds of all arguments to the compiled kernel. A kind is at least as
// fine as Triton's own distinction, so a hit is always right. Everything that is not plain (tuples,
// descriptors, hooks, given streams) goes to Python, which compiles, launches and says by `guards` how long
// that answer holds. A hit makes no object except the list of tensors that are written.
#include "python/extension/extension.h"

#include <string.h>

enum { MOST_PARAMETERS = 64, MOST_OPTIONS = 8, MOST_ENTRIES = 1 << 14 };
enum { MOST_WORDS = 2 * MOST_PARAMETERS + 3 * MOST_OPTIONS, MOST_REFS = MOST_PARAMETERS + 2 * MOST_OPTIONS };

// ------------------------------------------------------------------------------------------- plans

/// How one compiled variant is launched.
typedef struct plan {
  PyObject_HEAD kiln_kernel_object *kernel;
  PyObject *compiled; ///< what a launch gives
  PyObject *counter;  ///< of launches
  size_t *sources;    ///< owned: for each parameter of the kernel that of the function
} plan;

// Plan(kernel, compiled, sources, counter)
static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named)) {
  PyObject *kernel, *compiled, *sources, *counter;
  if (!PyArg_ParseTuple(args, "O!OO!O!:Plan", kiln_of.kernel, &kernel, &compiled, &PyTuple_Type, &sources,
                        kiln_of.counter, &counter))
    return NULL;
  kiln_kernel_object *k = (kiln_kernel_object *)kernel;
  if ((size_t)PyTuple_Size(sources) != k->count)
    return PyErr_Format(PyExc_ValueError, "%U: expected %zu sources, found %zd", k->name, k->count,
                        PyTuple_Size(sources));
  plan *p = (plan *)PyType_GenericAlloc(type, 0);
  if (!p) return NULL;
  p->kernel = (kiln_kernel_object *)Py_NewRef(kernel);
  p->compiled = Py_NewRef(compiled);
  p->counter = Py_NewRef(counter);
  p->sources = PyMem_Calloc(k->count + 1, sizeof *p->sources);
  if (!p->sources) PyErr_NoMemory();
  for (size_t i = 0; p->sources && i < k->count; i++)
    p->sources[i] = PyLong_AsSize_t(PyTuple_GetItem(sources, (Py_ssize_t)i));
  if (PyErr_Occurred()) Py_CLEAR(p);
  return (PyObject *)p;
}

static void plan_drop(PyObject *self) { PyMem_Free(((plan *)self)->sources); }

KILN_COLLECTED(plan, plan_drop, offsetof(plan, kernel), offsetof(plan, compiled), offsetof(plan, counter))

static PyType_Slot plan_slots[] = {
    {Py_tp_doc,
     "Plan(kernel, compiled, sources, counter): how a variant is launched that kiln.triton compiled."},
    {Py_tp_new, plan_new},
    KILN_COLLECTED_SLOTS(plan),
    {0, NULL},
};
PyType_Spec kiln_plan_spec = {"kiln.Plan", sizeof(plan), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                              plan_slots};

// ------------------------------------------------------------------------------------------- table

typedef struct entry {
  uint64_t hash, *words; ///< owned; NULL: none
  size_t count;
  PyObject *refs; ///< owned, a tuple: strings, which are compared, and what else the words have as addresses
  PyObject *guards; ///< owned, a tuple
  plan *plan;       ///< owned
} entry;

typedef struct variants {
  PyObject_HEAD vectorcallfunc call;
  PyObject *weak;
  PyObject *compile;  ///< the way through Python: takes the arguments, grid= and all else
  PyObject *guards;   ///< guards(compiled): a tuple, or None where the answer is for once
  PyObject *names;    ///< interned
  PyObject *defaults; ///< a dict by name
  PyObject *atoms;    ///< a type whose objects are told apart by identity
  size_t count;
  uint64_t constants; ///< bits of parameters
  entry *entries;
  size_t capacity, used; ///< a power of two, at most half of it used
  unsigned long long launches;
} variants;

/// The arguments of one call and their kinds.
typedef struct call {
  variants *v;
  PyObject *values[MOST_PARAMETERS]; // borrowed
  uint64_t addresses[MOST_PARAMETERS];
  uint64_t tensors; // bits
  uint64_t words[MOST_WORDS];
  size_t word_count;
  PyObject *refs[MOST_REFS]; // borrowed
  size_t ref_count;
} call;

static uint64_t hash_of(const call *c) {
  uint64_t hash = c->word_count;
  for (size_t i = 0; i < c->word_count; i++) {
    hash = (hash ^ c->words[i]) * UINT64_C(0x9e3779b97f4a7c15); // 2^64 / golden ratio
    hash ^= hash >> 29;
  }
  return hash;
}

static bool are_equal(const entry *e, const call *c) {
  for (size_t i = 0; i < c->ref_count; i++) {
    PyObject *kept = PyTuple_GetItem(e->refs, (Py_ssize_t)i);
    if (kept == c->refs[i]) continue;
    if (!PyUnicode_CheckExact(kept) || !PyUnicode_CheckExact(c->refs[i]) ||
        PyUnicode_Compare(kept, c->refs[i]))
      return false;
  }
  return true;
}

/// The entry of the call, or the free one where it would be.
static entry *place_of(const variants *v, uint64_t hash, const call *c) {
  for (size_t at = hash & (v->capacity - 1);; at = (at + 1) & (v->capacity - 1)) {
    entry *e = &v->entries[at];
    if (!e->words || (e->hash == hash && e->count == c->word_count &&
                      !memcmp(e->words, c->words, c->word_count * sizeof *c->words) && are_equal(e, c)))
      return e;
  }
}

static bool grow(variants *v) {
  size_t capacity = v->capacity ? 2 * v->capacity : 8;
  entry *entries = PyMem_Calloc(capacity, sizeof *entries);
  if (!entries) return PyErr_NoMemory(), false;
  for (size_t i = 0; i < v->capacity; i++) {
    if (!v->entries[i].words) continue;
    size_t at = v->entries[i].hash & (capacity - 1);
    while (entries[at].words) at = (at + 1) & (capacity - 1);
    entries[at] = v->entries[i];
  }
  PyMem_Free(v->entries);
  v->entries = entries;
  v->capacity = capacity;
  return true;
}

// --------------------------------------------------------------------------------------- arguments

typedef enum kind { IS_TENSOR = 1, IS_INTEGER, IS_TRUTH, IS_FLOAT, IS_NONE, IS_TEXT, IS_ATOM } kind;
enum { KIND_MASK = 0xF };

/// The kind of a value as two words; false: only Python knows. `is_constant`: its value tells it apart.
static bool take_kind(call *c, PyObject *value, bool is_constant, size_t index) {
  uint64_t *w = &c->words[c->word_count];
  c->word_count += 2;
  w[1] = 0;
  if (value == Py_None) return w[0] = IS_NONE, true;
  if (PyBool_Check(value)) return w[0] = IS_TRUTH, w[1] = value == Py_True, true;
  if (PyLong_CheckExact(value)) {
    int overflow;
    long long n = PyLong_AsLongLongAndOverflow(value, &overflow);
    w[0] = IS_INTEGER | (uint64_t)(n == (int32_t)n) << 8 | (uint64_t)(n % 16 == 0) << 9;
    w[1] = is_constant || n == 1 ? (uint64_t)n : 0;
    return !overflow;
  }
  if (PyFloat_CheckExact(value)) {
    double number = PyFloat_AsDouble(value);
    w[0] = IS_FLOAT;
    if (is_constant) memcpy(&w[1], &number, sizeof number);
    return true;
  }
  if (is_constant) {
    bool is_text = PyUnicode_CheckExact(value);
    if (!is_text && (PyObject *)Py_TYPE(value) != c->v->atoms) return false;
    w[0] = is_text ? IS_TEXT : IS_ATOM;
    w[1] = is_text ? (uint64_t)PyObject_Hash(value) : (uintptr_t)value;
    c->refs[c->ref_count++] = value;
    return true;
  }
  kiln_array array;
  kiln_hold hold = {HOLDS_NOTHING};
  if (!kiln_torch_dense(value, &array)) {
    if (!kiln_torch_is_exact(value) || kiln_torch_array(value, false, &array, &hold) != 1)
      return PyErr_Clear(), false;
    kiln_hold_drop(&hold);
  }
  w[0] = IS_TENSOR | (uint64_t)array.place << 8 | (uint64_t)(array.address % 16 == 0) << 16 |
         (uint64_t)array.type << 32;
  w[1] = (uint64_t)array.index;
  c->addresses[index] = array.address;
  c->tensors |= UINT64_C(1) << index;
  return true;
}

static size_t find_name(const variants *v, PyObject *name) {
  for (size_t i = 0; i < v->count; i++)
    if (PyTuple_GetItem(v->names, (Py_ssize_t)i) == name) return i;
  for (size_t i = 0; i < v->count; i++)
    if (!PyUnicode_Compare(PyTuple_GetItem(v->names, (Py_ssize_t)i), name)) return i;
  return v->count;
}

/// An option of the launch, num_warps=8.
static bool take_option(call *c, PyObject *name, PyObject *value) {
  if (kiln_is_name(name, "stream") || c->word_count == 3 * MOST_OPTIONS) return false;
  c->words[c->word_count++] = (uint64_t)PyObject_Hash(name);
  c->refs[c->ref_count++] = name;
  return take_kind(c, value, true, 0);
}

/// Arguments in order with their kinds; false where only Python can tell. `names` may have grid= and warmup=,
/// whose values are passed over.
static bool take_call(call *c, variants *v, PyObject *const *args, size_t count, PyObject *names) {
  size_t named = (size_t)kiln_named(names);
  c->v = v;
  c->word_count = c->ref_count = 0;
  c->tensors = 0;
  if (count > v->count || v->count > MOST_PARAMETERS) return false;
  for (size_t i = 0; i < v->count; i++) c->values[i] = i < count ? args[i] : NULL;
  for (size_t i = 0; i < named; i++) {
    PyObject *name = PyTuple_GetItem(names, (Py_ssize_t)i);
    size_t at = find_name(v, name);
    if (at < v->count && c->values[at]) return false;
    if (at < v->count) c->values[at] = args[count + i];
    else if (!kiln_is_name(name, "grid") && !kiln_is_name(name, "warmup") &&
             !take_option(c, name, args[count + i]))
      return false;
  }
  for (size_t i = 0; i < v->count; i++) {
    if (!c->values[i])
      c->values[i] = PyDict_GetItemWithError(v->defaults, PyTuple_GetItem(v->names, (Py_ssize_t)i));
    if (!c->values[i] || !take_kind(c, c->values[i], v->constants >> i & 1, i)) return false;
  }
  return c->tensors != 0; // without a tensor the current device decides
}

// A guard is a dict, a key and the very object that it has to have there (... : none), or a list that has to
// be empty, and two that say nothing.
static bool holds(PyObject *guards) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(guards); i += 3) {
    PyObject *in = PyTuple_GetItem(guards, i), *wanted = PyTuple_GetItem(guards, i + 2);
    if (PyList_Check(in)) {
      if (PyList_Size(in)) return false;
      continue;
    }
    PyObject *found = PyDict_GetItemWithError(in, PyTuple_GetItem(guards, i + 1));
    if (found != (wanted == Py_Ellipsis ? NULL : wanted)) return false;
  }
  return true;
}

// ------------------------------------------------------------------------------------------ launch

unsigned long long kiln_launched;

static bool take_grid(const call *c, kiln_kernel_object *k, PyObject *grid, uint32_t *out) {
  if (PyTuple_Check(grid) || PyLong_Check(grid) || !PyCallable_Check(grid)) return kiln_grid_of(k, grid, out);
  PyObject *bound = PyDict_New(), *found = NULL;
  bool is_fine = bound != NULL;
  for (size_t i = 0; is_fine && i < c->v->count; i++)
    is_fine = !PyDict_SetItem(bound, PyTuple_GetItem(c->v->names, (Py_ssize_t)i), c->values[i]);
  if (is_fine) found = PyObject_CallFunctionObjArgs(grid, bound, NULL);
  is_fine = found && kiln_grid_of(k, found, out);
  Py_XDECREF(bound);
  Py_XDECREF(found);
  return is_fine;
}

/// The block of arguments; tensors that are written go into a list.
static bool pack(const call *c, const plan *p, uint8_t *block, PyObject **written) {
  const kiln_kernel_object *k = p->kernel;
  memset(block, 0, k->block_size);
  for (size_t i = 0; i < k->count; i++) {
    const kiln_parameter *to = &k->parameters[i];
    size_t from = p->sources[i];
    PyObject *value = c->values[from];
    if (!(c->tensors >> from & 1)) {
      if (!kiln_scalar_pack(to->element, value, block + to->offset)) return kiln_argument_name(k, to), false;
      continue;
    }
    memcpy(block + to->offset, &c->addresses[from], 8);
    if (to->access < 2) continue;
    if (!kiln_list_add(written, p->kernel, value)) return false;
  }
  return true;
}

static bool launch(const call *c, plan *p, PyObject *grid_object) {
  kiln_kernel_object *k = p->kernel;
  _Alignas(16) uint8_t block[KILN_MOST_BLOCK];
  uint32_t grid[3];
  kiln_stream stream = NULL;
  PyObject *written = NULL;
  if (!k || !kiln_device_is_open(k->device) || !take_grid(c, k, grid_object, grid)) return false;
  if (k->device->place & (BY_CUDA | BY_HIP) && !kiln_torch_stream(k->device, &stream)) return false;
  bool is_fine = pack(c, p, block, &written) && kiln_held_begin(k->device->held);
  if (is_fine) {
    kiln_held *h = k->device->held;
    kiln_error err;
    kiln_status status;
    Py_BEGIN_ALLOW_THREADS status = h->c->launch_grid(k->handle, stream, grid, block, k->block_size, &err);
    Py_END_ALLOW_THREADS kiln_held_end(h);
    if (status) kiln_raise(status, &err);
    is_fine = !status && (!written || kiln_torch_wrote(written));
  }
  kiln_list_keep(k, written);
  if (!is_fine) return false;
  kiln_count(p->counter);
  c->v->launches++;
  kiln_launched++;
  return true;
}

/// Whether the kinds are what a plan of numbers and tensors takes.
static bool is_plain(const call *c, const plan *p) {
  for (size_t i = 0; p->kernel && i < p->kernel->count; i++) {
    const kiln_parameter *to = &p->kernel->parameters[i];
    if (p->sources[i] >= c->v->count || to->rank || to->depth > 1) return false;
    PyObject *value = c->values[p->sources[i]];
    bool is_number = PyLong_Check(value) || PyFloat_Check(value), is_tensor = c->tensors >> p->sources[i] & 1;
    if (to->depth ? !is_tensor : !is_number) return false;
  }
  return p->kernel != NULL;
}

/// Keeps what Python compiled for the call.
static bool keep(const call *c, PyObject *compiled) {
  variants *v = c->v;
  PyObject *found = PyObject_GetAttrString(compiled, "plan"), *guards = NULL;
  if (found && (PyObject *)Py_TYPE(found) == (PyObject *)kiln_of.plan && is_plain(c, (plan *)found))
    guards = PyObject_CallFunctionObjArgs(v->guards, compiled, NULL);
  if (!guards || !PyTuple_Check(guards) || PyTuple_Size(guards) % 3 || v->used >= MOST_ENTRIES) {
    Py_XDECREF(found);
    Py_XDECREF(guards);
    return !PyErr_Occurred();
  }
  entry made = {.hash = hash_of(c), .count = c->word_count, .plan = (plan *)found, .guards = guards};
  made.words = PyMem_Malloc(c->word_count * sizeof *made.words + 1);
  made.refs = kiln_tuple_of(c->refs, c->ref_count);
  bool is_fine = made.words && made.refs && (2 * v->used < v->capacity || grow(v));
  if (made.words) memcpy(made.words, c->words, c->word_count * sizeof *made.words);
  entry old = made; // dropped
  if (is_fine) {
    entry *e = place_of(v, made.hash, c);
    old = *e;
    v->used += !old.words;
    *e = made;
  } else if (!PyErr_Occurred()) PyErr_NoMemory();
  PyMem_Free(old.words);
  Py_XDECREF(old.refs);
  Py_XDECREF(old.guards);
  Py_XDECREF((PyObject *)old.plan);
  return is_fine;
}

/// The way through Python. `grid` NULL: it is among the named ones, or missing.
static PyObject *call_python(variants *v, PyObject *const *args, size_t count, PyObject *names,
                             PyObject *grid) {
  size_t named = (size_t)kiln_named(names);
  if (!grid) return PyObject_Vectorcall(v->compile, args, count, names);
  PyObject **all = PyMem_Malloc((count + named + 1) * sizeof *all);
  PyObject *all_names = PyTuple_New((Py_ssize_t)named + 1), *result = NULL;
  for (size_t i = 0; all_names && i <= named; i++) {
    PyObject *name =
        i < named ? PyTuple_GetItem(names, (Py_ssize_t)i) : PyTuple_GetItem(kiln_of.grid_name, 0);
    PyTuple_SetItem(all_names, (Py_ssize_t)i, Py_NewRef(name));
  }
  if (!all) PyErr_NoMemory();
  if (all && all_names) {
    memcpy(all, args, (count + named) * sizeof *all);
    all[count + named] = grid;
    result = PyObject_Vectorcall(v->compile, all, count, all_names);
  }
  PyMem_Free(all);
  Py_XDECREF(all_names);
  return result;
}

static PyObject *run(variants *v, PyObject *const *args, size_t count, PyObject *names, PyObject *grid) {
  call c;
  PyObject *among = grid;
  bool is_warmup = false;
  for (size_t i = 0; i < (size_t)kiln_named(names); i++) {
    PyObject *name = PyTuple_GetItem(names, (Py_ssize_t)i);
    if (kiln_is_name(name, "grid") && !grid) among = args[count + i];
    else if (kiln_is_name(name, "warmup")) is_warmup = args[count + i] != Py_False;
  }
  if (is_warmup || !among || among == Py_None || !take_call(&c, v, args, count, names))
    return call_python(v, args, count, names, grid);
  entry *e = v->capacity ? place_of(v, hash_of(&c), &c) : NULL;
  if (e && e->words && holds(e->guards)) {
    plan *p = e->plan; // the table may change meanwhile
    Py_INCREF((PyObject *)p);
    PyObject *compiled = launch(&c, p, among) ? p->compiled : NULL;
    Py_XINCREF(compiled);
    Py_DECREF((PyObject *)p);
    return compiled;
  }
  if (PyErr_Occurred()) return NULL;
  PyObject *compiled = call_python(v, args, count, names, grid);
  if (compiled && compiled != Py_None && !keep(&c, compiled)) Py_CLEAR(compiled);
  return compiled;
}

static PyObject *variants_call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names) {
  return run((variants *)self, args, (size_t)PyVectorcall_NARGS(flagged), names, NULL);
}

// ----------------------------------------------------------------------------------------- the type

// Variants(compile, guards, names, constants, defaults, atoms)
static PyObject *variants_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named)) {
  PyObject *compile, *guards, *names, *constants, *defaults, *atoms;
  if (!PyArg_ParseTuple(args, "OOO!O!O!O:Variants", &compile, &guards, &PyTuple_Type, &names, &PyTuple_Type,
                        &constants, &PyDict_Type, &defaults, &atoms))
    return NULL;
  variants *v = (variants *)PyType_GenericAlloc(type, 0);
  if (!v) return NULL;
  kiln_torch_is_used(); // so that the first call knows tensors
  v->call = variants_call;
  v->compile = Py_NewRef(compile);
  v->guards = Py_NewRef(guards);
  v->names = Py_NewRef(names);
  v->defaults = Py_NewRef(defaults);
  v->atoms = Py_NewRef(atoms);
  v->count = (size_t)PyTuple_Size(names);
  for (Py_ssize_t i = 0; i < PyTuple_Size(constants); i++) {
    size_t at = PyLong_AsSize_t(PyTuple_GetItem(constants, i));
    v->constants |= at < MOST_PARAMETERS ? UINT64_C(1) << at : 0;
  }
  if (PyErr_Occurred()) Py_CLEAR(v);
  return (PyObject *)v;
}

static int variants_traverse(PyObject *self, visitproc visit, void *arg) {
  variants *v = (variants *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(v->compile);
  Py_VISIT(v->guards);
  Py_VISIT(v->names);
  Py_VISIT(v->defaults);
  Py_VISIT(v->atoms);
  for (size_t i = 0; i < v->capacity; i++) {
    Py_VISIT(v->entries[i].refs);
    Py_VISIT(v->entries[i].guards);
    Py_VISIT(v->entries[i].plan);
  }
  return 0;
}

static int variants_clear(PyObject *self) {
  variants *v = (variants *)self;
  entry *entries = v->entries;
  size_t capacity = v->capacity;
  v->entries = NULL;
  v->capacity = v->used = 0;
  for (size_t i = 0; i < capacity; i++) {
    PyMem_Free(entries[i].words);
    Py_CLEAR(entries[i].refs);
    Py_CLEAR(entries[i].guards);
    Py_CLEAR(entries[i].plan);
  }
  PyMem_Free(entries);
  Py_CLEAR(v->compile);
  Py_CLEAR(v->guards);
  Py_CLEAR(v->names);
  Py_CLEAR(v->defaults);
  Py_CLEAR(v->atoms);
  v->count = 0;
  return 0;
}

static void variants_free(PyObject *self) {
  kiln_object_free(self, ((variants *)self)->weak, variants_clear, NULL);
}

// variants[grid], to be called.
typedef struct with_grid {
  PyObject_HEAD vectorcallfunc call;
  PyObject *variants, *grid;
} with_grid;

static PyObject *with_grid_call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names) {
  with_grid *g = (with_grid *)self;
  variants *v = (variants *)g->variants;
  if (!v || !v->compile) return PyErr_SetString(PyExc_ValueError, "this function has ended"), NULL;
  Py_INCREF(self);
  PyObject *result = run(v, args, (size_t)PyVectorcall_NARGS(flagged), names, g->grid);
  Py_DECREF(self);
  return result;
}

static PyObject *variants_item(PyObject *self, PyObject *grid) {
  with_grid *g = (with_grid *)PyType_GenericAlloc(kiln_of.with_grid, 0);
  if (!g) return NULL;
  g->call = with_grid_call;
  g->variants = Py_NewRef(self);
  g->grid = Py_NewRef(grid);
  return (PyObject *)g;
}

KILN_COLLECTED(with_grid, NULL, offsetof(with_grid, variants), offsetof(with_grid, grid))

static PyMemberDef with_grid_members[] = {
    KILN_CALL_OF(with_grid),
    {0},
};
static PyType_Slot with_grid_slots[] = {
    {Py_tp_doc, "A @triton.jit function with a grid."},
    KILN_COLLECTED_SLOTS(with_grid),
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, with_grid_members},
    {0, NULL},
};
PyType_Spec kiln_with_grid_spec = {"kiln.WithGrid", sizeof(with_grid), 0,
                                   KILN_CALLED | Py_TPFLAGS_DISALLOW_INSTANTIATION, with_grid_slots};

static PyObject *variants_launched(PyObject *Py_UNUSED(type), PyObject *Py_UNUSED(none)) {
  return PyLong_FromUnsignedLongLong(kiln_launched);
}

static PyObject *variants_count(PyObject *self, PyObject *Py_UNUSED(none)) {
  ((variants *)self)->launches++;
  return Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"count", variants_count, METH_NOARGS, "count()\n--\n\nCounts a launch that went through Python."},
    {"launched", variants_launched, METH_NOARGS | METH_STATIC,
     "launched()\n--\n\nHow many launches of the process did not go through Python; a fork goes on "
     "counting."},
    {0},
};
static PyMemberDef members[] = {
    {"launches", T_ULONGLONG, offsetof(variants, launches), READONLY, "How many launches there were."},
    KILN_CALL_OF(variants),
    {"__weaklistoffset__", T_PYSSIZET, offsetof(variants, weak), READONLY, NULL},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "Variants(compile, guards, names, constants, defaults, atoms): what a @triton.jit function "
                "was compiled to, by the kinds of its arguments."},
    {Py_tp_new, variants_new},
    {Py_tp_dealloc, variants_free},
    {Py_tp_traverse, variants_traverse},
    {Py_tp_clear, variants_clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_mp_subscript, variants_item},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};
PyType_Spec kiln_variants_spec = {"kiln.Variants", sizeof(variants), 0, KILN_CALLED, slots};
