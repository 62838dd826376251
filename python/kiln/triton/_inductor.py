# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Kiln is to torch.compile. TorchInductor calls `triton.compile` and launches what that returns by itself. Here `compile` takes that place, and returns a
kernel that has what Inductor asks of one: it is pickled by a worker process, unpickled, and becomes a launcher, whose call runs in C (kiln._core.Runner). There
is no cubin for PyTorch's static launcher, so that one is never used. PyTorch's caches have keys of their own for Kiln: what Triton compiled is not found."""
import collections
import functools
import hashlib
import sys

import triton
from triton.compiler import ASTSource, CompiledKernel
from triton.runtime import driver

from . import _aot_inductor, _bundles, _compilation, _devices, _host_driver, _index, _launcher, _monitor, _torch_artifacts, _triton_identity
from .._core import Runner, version
from .._errors import Error

tritons_compile = triton.compile


class Kernel(CompiledKernel):
    """A kernel that Kiln compiled or found, in place of one that Triton compiled. All but what `_init_handles` makes is pickled, by Inductor field by field."""

    def __init__(self, source, options, target, read_for, found):
        code, keys, text, facts = found
        self.src, self.name, self.is_plain = source, source.fn.__name__, _launcher.is_plain(source.signature)
        self.kiln_code, self.kiln_keys, self.kiln_text, self.kiln_facts, self.kiln_target = code, keys, text, facts, target
        self.hash = hashlib.sha256(("kiln %s %s" % (_index.key_of(keys), target)).encode()).hexdigest()
        fields = dict(vars(options), name=self.name, hash=self.hash, target=read_for, shared=0, tmem_size=0, cluster_dims=(1, 1, 1), tensordesc_meta=None,
                      global_scratch_size=0, global_scratch_align=1, profile_scratch_size=0, profile_scratch_align=1)
        self.metadata = collections.namedtuple("KernelMetadata", sorted(fields))(**fields)
        self.packed_metadata = (options.num_warps, 1, 0)
        self.asm = _aot_inductor.Stages(self.name, code, {"ttir": text} if text is not None else {})
        self.metadata_group, self.kernel = {}, None
        self.module = self.function = self._run = None

    def __del__(self):
        """Nothing is unloaded: the module is none of Triton's, which 3.8 and later unload."""

    def __repr__(self):
        return "<kiln.triton kernel %s for %s>" % (self.name, self.kiln_target)

    @property
    def run(self):
        if self._run is None:
            self._init_handles()
        return self._run

    def _init_handles(self):
        if self._run is not None:
            return
        kernel = self.kiln_code.open(self._device())
        try:
            kernel.preload()
        except Error as error:  # too large for this device: Inductor passes such a config over
            raise _compilation.NotCompiled(str(error), error.number) from None
        choice = None if any(param.rank for param in kernel.params) else kernel.choose(*[0] * len(kernel.params), grid=1)
        self.n_regs, self.n_spills, shared = (choice.registers, choice.spill_bytes // 4, choice.shared_bytes) if choice else (0, 0, 0)
        self.n_max_threads = 1024
        self.metadata = self.metadata._replace(shared=shared)
        self.module = self.function = kernel
        self._run = self._launcher(kernel)

    def _device(self):
        return _devices.place_of(_devices.cpu() if self.kiln_target == "host" else _devices.torch.device("cuda")).device

    def _launcher(self, kernel):
        code = self.kiln_code
        identity = _bundles.identity_of(code) if self.kiln_text is None else _compilation.identity(self.kiln_text, self.kiln_facts)
        self.counter = _monitor.row_of(code.origin, self.name, identity, self.kiln_target, code.reason, code.seconds).counter()
        _kept.append(self)
        signature, names = self.src.signature, self.src.fn.arg_names
        whole = {name: signature.get(name, "constexpr") for name in names}  # Inductor leaves out what is None
        if not self.is_plain:
            return self._with_leaves(kernel, names, whole)
        return Runner(kernel, tuple(map(names.index, _launcher.names_of(whole))), self.counter)

    def _with_leaves(self, kernel, names, signature):
        """The way for descriptors, tuples and unsigned numbers."""
        def run(x, y, z, stream, function, packed, metadata, enter, leave, *values):
            if enter is not None:
                enter(metadata)
            kernel._launch(_launcher.leaves(signature, dict(zip(names, values))), (x, y, z), stream or None)
            self.counter.add()
            if leave is not None:
                leave(metadata)
        return run


_kept = []  # what save() writes


def kernels():
    return list(_kept)


def _read_for(target):
    """(what Triton's front end is told, the target of Kiln) for a target that a caller of triton.compile gave, or none."""
    if target is None:
        target = driver.active.get_current_target()
        if isinstance(driver.active, _host_driver.HostDriver):
            return _devices.READ_FOR, "host"
    return (_devices.READ_FOR, "host") if target.backend == "cpu" else (target, _devices.target_of(target))


def target_here():
    """What is compiled for where nobody says so."""
    return _read_for(None)[1]


def asked_for(src, target, options):
    """What _read_for returns, and the options, of a call of triton.compile."""
    read_for, ours = _read_for(target)
    return read_for, ours, _compilation.make_backend(read_for).parse_options(dict(options or {}, **src.parse_options()))


def compile(src, target=None, options=None, _env_vars=None):
    """In place of triton.compile. Files of IR and Gluon are left to Triton."""
    if type(src) is not ASTSource:
        return tritons_compile(src, target=target, options=options, _env_vars=_env_vars)
    read_for, ours, parsed = asked_for(src, target, options)
    _launcher.warn_of(src.fn.__name__, parsed)
    found = _bundles.find_or_compile(src, parsed, read_for, ours, _torch_artifacts.begun(src, parsed, read_for, ours))
    if found is None:
        theirs = tritons_compile(src, target=target, options=options, _env_vars=_env_vars)
        theirs.kiln_reason = "no bundle has it, and miss='triton'"
        return theirs
    kernel = Kernel(src, parsed, ours, read_for, found)
    _torch_artifacts.record(kernel)
    return kernel


# ------------------------------------------------------------------------------- PyTorch's modules

class _Worker:
    """In place of Inductor's function that a worker process runs: it puts Kiln behind Triton there first. Pickled, it takes along what bundles are loaded."""

    def __init__(self, theirs, settings=None):
        self.theirs, self.settings = theirs, settings

    def __reduce__(self):
        return _Worker, (self.theirs, _bundles.settings())

    def __call__(self, *arguments):
        from . import _patch
        _patch.enable()
        if self.settings is not None:
            _bundles.apply(self.settings)
        tuner, elapsed = self.theirs(*arguments)
        tuner.kiln_refused = _bundles.take_refused()
        return tuner, elapsed


def _take_heuristics(module, replace):
    theirs_set = module.TritonCompileResult.__setstate__
    theirs_can = module.StaticTritonCompileResult.can_statically_launch
    theirs_tuner = module.CachingAutotuner.__setstate__
    theirs_save = module.CachingAutotuner.save_gpu_kernel

    def set_tuner(self, state):
        _bundles.add_refused(state.pop("kiln_refused", {}))  # in a worker; the others have what it compiled
        theirs_tuner(self, state)

    def set_state(self, state):
        theirs_set(self, state)
        if "kiln_code" in vars(self.kernel):
            self.kernel.__dict__.pop("run", None)
            self.kernel.__class__ = Kernel
            _torch_artifacts.record(self.kernel)

    def can_statically_launch(kernel, *others):
        return None if isinstance(kernel, Kernel) else theirs_can(kernel, *others)

    def save_gpu_kernel(self, stream, launcher):
        def theirs():
            return theirs_save(self, stream, launcher)
        return _aot_inductor.store(theirs, launcher.bin, self.inductor_meta["kernel_name"]) if isinstance(launcher.bin, Kernel) else theirs()

    replace(module.CachingAutotuner, "__setstate__", set_tuner)
    replace(module.CachingAutotuner, "save_gpu_kernel", save_gpu_kernel)
    replace(module.TritonCompileResult, "__setstate__", set_state)
    replace(module.StaticTritonCompileResult, "can_statically_launch", staticmethod(can_statically_launch))


def _take_keys(module, replace):
    """The key of everything that PyTorch caches: sources, choices of configs, cubins."""
    theirs = module.triton_key
    replace(module, "triton_key", lambda: "%s-kiln %s" % (_triton_identity.of(theirs), version()))


def _take_backend(module, replace):
    """What Inductor notes of the backend in its Python. Triton's starts ptxas for it, which a process that compiles nothing may not have."""
    def hash_with_backend():
        return hashlib.sha256(("triton %s %s kiln %s" % (triton.__version__, driver.active.get_current_target(), version())).encode()).hexdigest().upper()
    replace(module, "triton_hash_with_backend", hash_with_backend)


def _take_artifacts(_, __):
    _torch_artifacts.register()


def _take_graphs(module, replace):
    """What a bundle knows of graphs is there before PyTorch asks its caches."""
    theirs = module.compile_fx

    @functools.wraps(theirs)
    def compile_fx(*arguments, **named):
        _bundles.fill_torch_caches()
        return theirs(*arguments, **named)
    replace(module, "compile_fx", compile_fx)


def _take_workers(module, replace):
    replace(module, "_worker_compile_triton", _Worker(module._worker_compile_triton))
    theirs = module.AsyncCompile.__dict__["use_process_pool"].__func__
    replace(module.AsyncCompile, "use_process_pool", classmethod(lambda cls: not _bundles.is_closed() and not _torch_artifacts.is_any_loaded() and theirs(cls)))


def _take_pool(module, replace):
    """The process that workers are forked from imports _compile_worker, as the module of this class, once in place of each of them."""
    replace(module, "SubprocPickler", type("Pickler", (module.SubprocPickler,), {"__module__": __package__ + "._compile_worker"}))


def _take_static_launchers(module, replace):
    """What PyTorch launches from a file of Triton's is counted as Triton's."""
    for owner in list(vars(module).values()):
        if isinstance(owner, type) and owner.__module__ == module.__name__ and "run" in vars(owner):
            replace(owner, "run", _counted(owner.run))


def _counted(theirs):
    def run(self, *arguments, **named):
        done = theirs(self, *arguments, **named)
        _monitor.count(_monitor.TRITON, self.name, self.hash[:16], "", "a cubin of Triton's from PyTorch's cache")
        return done
    return run


def _take_driver(module, replace):
    theirs = module.CUDADeviceOpOverrides.kernel_driver
    if sys.modules["torch"].version.hip is None:
        replace(module.CUDADeviceOpOverrides, "kernel_driver", lambda self: _aot_inductor.driver(theirs(self)))
        replace(module.CUDADeviceOpOverrides, "cpp_kernel_type", lambda self: "LoadedKernel *")


def _take_wrapper(module, replace):
    """The bundle is written when all kernels of a graph are compiled and their configs chosen."""
    theirs = module.CppWrapperGpu.finalize_prefix

    def finalize_prefix(self):
        names = [one.kernel_name for one in self._triton_call_wrappers.values()]
        chosen = [module.MultiKernelCall.lookup_choice(name) if name.startswith("multi_kernel_") else name for name in names]
        self.additional_files += _aot_inductor.collect(chosen)
        theirs(self)
    replace(module.CppWrapperGpu, "finalize_prefix", finalize_prefix)
    late = getattr(module, "generate_aoti_kernel_config_header", None)  # of PyTorch 2.12 and newer
    if late is not None:
        replace(module, "generate_aoti_kernel_config_header", lambda names: _aot_inductor.refuse_late(names) or late(names))


MODULES = {
    "torch._inductor.codegen.cuda.device_op_overrides": _take_driver, "torch._inductor.codegen.cpp_wrapper_gpu": _take_wrapper,
    "torch._inductor.runtime.triton_heuristics": _take_heuristics, "torch._inductor.runtime.triton_compat": _take_keys,
    "torch._inductor.compile_fx": _take_graphs, "torch._inductor.async_compile": _take_workers, "torch._inductor.compile_worker.subproc_pool": _take_pool,
    "torch._inductor.runtime.static_triton_launcher": _take_static_launchers,
    "torch._inductor.runtime.static_cuda_launcher": _take_static_launchers, "torch.compiler._cache": _take_artifacts, "torch.utils._triton": _take_backend,
}


def launcher_of(theirs, kernel):
    """The launcher of a kernel that Triton compiled, counted."""
    reason = getattr(kernel, "kiln_reason", "Triton compiled it, or had it in its cache")
    return _launcher.TritonLauncher(theirs, _monitor.TRITON, kernel.name, kernel.hash[:16], "", reason)


