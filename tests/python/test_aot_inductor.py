# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packages of AOTInductor with a bundle of Kiln in place of cubins, without a GPU: Inductor writes and compiles the C++ that it writes on a machine with one
(pretended_gpu.py), and the model that it links runs over an interpreter of PTX, in a process that knows nothing of Kiln (cuda_runtime.c). Skipped where PyTorch,
Triton, a compiler of C++ or CUDA's headers are absent."""
import array
import ctypes
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import support

import kiln  # noqa: E402

try:
    import torch
    import triton  # noqa: F401
    absent = None
except ImportError as missing:
    torch, absent = None, str(missing)

COLUMNS = 64

MODEL = """
import os, sys
import torch, triton, triton.language as tl
import kiln.triton
import torch._inductor.config as inductor
sys.path.insert(0, %r)
import pretended_gpu

@triton.jit
def scaled(x, y, n, by, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * by, mask=i < n)

def through(x, by, block):
    y = torch.empty_like(x)
    scaled[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), by, BLOCK=block)
    return y

class Model(torch.nn.Module):
    def forward(self, x, w, b):
        y = torch.nn.functional.layer_norm(x, (%d,), w, b)
        return through(torch.nn.functional.gelu(y), 0.5, 64) + through(x, 3.0, 128).softmax(-1), x.sum(0)

with pretended_gpu.gpu() as mode, inductor.patch(eval(sys.argv[2])):
    with mode:
        arguments = torch.randn(24, %d, device="cuda"), torch.randn(%d, device="cuda"), torch.randn(%d, device="cuda")
    rows = torch.export.Dim("rows", min=2, max=1000)
    program = torch.export.export(Model(), arguments, dynamic_shapes=({0: rows}, None, None), strict=True)
    torch._inductor.aoti_compile_and_package(program, package_path=sys.argv[1])
    kiln.triton.save(sys.argv[1] + ".kbundle")
""" % (os.path.join(support.ROOT, "tests", "python"), COLUMNS, COLUMNS, COLUMNS, COLUMNS)

# Arguments: the folder of the model. It reads lists of numbers, and prints those of the outputs.
RUN = """
import array, ctypes, glob, json, sys
import torch
driver, torch_cpu, model = (ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL) for path in ("libcuda.so.1", "libtorch_cpu.so", glob.glob(sys.argv[1] + "/*.so")[0]))

def on_device(values, shape):
    data, address, handle = array.array("f", values), ctypes.c_uint64(), ctypes.c_void_p()
    size = 4 * len(data)
    assert not driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
    assert not driver.cuMemcpyHtoD_v2(address, ctypes.c_void_p(data.buffer_info()[0]), ctypes.c_size_t(size))
    sizes, strides = (ctypes.c_int64 * len(shape))(*shape), (ctypes.c_int64 * len(shape))(*[shape[-1], 1][-len(shape):])
    assert not torch_cpu.aoti_torch_create_tensor_from_blob(address, ctypes.c_int64(len(shape)), sizes, strides, ctypes.c_int64(0), 6, 0, 0, ctypes.byref(handle))
    return handle.value

def to_host(handle, count):
    address, out = ctypes.c_uint64(), array.array("f", [0] * count)
    assert not torch_cpu.aoti_torch_get_data_ptr(ctypes.c_void_p(handle), ctypes.byref(address))
    assert not driver.cuMemcpyDtoH_v2(ctypes.c_void_p(out.buffer_info()[0]), address, ctypes.c_size_t(4 * count))
    return out.tolist()

container, given = ctypes.c_void_p(), json.load(sys.stdin)
assert not driver.cuInit(0)
assert not model.AOTInductorModelContainerCreateWithDevice(ctypes.byref(container), ctypes.c_size_t(1), b"cuda:0", sys.argv[1].encode())
results = []
for values in given:
    shapes = [(len(values[0]) // len(values[1]), len(values[1])), (len(values[1]),), (len(values[2]),)]
    inputs, outputs = (ctypes.c_void_p * 3)(*map(on_device, values, shapes)), (ctypes.c_void_p * 2)()
    if model.AOTInductorModelContainerRun(container, inputs, ctypes.c_size_t(3), outputs, ctypes.c_size_t(2), None, None):
        sys.exit(3)
    results.append([to_host(outputs[0], len(values[0])), to_host(outputs[1], len(values[1]))])
print(json.dumps(results))
"""


def toolkit():
    """A folder with CUDA's headers; None: there is none."""
    packages = glob.glob(os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), "nvidia", "cu*"))
    return next((folder for folder in (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda", *packages)
                 if os.path.exists(os.path.join(folder, "include", "cuda_runtime.h"))), None)


def expected(x, w, b):
    y = torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (COLUMNS,), w, b))
    return y * 0.5 + (x * 3).softmax(-1), x.sum(0)


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        interpreter = os.path.join(support.BUILD, "interpreted", "libcuda.so.1")
        reason = absent or (None if torch.version.cuda else "this PyTorch is not one for CUDA") or (None if toolkit() else "CUDA's headers are not installed") or (
            None if shutil.which("g++") else "g++ is not installed") or (None if os.path.exists(interpreter) else "the interpreter of PTX is not built")
        if reason:
            raise unittest.SkipTest(reason)
        cls.folder = tempfile.mkdtemp(dir=FOLDER)
        cls.libraries = os.path.join(cls.folder, "libraries")  # what is linked, and what stands before the CUDA runtime
        os.mkdir(cls.libraries)
        os.symlink(interpreter, os.path.join(cls.libraries, "libcuda.so"))
        os.symlink(interpreter, os.path.join(cls.libraries, "libcuda.so.1"))
        cls.runtime = os.path.join(cls.libraries, "runtime.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-O1", "-Wall", "-Werror", os.path.join(support.ROOT, "tests", "python", "cuda_runtime.c"),
                        os.path.join(cls.libraries, "libcuda.so"), "-o", cls.runtime], check=True, env=support.plain_environment())
        cls.package, said = cls.build("model", KILN_TRITON_TARGETS="sm_80,sm_90a")
        if said is not None:
            raise AssertionError(said)

    @classmethod
    def build(cls, name, settings={}, **environment):
        """The folder of the model of a package, and None; or None and what was said where it was not built."""
        path, cache = os.path.join(cls.folder, name + ".pt2"), os.path.join(cls.folder, name + "-inductor")
        site = os.path.join(cls.folder, "site")
        os.makedirs(site, exist_ok=True)
        with open(os.path.join(site, "sitecustomize.py"), "w") as file:
            file.write("import site; site.addsitedir(%r)" % os.path.join(support.ROOT, "python"))
        with open(os.path.join(cls.folder, "program.py"), "w") as file:
            file.write(MODEL)
        environment = {**os.environ, "KILN_TRITON": "1", "KILN_PTX_TARGET": "80", "LD_LIBRARY_PATH": cls.libraries, "LIBRARY_PATH": cls.libraries, "CUDA_HOME": toolkit(),
                       "TORCHINDUCTOR_CACHE_DIR": cache, "KILN_CACHE_DIR": os.path.join(cls.folder, "cache"),
                       "PYTHONPATH": os.pathsep.join((site, os.path.join(support.BUILD, "python"))), **environment}
        done = subprocess.run([sys.executable, os.path.join(cls.folder, "program.py"), path, repr(settings)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                              timeout=600)
        if done.returncode:
            return None, done.stdout.decode(errors="replace")
        with zipfile.ZipFile(path) as archive:
            archive.extractall(os.path.join(cls.folder, name))
        shutil.rmtree(cache)
        return os.path.dirname(glob.glob(os.path.join(cls.folder, name, "**", "*.kbundle"), recursive=True)[0]), None

    def run_model(self, package, inputs, target="80"):
        """(exit status, outputs, what was said) of a process that has nothing of Kiln but what is in the package."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KILN") and name != "PYTHONPATH"}
        environment.update(LD_LIBRARY_PATH=os.pathsep.join((self.libraries, os.path.join(os.path.dirname(torch.__file__), "lib"))), KILN_PTX_TARGET=target)
        done = subprocess.run(["env", "LD_PRELOAD=" + self.runtime, sys.executable, "-c", RUN, package], input=json.dumps([[t.flatten().tolist() for t in some] for some in inputs]).encode(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, timeout=600)
        return done.returncode, json.loads(done.stdout or b"null"), done.stderr.decode(errors="replace")

    def check_results(self, package):
        torch.manual_seed(3)
        inputs = [[torch.randn(rows, COLUMNS), torch.randn(COLUMNS), torch.randn(COLUMNS)] for rows in (24, 7)]
        code, outputs, errors = self.run_model(package, inputs)
        self.assertEqual(code, 0, errors)
        for given, found in zip(inputs, outputs):
            for mine, theirs in zip(found, expected(*given)):
                torch.testing.assert_close(torch.tensor(mine).reshape(theirs.shape), theirs, rtol=1e-4, atol=1e-4)

    def test_one_bundle_and_no_cubin(self):
        names = os.listdir(self.package)
        bundles = [name for name in names if name.endswith(".kbundle")]
        self.assertEqual((len(bundles), "libkiln.so.0" in names, "libkiln-more.so.0" in names), (1, True, True), names)
        self.assertFalse([name for name in names if name.endswith((".cubin", ".ptx", ".fatbin", ".o"))])
        library = kiln.Library(os.path.join(self.package, bundles[0]))
        self.assertGreaterEqual(len(library.kernels), 4)
        self.assertEqual(sum("scaled" in name for name in library.kernels), 2, library.kernels)  # two sets of arguments of one function
        for target in ("sm_80", "sm_90a"):
            device = library.device("null:" + target)
            for name in library.kernels:
                self.assertEqual(device.kernel(name).choose(*[0] * len(device.kernel(name).params), grid=1).target, target)
        source = glob.glob(os.path.join(self.package, "*.wrapper.cpp"))[0]
        with open(source) as file:
            text = file.read()
        self.assertEqual({os.path.basename(path) for path in re.findall(r'loadKernel\("([^"]*)"', text)}, {bundles[0]})

    def test_it_runs(self):
        self.check_results(self.package)

    def test_a_processor_without_code(self):
        torch.manual_seed(3)
        code, _, errors = self.run_model(self.package, [[torch.randn(24, COLUMNS), torch.randn(COLUMNS), torch.randn(COLUMNS)]], target="75")
        self.assertEqual(code, 3, errors)
        self.assertRegex(errors, r"kiln: \w+: [^\n]*sm_75")

    def test_a_package_without_libkiln(self):
        there = os.path.join(self.package, "libkiln.so.0")
        os.rename(there, there + ".away")
        try:
            code, _, errors = self.run_model(self.package, [[torch.randn(24, COLUMNS), torch.randn(COLUMNS), torch.randn(COLUMNS)]])
        finally:
            os.rename(there + ".away", there)
        self.assertEqual(code, 3, errors)
        self.assertIn("libkiln.so.0, which launches the kernels of a bundle, was not loaded", errors)

    def test_from_a_bundle_nothing_is_compiled(self):
        closed = {"KILN_TRITON_BUNDLE": os.path.join(self.folder, "model.pt2.kbundle"), "KILN_TRITON_MISS": "error", "KILN_CACHE_DIR": "/proc/none"}
        package, said = self.build("closed", **closed)
        self.assertIsNone(said)
        self.check_results(package)

    def test_what_wants_a_cubin_is_refused(self):
        _, said = self.build("embedded", {"aot_inductor.embed_kernel_binary": True})
        self.assertIn("aot_inductor.embed_kernel_binary: Inductor wants a cubin or PTX of each kernel, expected a package with one bundle", said or "")


if __name__ == "__main__":
    sys.exit(support.main(__name__))
