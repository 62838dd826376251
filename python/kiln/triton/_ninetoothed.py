# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Kiln is to NineToothed's build ahead of time (ninetoothed.make with another caller than "torch", and ninetoothed.build). NineToothed compiles variants of a
kernel to cubins, writes C++ that chooses among them, and runs nvcc. Here the variants are kernels of one bundle, NAME.kbundle, with a note that says which one
a launch takes; what `make` returns reads that and needs no compiler of C++. For callers in C++, NAME.cpp does the same over libkiln and is not compiled here."""
import ast
import csv
import functools
import importlib
import importlib.metadata
import json
import os
import re
import tempfile
import typing

import ninetoothed.naming as naming
from ninetoothed.tensor import Tensor

from . import _bundles, _compilation, _devices, _index, _inductor, _monitor
from .._errors import Error, NotFound

NOTE = "ninetoothed "  # and the name of a kernel: the key of a note
TESTED = "0.26"
_AOT = ("_build_variant", "_generate_dispatcher", "_compile_library", "_load_launch_func", "_KernelLaunchError", "_HEADER_PATH")  # of ninetoothed.aot
_BUILD = ("_make", "_load_cached", "_load_launch_func", "_fingerprint_matches", "_read_auto_tuning_cache", "_arg_to_int", "_AutoTunedKernel")  # of ninetoothed.build
_INT32 = 1 << 31
ALIGNED = 16


# ------------------------------------------------------------------------------------------ variants

class Variant(typing.NamedTuple):
    """A kernel that a launch may take, and what it gives it. `when` is what has to be true, [(tensor, "data" | "shape" | "strides", dimension, "%16" | "==1")];
    a wide one takes extents and strides of more than 32 bits; `gives` are its arguments, [(tensor, "data" | "shape" | "strides" | "value", dimension)]."""
    name: str
    when: list
    is_wide: bool
    gives: list
    source: object
    options: object
    read_for: object
    target: str


_pending = {}  # by the name of a kernel: its variants, then also what chooses among them
_made = {}  # by the path of a bundle that was not written, since bundles that are loaded have all variants: (its note, {variant: its code})
_built = []  # what save() writes


def kernels():
    """(name, IR, facts of the launch, facts of its key, target) of all that was compiled here."""
    return list(_built)


def _parameter(name, launched):
    """(tensor, "data" | "shape" | "strides", dimension) of a parameter of a kernel; None where it is a number."""
    for pattern, what in ((Tensor.pointer_pattern(), "data"), (Tensor.size_pattern(), "shape"), (Tensor.stride_pattern(), "strides")):
        found = pattern.fullmatch(name)
        if found:
            return _argument(found.group(1), launched), what, int(found.group(3)) if what != "data" else 0
    return None


def _argument(name, launched):
    """The number of the argument of a launch that a parameter belongs to."""
    bare = [naming.remove_prefixes(one) for one in launched]
    if naming.remove_prefixes(name) not in bare:
        raise Error("expected parameters of the tensors %s, found '%s'" % (", ".join(launched), name))
    return bare.index(naming.remove_prefixes(name))


def _variant(kernel, parameters, launched, tensors, settings, divisible, contiguous, sizes, strides, suffix, is_aligned):
    """One kernel. What NineToothed only hopes for (aligned pointers, strides that are multiples of 16) is promised where `is_aligned`, and asked before a launch."""
    signature, constants, promises, when, gives = {}, {}, {}, [], []
    for number, name in enumerate(parameters):
        place = _parameter(name, launched)
        if place is None:
            tensor = tensors[_argument(name, launched)]
            if tensor.constexpr:
                signature[name], constants[name] = "constexpr", tensor.value
            else:
                kind = str(tensor.source.dtype)
                signature[name] = "fp64" if kind == "fp32" else kind  # as NineToothed has it: callers give a double
                gives.append((_argument(name, launched), "value", 0))
            continue
        at, what, dimension = place
        if what == "strides" and (at, dimension) in contiguous:
            signature[name], constants[name] = "constexpr", 1
            when.append((*place[:2], dimension, "==1"))
            continue
        signature[name] = "*%s" % tensors[at].source.dtype if what == "data" else str(sizes if what == "shape" else strides)
        gives.append(place)
        if is_aligned if what != "shape" else (at, dimension) in divisible:
            promises[number] = [["tt.divisibility", ALIGNED]]
            when.append((*place, "%16"))
    source = _compilation.source_of(kernel, signature, constants, {(at,): promise for at, promise in promises.items()})
    read_for, target, options = _inductor.asked_for(source, None, settings)
    return Variant("%s_%s" % (kernel.__name__, suffix), when, str(sizes) == "i64", gives, source, options, read_for, target)


def _build_variant(source_file, kernel_func, launch_func, tensors, find_tensor, func, *, kernel_name, variant_suffix, grid, num_warps, num_stages, divisibility_spec,
                   contiguity_spec, size_type="i32", stride_type="i32"):
    """In place of NineToothed's function of that name. It returns no files: the variants are compiled together."""
    from ninetoothed.jit import import_from_path
    launched = [one.arg for one in launch_func.args.args]
    divisible, contiguous = ({(_argument(name, launched), dimension) for name, dimension in spec} for spec in (divisibility_spec, contiguity_spec))
    kernel = vars(import_from_path(str(source_file), str(source_file)))[kernel_name]
    about = (kernel, [one.arg for one in kernel_func.args.args], launched, [find_tensor(tensors, name) for name in launched],
             {"num_warps": num_warps, "num_stages": num_stages}, divisible, contiguous, size_type, stride_type)
    found = _pending.setdefault(kernel_name, {"grid": grid, "variants": []})["variants"]
    is_wide = str(size_type) == "i64"
    if not is_wide:
        found.append(_variant(*about, variant_suffix, is_aligned=True))
    if not divisible:
        found.append(_variant(*about, variant_suffix + ("" if is_wide else "_unaligned"), is_aligned=False))
    return {}


def _ordered(variants):
    """As a launch tries them: wide ones first, those that promise the least last."""
    return sorted(variants, key=lambda one: (not one.is_wide, one.name.endswith("_unaligned")))


# ------------------------------------------------------------------------------------------ bundles

def _targets():
    return _bundles.targets_wanted() or [_inductor.target_here()]


def _path_of(kernel_name, output_dir):
    return os.path.join(os.path.abspath(os.fspath(output_dir)), kernel_name + ".kbundle")


def _note(launched, grid, variants):
    return {"arguments": list(launched), "grid": grid.rsplit(", 1, 1", 1)[0], "extents": _extents(grid, launched), "variants": [
        {"kernel": one.name, "when": one.when, "wide": one.is_wide, "gives": one.gives} for one in variants]}


def _extents(grid, launched):
    """{name in the text of a grid: (tensor, "shape" | "strides", dimension)}."""
    names = {node.id for node in ast.walk(ast.parse("(%s)" % grid, mode="eval")) if isinstance(node, ast.Name)}
    found = {name: _parameter(name, launched) for name in sorted(names)}
    unknown = next((name for name, place in found.items() if place is None or place[1] == "data"), None)
    if unknown:
        raise Error("the grid %s: expected extents and strides of tensors, found '%s'" % (grid, unknown))
    return found


def _in_bundles(variants):
    """{name: code} where bundles that are loaded have all of them; None where Kiln is to compile."""
    if not _bundles.paths():
        return None
    found = {}
    for one in variants:
        keys = _index.facts_of(one.source, one.options, one.read_for)
        code, reason = _bundles.find(keys, one.target)
        if code is None:
            if _bundles.is_triton(keys, reason, one.target):
                raise Error("miss='triton': NineToothed's build ahead of time is Kiln's or Triton's as a whole, expected miss='compile' or 'error'. No code: " + reason)
            return None
        found[one.name] = code
    return found


def _compile_library(kernel_name, output_dir):
    """In place of nvcc: writes the bundle, and the C++ that is for others."""
    path = _path_of(kernel_name, output_dir)
    entry = _pending.pop(kernel_name, None)
    if entry is None:
        return _join(kernel_name, path)
    note, variants = entry["note"], entry["variants"]
    codes = _in_bundles(variants)
    if codes is not None:
        _made[path] = note, codes
        return None
    found, rows = [], []
    for one in variants:
        text, facts = _compilation.triton_ir(one.source, one.options, one.read_for)
        keys = _index.facts_of(one.source, one.options, one.read_for)
        rows.append((one.name, _compilation.renamed(text, one.name), facts, keys, one.target))
        found.append((*rows[-1][:3], [keys]))
    _bundles.write(found, _targets(), path, results={NOTE + kernel_name: json.dumps(dict(note, targets=_targets()), sort_keys=True)})
    with open(os.path.splitext(path)[0] + ".cpp", "w") as file:
        file.write(entry["cpp"](path))
    _built.extend(rows)
    _made.pop(path, None)
    return None


_CASE = re.compile(r"if \(([^{}\n]*)\)\s*return launch_(\w+)\(([^()]*)\);")


def _join(kernel_name, path):
    """Of `build`, which makes a kernel for each config and writes C++ that chooses among them: one bundle of all with what that C++ says."""
    folder = os.path.dirname(path)
    with open(os.path.join(folder, kernel_name + ".cpp")) as file:
        text = file.read()
    with open(os.path.join(folder, kernel_name + ".h")) as file:
        declared = re.search(r"launch_%s\((.*?)\);" % re.escape(kernel_name), file.read()).group(1)
    cases = []
    for condition, kernel, given in _CASE.findall(text):
        wanted = dict(re.findall(r"(\w+) == (-?\d+)", condition))
        cases.append({"kernel": kernel, "when": {name: int(value) for name, value in wanted.items()}, "tensors": [one.strip() for one in given.split(",")[1:]]})
    if not cases:
        raise Error("%s.cpp: expected a choice among kernels as NineToothed %s writes it" % (kernel_name, TESTED))
    parameters = [one.split() for one in declared.split(",")[1:]]
    note = {"parameters": [name for _, name in parameters], "tensors": sum(kind == "NineToothedTensor" for kind, _ in parameters), "cases": cases,
            "tuned": re.findall(r"^\s*int (\w+);$", text, re.M), "targets": _targets()}
    parts = [os.path.join(folder, one["kernel"] + ".kbundle") for one in cases]
    from .._compiler import run
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        manifest, notes, merged = (os.path.join(folder, name) for name in ("manifest", "notes.kbundle", "merged.kbundle"))
        with open(manifest, "wb") as file:
            file.write(_index.manifest({}, {}, {NOTE + kernel_name: json.dumps(note, sort_keys=True)}))
        run("bundle-write", "-q", "-o", notes, manifest)
        run("merge", "-o", merged, *parts, notes)
        with open(merged, "rb") as file:
            _bundles.put(file.read(), path)


# ------------------------------------------------------------------------------------------ launches

class _View:
    """An argument as NineToothed's structure has it."""
    __slots__ = ("data", "shape", "strides", "is_aligned")

    def __init__(self, value):
        self.data = value
        is_tensor = hasattr(value, "data_ptr")
        self.shape, self.strides = (value.shape, value.stride()) if is_tensor else ((), ())
        self.is_aligned = is_tensor and value.data_ptr() % ALIGNED == 0

    def is_wide(self):
        return any(one >= _INT32 for one in self.shape) or any(not -_INT32 <= one < _INT32 for one in self.strides)

    def holds(self, what, dimension, test):
        if what == "data":
            return self.is_aligned
        value = getattr(self, what)[dimension]
        return value % ALIGNED == 0 if test == "%16" else value == 1

    def of(self, what, dimension):
        if what == "value":
            return self.data.item() if hasattr(self.data, "item") else self.data
        return self.data if what == "data" else getattr(self, what)[dimension]


class Kernel:
    """What `make` returns: called with tensors, it launches the variant that fits. `codes` are {variant: its code}."""

    def __init__(self, name, note, codes, refused):
        self.name, self.note, self._codes, self._refused, self._opened, self._counters = name, note, codes, refused, {}, {}
        self._grid = compile(note["grid"].replace("//", "/").replace("/", "//"), "the grid of %s" % name, "eval")  # C divides integers so

    def __repr__(self):
        return "<kiln.triton kernel %s of NineToothed, %d variants>" % (self.name, len(self.note["variants"]))

    def chosen(self, views):
        is_wide = any(one.is_wide() for one in views)
        return next(one for one in self.note["variants"] if (is_wide if one["wide"] else all(views[at].holds(*fact) for at, *fact in one["when"])))

    def _kernel(self, variant, device):
        key = variant["kernel"], str(device)
        if key not in self._opened:
            place, code = _devices.place_of(device), self._codes[variant["kernel"]]
            kernel = code.open(place.device)
            kernel.preload()
            self._counters[key] = _monitor.row_of(code.origin, self.name, variant["kernel"], place.target, code.reason, code.seconds).counter()
            self._opened[key] = kernel
        return self._opened[key], self._counters[key]

    def __call__(self, *arguments):
        names = self.note["arguments"]
        if len(arguments) != len(names):
            raise TypeError("%s: expected %d arguments (%s), found %d" % (self.name, len(names), ", ".join(names), len(arguments)))
        views = [_View(one) for one in arguments]
        variant = self.chosen(views)
        grid = eval(self._grid, {name: views[at].of(what, dimension) for name, (at, what, dimension) in self.note["extents"].items()})
        try:
            kernel, counter = self._kernel(variant, _devices.device_of(arguments))
            kernel._launch([views[at].of(what, dimension) for at, what, dimension in variant["gives"]], (grid, 1, 1), None)
        except Error as error:
            raise self._refused("%s: %s" % (self.name, error)) from None
        counter.add()


class Choice:
    """What `build` returns: called with tensors and the values of a config, it launches the kernel that was made for them. Values at the end that a config does
    not have may be left out. Values that were tuned come from the table that NineToothed writes beside the bundle."""

    def __init__(self, name, note, kernels, table, refused):
        self.name, self.note, self._kernels, self._table, self._refused, self._read, self._known = name, note, kernels, table, refused, None, {}

    def __repr__(self):
        return "<kiln.triton kernels %s of NineToothed, %d configs>" % (self.name, len(self.note["cases"]))

    def _tuned(self, config):
        changed = os.stat(self._table).st_mtime_ns
        if changed != self._read:
            with open(self._table, newline="") as file:
                rows = [tuple(map(int, filter(None, row))) for row in csv.reader(file)]
            self._known, self._read = dict(zip(rows[2::2], rows[3::2])), changed
            self._known.setdefault(None, rows[1])
        return self._known.get(config, self._known[None])

    def __call__(self, *arguments):
        note, count = self.note, self.note["tensors"]
        names, tuned = note["parameters"], note["tuned"]
        if not count <= len(arguments) <= len(names) + len(tuned):
            raise TypeError("%s: expected %d to %d arguments (%s), found %d" % (self.name, count, len(names) + len(tuned), ", ".join(names + tuned), len(arguments)))
        given = tuple(map(_number, arguments[count:]))
        if len(arguments) == len(names) and tuned:
            given += self._tuned(given)
        values = dict(zip(names[count:] + tuned, given))
        tensors = dict(zip(names, arguments[:count]))
        for case in note["cases"]:
            if all(values.get(name) == value for name, value in case["when"].items()):
                return self._kernels[case["kernel"]](*[tensors[name] for name in case["tensors"]])
        raise self._refused("%s: expected the values of a config, found %s" % (self.name, ", ".join("%s = %s" % one for one in values.items())))


def _number(value):
    """A value of a config, as NineToothed's C++ takes it."""
    from ninetoothed.build import _arg_to_int
    return int(_arg_to_int(value))


def _load_launch_func(module, kernel_name, output_dir):
    """In place of NineToothed's function of that name: of a bundle that was written, or whose variants were found in others."""
    class Refused(module._KernelLaunchError, Error):
        """A launch that is not possible. NineToothed's tuner passes it over."""

        def __init__(self, text):
            Error.__init__(self, text)

        __str__ = Error.__str__
    return _opened(kernel_name, _path_of(kernel_name, output_dir), Refused)


def _opened(name, path, refused):
    if path in _made:
        return Kernel(name, *_made[path], refused)
    with open(path, "rb") as file:
        library = file.read()  # the file may be written again
    notes = _index.notes(path)

    def kernel_of(kernel):
        if NOTE + kernel not in notes:
            raise NotFound("%s: has no kernel '%s' of NineToothed's build ahead of time" % (path, kernel))
        note = json.loads(notes[NOTE + kernel])
        return Kernel(kernel, note, {one["kernel"]: _bundles.Code(library, one["kernel"], _monitor.BUNDLE, 0.0, "") for one in note["variants"]}, refused)

    note = json.loads(notes.get(NOTE + name, "{}"))
    if "cases" not in note:
        return kernel_of(name)
    return Choice(name, note, {case["kernel"]: kernel_of(case["kernel"]) for case in note["cases"]}, os.path.splitext(path)[0] + ".csv", refused)


# ------------------------------------------------------------------------------------------ callers in C++

_CPP = r"""// Of NineToothed, by Kiln: chooses the variant of a kernel and launches it. It wants a compiler of C++11 and libkiln (pkg-config kiln), nothing of CUDA's.
#include "@HEADER@"

#include <kiln/kiln.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#ifndef KILN_BUNDLE_OF_@NAME@
#define KILN_BUNDLE_OF_@NAME@ "@BUNDLE@"
#endif

namespace {
enum What { DATA, SHAPE, STRIDES, VALUE };
struct Given { int tensor; What what; int dimension; };
struct Variant { const char *kernel; std::vector<Given> gives; };

const Variant variants[] = {
@VARIANTS@
};

// The device of the thread's current context; without a driver the CPU.
std::string place() {
    static void *const cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *const hip = dlopen("libamdhip64.so", RTLD_NOW | RTLD_NOLOAD);
    int (*current)(int *) = nullptr, device = 0;
    if (cuda) *(void **)&current = dlsym(cuda, "cuCtxGetDevice");
    else if (hip) *(void **)&current = dlsym(hip, "hipGetDevice");
    if (!current) return "host";
    return current(&device) ? (cuda ? "cuda:0" : "hip:0") : (cuda ? "cuda:" : "hip:") + std::to_string(device);
}

int refuse(const char *what, const kiln_error &error) {
    fprintf(stderr, "launch_@NAME@: %s: %s\n", what, error.text);
    return 1;
}

int launch(int number, const NineToothedTensor *tensors, const uint32_t *grid, NineToothedStream stream) {
    static std::mutex mutex;
    static kiln_library *library;
    static std::map<std::string, kiln_device *> devices;
    static std::map<std::pair<std::string, int>, kiln_kernel *> kernels;
    const Variant &variant = variants[number];
    kiln_error error;
    kiln_kernel *kernel;
    {
        std::lock_guard<std::mutex> lock(mutex);
        const std::string device = place();
        if (!library && kiln_open_file(KILN_BUNDLE_OF_@NAME@, &library, &error)) return refuse(KILN_BUNDLE_OF_@NAME@, error);
        if (!devices[device] && kiln_device_open(library, device.c_str(), &devices[device], &error)) return refuse(device.c_str(), error);
        kiln_kernel *&known = kernels[{device, number}];
        if (!known && kiln_kernel_get(devices[device], variant.kernel, nullptr, &known, &error)) return refuse(variant.kernel, error);
        kernel = known;
    }
    std::vector<unsigned char> block(kiln_block_size(kernel));
    for (size_t i = 0; i < variant.gives.size(); i++) {
        const Given &given = variant.gives[i];
        const NineToothedTensor &tensor = tensors[given.tensor];
        kiln_param param;
        kiln_param_at(kernel, i, &param);
        const void *from = given.what == DATA ? &tensor.data : given.what == SHAPE ? (const void *)&tensor.shape[given.dimension]
                         : given.what == STRIDES ? (const void *)&tensor.strides[given.dimension] : tensor.data;
        memcpy(block.data() + param.offset, from, param.size);
    }
    return kiln_launch_grid(kernel, stream, grid, block.data(), block.size(), &error) ? refuse(variant.kernel, error) : 0;
}
}

extern "C" NineToothedResult launch_@NAME@(@PARAMETERS@) {
    const NineToothedTensor tensors[] = {@TENSORS@};
@EXTENTS@
    const uint32_t grid[] = {(uint32_t)(@GRID@), 1, 1};
@CHOICE@
}
"""


def _choice(number, variant, launched, wide):
    """The line of C++ that takes a variant."""
    tests = ["(uintptr_t)%s.data %% 16 == 0" % launched[at] if what == "data" else "%s.%s[%d] %s" % (launched[at], what, dimension, {"%16": "% 16 == 0", "==1": "== 1"}[test])
             for at, what, dimension, test in variant["when"]]
    condition = wide if variant["wide"] else " && ".join(tests)
    call = "return launch(%d, tensors, grid, stream);" % number
    return "    if (%s) %s" % (condition, call) if condition else "    " + call


def _cpp(name, note, ranks, header, bundle):
    launched = note["arguments"]
    wide = " || ".join(term for one, rank in zip(launched, ranks) for d in range(rank)
                       for term in ("%s.shape[%d] > 2147483647ULL" % (one, d), "%s.strides[%d] > 2147483647LL" % (one, d), "%s.strides[%d] < -2147483648LL" % (one, d)))
    rows = ["    {\"%s\", {%s}}," % (one["kernel"], ", ".join("{%d, %s, %d}" % (at, what.upper(), d) for at, what, d in one["gives"])) for one in note["variants"]]
    extents = ["    const int64_t %s = (int64_t)%s.%s[%d];" % (key, launched[at], what, d) for key, (at, what, d) in note["extents"].items()]
    choice = [_choice(number, one, launched, wide) for number, one in enumerate(note["variants"]) if wide or not one["wide"]]
    parts = {"HEADER": header, "BUNDLE": bundle, "VARIANTS": "\n".join(rows), "EXTENTS": "\n".join(extents), "GRID": note["grid"], "CHOICE": "\n".join(choice),
             "PARAMETERS": ", ".join(["NineToothedStream stream", *("NineToothedTensor " + one for one in launched)]), "TENSORS": ", ".join(launched), "NAME": name}
    return re.sub("@([A-Z]+)@", lambda found: parts[found[1]], _CPP)


# ------------------------------------------------------------------------------------------ NineToothed's modules

class _InChild:
    """In place of the function that `build` runs in processes of its own: Kiln is put behind Triton and NineToothed there, with the bundles that are loaded here."""

    def __init__(self, theirs):
        self._theirs = theirs

    def __reduce__(self):
        return _in_child, (_bundles.settings(),)

    def __call__(self, *arguments, **named):
        return self._theirs(*arguments, **named)


def _in_child(settings):
    from . import _patch
    _patch.enable()
    _bundles.apply(settings)
    return importlib.import_module("ninetoothed.build")._make  # ninetoothed.build is a function, too


def _refuse(module, replace, missing, places):
    """Programs may have the functions `aot` and `build` already, so something refuses that they call first."""
    def refused(*_, **__):
        try:
            version = importlib.metadata.version("ninetoothed")
        except importlib.metadata.PackageNotFoundError:  # a checkout
            version = "without a version"
        raise Error("NineToothed %s: its build ahead of time has no %s, expected one as in %s" % (version, ", ".join(missing), TESTED))
    replace(module, next(name for name in places if hasattr(module, name)), refused)


def take_aot(module, replace):
    missing = [name for name in _AOT if not hasattr(module, name)]
    if missing:
        return _refuse(module, replace, missing, ("_aot", "aot"))
    theirs = module._generate_dispatcher

    def generate_dispatcher(kernel_name, launched, specs, ranks):
        _, header = theirs(kernel_name, launched, specs, ranks)
        entry = _pending[kernel_name]
        entry["variants"] = _ordered(entry["variants"])
        entry["note"] = _note(launched, entry["grid"], entry["variants"])
        entry["cpp"] = functools.partial(_cpp, kernel_name, entry["note"], ranks, os.fspath(module._HEADER_PATH))
        return "", header

    replace(module, "_build_variant", _build_variant)
    replace(module, "_generate_dispatcher", generate_dispatcher)
    replace(module, "_compile_library", _compile_library)
    replace(module, "_load_launch_func", functools.partial(_load_launch_func, module))


def take_build(module, replace):
    missing = [name for name in _BUILD if not hasattr(module, name)]
    if missing:
        return _refuse(module, replace, missing, ("_load_cached", "_compute_fingerprint", "build"))

    def load_cached(configs, meta_parameters, *, kernel_name, output_dir, fingerprint):
        """As NineToothed's, of a bundle in place of a library: None where it has to be built."""
        path = _path_of(kernel_name, output_dir)
        if not os.path.exists(path) or not module._fingerprint_matches(kernel_name, output_dir, fingerprint):
            return None
        note = json.loads(_index.notes(path).get(NOTE + kernel_name, "{}"))
        table = None if meta_parameters is None else module._read_auto_tuning_cache(output_dir / (kernel_name + ".csv"))
        if note.get("targets") != _targets() or (meta_parameters is not None and not table):
            return None
        kernel = _load_launch_func(module, kernel_name, output_dir)
        if meta_parameters is None:
            return kernel
        return module._AutoTunedKernel(
            kernel_after_auto_tuning=kernel, kernel_before_auto_tuning=kernel, configs=configs, meta_parameters=meta_parameters,
            config_to_best_meta_arguments=table, kernel_name=kernel_name, output_dir=output_dir)

    replace(module, "_make", _InChild(module._make))
    replace(module, "_load_cached", load_cached)
    replace(module, "_load_launch_func", functools.partial(_load_launch_func, module))
