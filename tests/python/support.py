# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests of the Python package share: the build under test, one bundle, and the run of a file's tests. KILN_BUILD names the build's folder; one with the
address sanitizer is tested in an interpreter that has the sanitizer's runtime loaded before all else, tests that ask for it in one with zones around memory."""
import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("KILN_BUILD", "build/release"))
LIBRARY = os.path.join(BUILD, "lib", "libkiln.so.0")
ZONES = os.path.join(BUILD, "zones", "zones.so")
sys.path.insert(0, os.path.join(BUILD, "python"))
sys.dont_write_bytecode = True
# A free-threaded interpreter: programs that tests start have the lock from their start on, where it says nothing when the package takes it.
ALLOCATOR = "malloc"
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    os.environ.setdefault("PYTHON_GIL", "1")
    ALLOCATOR = "mimalloc"

SOURCE = """kiln 1

kernel saxpy[BLOCK: tune = 64](a: f32, x: in *f32, y: inout *f32, n: i32) @grid(cdiv(n, BLOCK)) @config(BLOCK = 64, warps = 2)
{
  let i = pid(0) * BLOCK + iota(BLOCK)
  store(y + i, a * load(x + i, i < n) + load(y + i, i < n), i < n)
}

kernel copy[T: type = i8, BLOCK: tune = 64](x: in *T, y: out *T, n: i64 @div(4)) @grid(cdiv(n, BLOCK)) @config(BLOCK = 64, warps = 2)
  @instance(T = i8) @instance(T = i64) @instance(T = f16) @instance(T = bf16) @instance(T = f64)
{
  let i = pid(0) * BLOCK + iota(BLOCK)
  let live = i as i64 < n
  store(y + i, load(x + i, live), live)
}

kernel scalars(b: i1, s: i16, l: i64, h: f16, g: bf16, d: f64, y: out *f64) @grid(1) @config(warps = 1)
{
  store(y, select(b, 1.0, 0.0) as f64)
  store(y + 1, s as f64)
  store(y + 2, l as f64)
  store(y + 3, h as f64)
  store(y + 4, g as f64)
  store(y + 5, d)
}

kernel twice(x: in view f32[16, 16], y: out view f32[16, 16], rows: i32, cols: i32)
  @grid(cdiv(rows, 16), cdiv(cols, 16)) @config(warps = 2)
{
  let i = pid(0) * 16
  let j = pid(1) * 16
  store(y, [i, j], load(x, [i, j]) * 2.0)
}

kernel fill3(y: out view f32[4, 4, 4]) @grid(1) @config(warps = 1) { store(y, [0, 0, 0], full(f32[4, 4, 4], 1.0)) }

kernel gridless(y: out *i32) @config(warps = 1) { store(y + pid(0), pid(0) + 10) }
"""


def plain_environment():
    """Programs other than the interpreter bring the runtime of their sanitizers themselves."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def tool(*words):
    done = subprocess.run([os.path.join(BUILD, "bin", "kiln"), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT, env=plain_environment())
    if done.returncode:
        raise AssertionError("kiln %s: exit %d\n%s" % (" ".join(words), done.returncode, done.stdout.decode(errors="replace")))


def run_gridless(device, count):
    memory = device.memory(count, "i32")
    device.kernel("gridless")(memory, grid=count)
    device.sync()
    return [int.from_bytes(bytes(memory)[4 * i:4 * i + 4], "little") for i in range(count)]


def is_instrumented():
    with open(LIBRARY, "rb") as file:
        return b"__asan_init" in file.read()


def _restart_with_sanitizer():
    """Does not return. The interpreter keeps memory to its end, so leaks are not looked for. PyTorch and JAX throw exceptions of C++, whose library
    has to be there when the sanitizer starts."""
    def of_gcc(name):
        return subprocess.check_output(["gcc", "-print-file-name=" + name]).decode().strip()
    runtime = shutil.which("gcc") and of_gcc("libasan.so")
    if not runtime or not os.path.isabs(runtime):
        print("[SKIP] the runtime of the address sanitizer (gcc's libasan.so) is not installed")
        print("0 passed, 0 failed, 1 skipped")
        sys.exit(0)
    options = "detect_leaks=0:verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", "")
    os.execve(sys.executable, [sys.executable] + sys.argv, dict(os.environ, LD_PRELOAD=runtime + " " + of_gcc("libstdc++.so.6"), ASAN_OPTIONS=options))


if is_instrumented() and "libasan" not in os.environ.get("LD_PRELOAD", ""):
    _restart_with_sanitizer()


def has_zones():
    return ZONES in os.environ.get("LD_PRELOAD", "")


def with_zones():
    """Starts the tests again in an interpreter whose memory, NumPy's and that of every framework, has zones around each block (zones.c). A test after which one
    is damaged has failed. Memory of a GPU has none: there canary.Tensor stands around tensors. Sanitizers bring their own memory."""
    if has_zones() or is_instrumented():
        return
    if not os.path.exists(ZONES):
        print("no zones around memory: %s is not there (make tests)" % ZONES)
        return
    os.execve(sys.executable, [sys.executable] + sys.argv, dict(os.environ, LD_PRELOAD=ZONES))


def damaged_zones():
    """What has been written outside of blocks since the last call, "" for nothing."""
    text = ctypes.create_string_buffer(300)
    ctypes.CDLL(None).kiln_zones_check(text, len(text))
    return text.value.decode()


class _Result(unittest.TextTestResult):
    def stopTest(self, test):
        text = damaged_zones() if has_zones() else ""
        if text:
            self.addFailure(test, (AssertionError, AssertionError(text), None))
        super().stopTest(test)


def main(name):
    """Runs the tests of module `name`, which finds FOLDER and BUNDLE among its names."""
    module = sys.modules[name]
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    with tempfile.TemporaryDirectory(prefix="kiln-test-") as folder:
        module.FOLDER, module.BUNDLE = folder, os.path.join(folder, "test.kbundle")
        with open(os.path.join(folder, "test.kiln"), "w") as file:
            file.write(SOURCE)
        tool("build", os.path.join(folder, "test.kiln"), "-t", "host", "--no-cache", "-q", "-o", module.BUNDLE)
        result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1, resultclass=_Result).run(suite)
    failed = len({getattr(test, "test_case", test).id() for test, _ in result.failures + result.errors})  # a test may fail in several of its cases
    skipped = len(result.skipped)
    for reason in sorted({reason for _, reason in result.skipped}):
        print("[SKIP] " + reason)
    passed = max(0, result.testsRun - failed - skipped)  # a class that is left out runs none of its tests
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0
