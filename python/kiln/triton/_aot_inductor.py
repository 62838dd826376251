# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Kiln is to AOTInductor and to `cpp_wrapper`, where C++ launches the kernels. Inductor's C++ loads each kernel from a cubin, loadKernel(path, name, ...), and
launches it with launchKernel(kernel, grid, ...). Here all kernels of a graph are in one bundle, with code for several processors; both functions have a second way
that goes to libkiln, which is next to the bundle in the package. What Triton compiled (miss="triton") goes the way of Inductor."""
import os
import tempfile

from . import _bundles, _compilation
from .._core import Library
from .._errors import Error
from .._paths import candidates

STAGE = "cubin"  # what Inductor asks a kernel of, and stores
SONAME = "libkiln.so.0"
_REFUSED = ("package_cpp_only", "embed_kernel_binary", "emit_multi_arch_kernel")  # of torch._inductor.config.aot_inductor

# Inductor's own text stands where it says INDUCTOR. Numbers and structures are those of kiln.h.
_DRIVER = r"""
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>
namespace cubin {
INDUCTOR
}

namespace kiln {
struct Kernel;
}

// A kernel of a bundle, or else one of a cubin.
struct LoadedKernel {
    const kiln::Kernel *ours;
    CUfunction function;
};

namespace kiln {
struct Error { int status; char text[996]; uint32_t operation; };
struct Parameter { const char *name, *type; uint32_t offset, size; uint8_t rank, pointer, access; };

struct Library {
    int (*open_file)(const char *, void **, Error *);
    int (*device_open)(void *, const char *, void **, Error *);
    int (*kernel_get)(void *, const char *, const void *, void **, Error *);
    size_t (*param_count)(const void *);
    int (*param_at)(const void *, size_t, Parameter *);
    size_t (*block_size)(const void *);
    int (*preload)(void *, Error *);
    int (*launch_grid)(void *, void *, const uint32_t *, const void *, size_t, Error *);

    // The one next to the bundle, or where the loader looks.
    explicit Library(const std::filesystem::path &folder) {
        void *handle = dlopen((folder / "libkiln.so.0").c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!handle) handle = dlopen("libkiln.so.0", RTLD_NOW | RTLD_LOCAL);
        if (!handle) throw std::runtime_error(std::string("libkiln.so.0, which launches the kernels of a bundle, was not loaded: ") + dlerror());
        find(handle, "kiln_open_file", open_file);
        find(handle, "kiln_device_open", device_open);
        find(handle, "kiln_kernel_get", kernel_get);
        find(handle, "kiln_param_count", param_count);
        find(handle, "kiln_param_at", param_at);
        find(handle, "kiln_block_size", block_size);
        find(handle, "kiln_preload", preload);
        find(handle, "kiln_launch_grid", launch_grid);
    }

  private:
    template <typename Function> static void find(void *handle, const char *name, Function &out) {
        out = reinterpret_cast<Function>(dlsym(handle, name));
        if (!out) throw std::runtime_error(std::string("libkiln.so.0 has no ") + name + ": expected the one of the package");
    }
};

inline void check(int status, const std::string &what, const Error &error) {
    if (status) throw std::runtime_error("kiln: " + what + ": " + error.text);
}

struct Kernel {
    LoadedKernel loaded = {this, nullptr};
    const Library &libkiln;
    void *kernel = nullptr;
    std::vector<Parameter> parameters;
    size_t size;

    Kernel(const Library &libkiln, void *device, const std::string &name) : libkiln(libkiln) {
        Error error;
        check(libkiln.kernel_get(device, name.c_str(), nullptr, &kernel, &error), name, error);
        check(libkiln.preload(kernel, &error), name, error);
        parameters.resize(libkiln.param_count(kernel));
        for (size_t i = 0; i < parameters.size(); i++) libkiln.param_at(kernel, i, &parameters[i]);
        size = libkiln.block_size(kernel);
    }
    Kernel(const Kernel &) = delete;

    // Inductor has more arguments than the kernel: scratch memory that Triton's code may want comes after them.
    void launch(const uint32_t *grid, void *const *arguments, void *stream) const {
        char *block = static_cast<char *>(__builtin_alloca(size));
        Error error;
        for (size_t i = 0; i < parameters.size(); i++) __builtin_memcpy(block + parameters[i].offset, arguments[i], parameters[i].size);
        check(libkiln.launch_grid(kernel, stream, grid, block, size, &error), "launch", error);
    }
};

struct Bundle {
    Library libkiln;
    void *library = nullptr;
    std::map<int, void *> devices;
    std::map<std::pair<int, std::string>, Kernel> kernels;

    explicit Bundle(const std::filesystem::path &path) : libkiln(path.parent_path()) {
        Error error;
        check(libkiln.open_file(path.c_str(), &library, &error), path.string(), error);
    }
    Bundle(const Bundle &) = delete;

    LoadedKernel *load(int number, const std::string &name) {
        void *&device = devices[number];
        const std::string place = "cuda:" + std::to_string(number);
        Error error;
        if (!device) check(libkiln.device_open(library, place.c_str(), &device, &error), place, error);
        return &kernels.try_emplace({number, name}, libkiln, device, name).first->second.loaded;
    }
};

// A bundle begins as a ZIP archive does, a cubin as an ELF file.
inline bool is_bundle(const std::filesystem::path &path) {
    char begin[4] = {};
    std::ifstream(path, std::ios::binary).read(begin, sizeof begin);
    return std::string(begin, sizeof begin) == "PK\3\4";
}

// Bundles stay open as long as the process.
inline LoadedKernel *load(const std::filesystem::path &path, const std::string &name) {
    static std::mutex mutex;
    static auto &bundles = *new std::map<std::string, Bundle>;
    std::lock_guard<std::mutex> lock(mutex);
    CUdevice device;
    CUDA_DRIVER_CHECK(cuCtxGetDevice(&device));
    return bundles.try_emplace(path.string(), path).first->second.load(device, name);
}
}

template <typename... Others>
static inline LoadedKernel *loadKernel(const std::string &path, const std::string &name, uint32_t shared, const std::optional<std::string> &folder = std::nullopt,
                                       Others... others) {
    std::filesystem::path place = folder ? std::filesystem::path(*folder) / std::filesystem::path(path).filename() : std::filesystem::path(path);
    if (kiln::is_bundle(place)) return kiln::load(place, name);
    return new LoadedKernel{nullptr, cubin::loadKernel(path, name, shared, folder, others...)};
}

template <typename... Others>
static inline void launchKernel(LoadedKernel *kernel, uint32_t x, uint32_t y, uint32_t z, uint32_t warps, uint32_t shared, void *arguments[], cudaStream_t stream,
                                Others... others) {
    const uint32_t grid[] = {x, y, z};
    if (kernel->ours) kernel->ours->launch(grid, arguments, stream);
    else cubin::launchKernel(kernel->function, x, y, z, warps, shared, arguments, stream, others...);
}
"""


def driver(theirs):
    """The C++ text of both functions, with Inductor's in it."""
    return _DRIVER.replace("INDUCTOR", theirs)


class Stages(dict):
    """The stages of a kernel by name, as far as Kiln has them. In place of the cubin it has the bundle of this kernel."""

    def __init__(self, name, code, *stages):
        super().__init__(*stages)
        self.name, self.code = name, code

    def __missing__(self, stage):
        if stage != STAGE:
            raise KeyError("kernel '%s' was compiled by Kiln and has no stage '%s'" % (self.name, stage))
        return _bundles.bytes_of(self.code)

    def __reduce__(self):
        return Stages, (self.name, self.code, dict(self))


def store(theirs, kernel, name):
    """Stores a kernel as Inductor does, whose function `theirs` is, with libkiln next to its bundle. Refused is what Kiln has not."""
    from torch._inductor import codecache, config
    for setting in _REFUSED:
        if getattr(config.aot_inductor, setting):
            raise Error("aot_inductor.%s: Inductor wants a cubin or PTX of each kernel, expected a package with one bundle: KILN_TRITON_TARGETS names its processors" % setting)
    if not kernel.is_plain:
        raise Error("kernel '%s': its tensor descriptors, tuples or unsigned numbers are not supported in C++ that Inductor writes" % kernel.name)
    theirs()
    params = codecache.CudaKernelParamCache.get(name)
    params["kiln"] = kernel
    _put_libkiln(os.path.dirname(params[codecache.get_cpp_wrapper_cubin_path_name()]))


def refuse_late(names):
    """Configs that are chosen by C++ which Inductor runs (PyTorch 2.12 and newer, if asked for) come after the bundle is written."""
    from torch._inductor import codecache
    if any("kiln" in (codecache.CudaKernelParamCache.get(name) or {}) for name in names):
        raise Error("triton.autotune_at_compile_time=False: expected the default, with which configs are chosen before the package is written")


def _write(found, targets, output):
    """Writes one bundle of kernels {name in C++: kernel}; {name in C++: name in the bundle}."""
    from .._compiler import build, run
    titles = {}
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        sources, parts = [], []
        for number, (name, kernel) in enumerate(sorted(found.items())):
            titles[name] = name
            if kernel.kiln_text is not None:
                text = _compilation.renamed(kernel.kiln_text, name)
                sources.append(_compilation.write(folder, "kernel%d" % number, text, kernel.kiln_facts))
                continue
            titles[name] = kernel.kiln_code.kernel
            parts.append(os.path.join(folder, "found%d.kbundle" % number))
            with open(parts[-1], "wb") as file:
                file.write(_bundles.bytes_of(kernel.kiln_code))
        if sources:
            parts.insert(0, os.path.join(folder, "compiled.kbundle"))
            build(sources, targets, parts[0])
        run("merge", "-o", output, *parts)
    return titles


def _targets(found):
    return _bundles.targets_wanted() or list(dict.fromkeys(kernel.kiln_target for kernel in found.values()))


def _check_arguments(library, title, params):
    """That Inductor's C++ gives a kernel the arguments that it has."""
    given = [name for name in params["call_args"] if name not in params["triton_meta"]["constants"]]
    ours = library.device("null").kernel(title).params
    if len(given) != len(ours):
        raise Error("kernel '%s': expected %d arguments, found %d in Inductor's C++: %s" % (title, len(ours), len(given), ", ".join(given)))


def collect(names):
    """Puts the kernels of these names in C++ that Kiln compiled into one bundle, where Inductor's C++ finds it; the paths of libkiln, if there are any."""
    from torch._inductor import codecache, config
    every = {name: codecache.CudaKernelParamCache.get(name) for name in names}
    found = {name: params["kiln"] for name, params in every.items() if params and "kiln" in params}
    if not found:
        return []
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        merged = os.path.join(folder, "merged.kbundle")
        titles = _write(found, _targets(found), merged)
        library = Library(merged)
        for name, title in titles.items():
            _check_arguments(library, title, every[name])
        with open(merged, "rb") as file:
            where = codecache.split_aot_inductor_output_path(config.aot_inductor.output_path)[0]
            path = codecache.write(file.read(), "kbundle", hash_type=STAGE, specified_dir=where)[1]
    for name, title in titles.items():
        every[name].update({codecache.get_cpp_wrapper_cubin_path_name(): path, "mangled_name": title})
    return _put_libkiln(os.path.dirname(path))


def _libkiln():
    """The file of the library that this process uses, also where the loader found it."""
    found = candidates(SONAME)[0]
    if found == SONAME:
        with open("/proc/self/maps") as maps:
            found = next((line.split(None, 5)[5].rstrip("\n") for line in maps if line.rstrip("\n").endswith("/" + SONAME)), None)
    if found is None:
        raise Error("%s: expected beside the package kiln or where the loader looks, found in neither: a package of AOTInductor takes it along" % SONAME)
    return found


def _put_libkiln(folder):
    """The two files of libkiln, which opens the second when something of it is wanted."""
    of = _libkiln()
    paths = [os.path.join(folder, name) for name in (SONAME, "libkiln-more.so.0")]
    for path in paths:
        with open(os.path.join(os.path.dirname(of), os.path.basename(path)), "rb") as file:
            library = file.read()
        if not os.path.exists(path) or os.path.getsize(path) != len(library):
            _bundles.put(library, path)
    return paths
