# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.compile through Kiln, without a GPU: TorchInductor writes Triton for the CPU (cpu_backend = "triton") and its autotuner, its workers and its launchers are
the ones that run on a GPU. Skipped where PyTorch or Triton is absent (PYTHON=.../python tests/run.py names the interpreter that has them)."""
import json
import os
import pickle
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import support
support.with_zones()

import kiln  # noqa: E402

try:
    import torch
    import triton
    import triton.language as tl
    import kiln.triton
    from kiln.triton import _absent_gpu as absent_gpu, _aot_inductor as aot_inductor, _torch_results as torch_results, _triton_identity as triton_identity
    import torch._inductor.config as inductor
    from torch._inductor.runtime import static_triton_launcher, triton_compat, triton_heuristics
except ImportError as missing:
    triton, absent = None, str(missing)

if triton is not None:
    @triton.jit
    def doubled(x, y, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

    tuned = triton.autotune([triton.Config({"BLOCK": block}) for block in (32, 512)], key=[])(triton.jit(doubled.fn))

    def through(kernel, x, **named):
        y = torch.empty_like(x)
        kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel(), **named)
        return y


class Block(torch.nn.Module if triton is not None else object):
    """The kernels of a small transformer that are no products."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer, self.norm = torch.nn.Linear(48, 96), torch.nn.Linear(96, 48), torch.nn.LayerNorm(48)

    def forward(self, x):
        scores = (x @ x.transpose(-1, -2)).softmax(-1)
        return self.norm(x + self.outer(torch.nn.functional.gelu(self.inner(scores @ x))))


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if triton is None:
            raise unittest.SkipTest(absent)
        cls.folder = tempfile.TemporaryDirectory(prefix="kiln-inductor-")
        os.environ["KILN_CACHE_DIR"] = os.path.join(cls.folder.name, "cache")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(cls.folder.name, "inductor")
        cls.patch = inductor.patch(cpu_backend="triton", compile_threads=1, fx_graph_cache=False)
        cls.patch.__enter__()
        kiln.triton.enable()
        torch.manual_seed(7)

    @classmethod
    def tearDownClass(cls):
        kiln.triton.disable()
        cls.patch.__exit__(None, None, None)
        cls.folder.cleanup()

    def setUp(self):
        torch._dynamo.reset()
        self.before = kiln.triton.monitor()

    def seen(self):
        return kiln.triton.monitor(since=self.before)


class Counted:
    """Counts calls of the launchers that Inductor makes, where they are called."""

    def __enter__(self):
        self.calls, self.theirs = 0, triton_heuristics.CompileResult._gen_launcher_code

        def code(result, scope, *others, **named):
            launch = scope["runner"]

            def counting(*arguments):
                self.calls += 1
                return launch(*arguments)
            scope["runner"] = counting
            return self.theirs(result, scope, *others, **named)
        triton_heuristics.CompileResult._gen_launcher_code = code
        return self

    def __exit__(self, *_):
        triton_heuristics.CompileResult._gen_launcher_code = self.theirs


class Models(Cases):
    def test_forward_and_backward(self):
        model, x = Block(), torch.randn(3, 20, 48)
        with Counted() as counted:
            compiled = torch.compile(model)
            for _ in range(2):
                mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
                model.zero_grad()
                compiled(mine).square().sum().backward()
                found = [mine.grad] + [p.grad.clone() for p in model.parameters()]
                model.zero_grad()
                model(theirs).square().sum().backward()
                torch.testing.assert_close(found, [theirs.grad] + [p.grad for p in model.parameters()], rtol=1e-4, atol=1e-4)
        seen = self.seen()
        self.assertEqual((seen.launches["triton"], seen.by_kiln), (0, counted.calls))
        self.assertGreater(seen.kernel_count("compiled"), 4)
        self.assertTrue(any("layer_norm" in one.name for one in seen.kernels), seen.text())

    def test_dynamic_shapes(self):
        compiled = torch.compile(lambda x: (x.softmax(-1) + x.sum(0)).relu(), dynamic=True)
        for rows, columns in ((7, 30), (40, 64), (3, 129)):
            x = torch.randn(rows, columns)
            torch.testing.assert_close(compiled(x), (x.softmax(-1) + x.sum(0)).relu())
        self.assertEqual(self.seen().launches["triton"], 0)

    def test_kernels_of_the_program_in_compiled_regions(self):
        compiled = torch.compile(lambda x: through(doubled, x + 1, BLOCK=64) - through(tuned, x), fullgraph=True)
        x = torch.randn(1000)
        torch.testing.assert_close(compiled(x), torch.full((1000,), 2.0))
        seen = self.seen()
        self.assertEqual(seen.launches["triton"], 0)
        self.assertGreaterEqual(sum("doubled" in one.name for one in seen.kernels), 3, seen.text())  # two configs of the tuned one

    def test_the_faster_config_stays(self):
        types_of = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}

        @triton_heuristics.user_autotune(
            configs=[{"num_warps": 4, "num_stages": 1, "BLOCK": size} for size in (16, 1024)], filename=os.path.join(self.folder.name, "half.py"), custom_kernel=True,
            inductor_meta={"grid_type": "FixedGrid", "fixed_grid": ["128", "1", "1"], "extra_launcher_args": []},
            triton_meta={"signature": types_of, "constants": {}, "configs": [{}], "device": triton_heuristics.DeviceProperties.create(torch.device("cpu"))})
        @triton.jit
        def half(x, y, n, BLOCK: tl.constexpr):
            for at in range(tl.program_id(0) * BLOCK, n, 128 * BLOCK):
                i = at + tl.arange(0, BLOCK)
                tl.store(y + i, tl.load(x + i, mask=i < n) / 2, mask=i < n)
        x, y = torch.randn(1 << 17), torch.zeros(1 << 17)
        half.run(x, y, x.numel(), stream=0)
        torch.testing.assert_close(y, x / 2)
        self.assertEqual((len(half.launchers), half.launchers[0].config.kwargs), (1, {"BLOCK": 1024}))


class InProcesses(Cases):
    """Inductor's compile workers, and programs that know nothing of Kiln."""

    PROGRAM = """
import sys, torch
import torch._inductor.config as inductor
inductor.cpu_backend, inductor.compile_threads = "triton", int(sys.argv[1])
%s
f = torch.compile(lambda x: (x.softmax(-1) + x.sum(0)).relu())
x = torch.randn(40, int(sys.argv[2]))
torch.testing.assert_close(f(x), (x.softmax(-1) + x.sum(0)).relu())
%s
"""
    POOL = """
from torch._inductor.async_compile import AsyncCompile
AsyncCompile.wait_pool_ready()
"""
    CLOSED = """
import kiln.triton._compilation as c
def refuse(*_, **__): raise SystemExit("something was compiled")
c.triton_ir = c.compile_ir = refuse
"""
    LOWERS = """
import torch._inductor.graph as graph
def refuse(*_): raise SystemExit("a graph was lowered")
graph.GraphLowering.run = refuse
"""
    PRECOMPILED = """
import sys, torch, triton
import torch._inductor.config as inductor
inductor.cpu_backend, inductor.compile_threads = "triton", 1
%s
def model(x, w): return ((x @ w).softmax(-1) + x.sum(0, keepdim=True)).relu()
x, w = torch.randn(20, 48), torch.randn(48, 48)
paths = {"artifact_path": sys.argv[3] + ".py", "cache_path": sys.argv[3] + ".cache"}
with torch.no_grad():
    if %r:
        with torch.compiler.precompile.capture(model, **paths) as capture:
            torch.testing.assert_close(capture(x, w), model(x, w))
    torch.testing.assert_close(torch.compiler.precompile.load(*paths.values())(x, w), model(x, w))
"""

    def run_program(self, threads, columns, before="", after="", **environment):
        return self.run_text(self.PROGRAM % (before, after), str(threads), str(columns), **environment)

    def run_text(self, text, *arguments, **environment):
        program, site = os.path.join(self.folder.name, "program.py"), os.path.join(self.folder.name, "site")
        os.makedirs(site, exist_ok=True)
        with open(program, "w") as file:
            file.write(text)
        with open(os.path.join(site, "sitecustomize.py"), "w") as file:  # a build's folder is in PYTHONPATH, which reads no .pth
            file.write("import site; site.addsitedir(%r)" % os.path.join(support.ROOT, "python"))
        environment.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.mkdtemp(dir=self.folder.name))
        environment["PYTHONPATH"] = os.pathsep.join((site, os.path.join(support.BUILD, "python")))
        done = subprocess.run([sys.executable, program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600,
                              env={**os.environ, **environment})
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def test_workers_compile_with_kiln(self):
        here = "import kiln.triton.auto, kiln.triton._inductor as i\ndef refuse(*_): raise SystemExit('compiled in the parent')\ni._bundles.find_or_compile = refuse\n"
        code, said, errors = self.run_program(2, 64, here + self.POOL, "import kiln.triton\nprint(kiln.triton.monitor().json())")
        self.assertEqual(code, 0, errors)
        found = json.loads(said)
        self.assertEqual(found["launches"]["triton"], 0)
        self.assertGreater(found["launches"]["compiled"] + found["launches"]["cache"], 0)
        self.assertTrue(all(one["seconds"] > 0 for one in found["kernels"]))

    def test_workers_are_forked_from_a_process_that_has_what_compiling_imports(self):
        here = self.POOL + """
names = ["kiln.triton", "triton.compiler.code_generator"]
print(AsyncCompile.process_pool().submit(eval, "[name in __import__('sys').modules for name in %r]" % names).result())
"""
        for setting in ({"KILN_TRITON": "1"}, {}):
            code, said, errors = self.run_program(2, 64, ("" if setting else "import kiln.triton.auto\n") + here, **setting)
            self.assertEqual(code, 0, errors)
            self.assertIn("[True, True]", said)

    def test_a_bundle_and_nothing_else(self):
        bundle, report = (os.path.join(self.folder.name, name) for name in ("app.kbundle", "report"))
        code, _, errors = self.run_program(1, 64, KILN_TRITON_SAVE=bundle, KILN_TRITON_TARGETS="host,sm_90a")
        self.assertEqual(code, 0, errors)
        elsewhere = kiln.Library(bundle).device("null:sm_90a")
        for name in kiln.Library(bundle).kernels:
            self.assertEqual(elsewhere.kernel(name).choose(*[0] * len(elsewhere.kernel(name).params), grid=1).target, "sm_90a")
        closed = {"KILN_TRITON_BUNDLE": bundle, "KILN_TRITON_MISS": "error", "KILN_CACHE_DIR": "/proc/none", "HOME": "/proc/none", "KILN_TRITON_REPORT": report}
        for threads in (1, 2):
            code, _, errors = self.run_program(threads, 64, "import triton" + self.CLOSED, **closed)
            self.assertEqual(code, 0, errors)
        self.assertEqual(self.origins(report), [{"bundle"}] * 2)
        code, _, errors = self.run_program(1, 128, "import triton" + self.CLOSED, **closed)
        self.assertEqual(code, 1)
        self.assertRegex(errors, r"kernel 'triton_per_fused\w*': no entry of its key in .*app.kbundle; nearest entry \w+, \d+ fields? differ")

    def test_a_bundle_has_what_pytorch_decided(self):
        """What it measures may differ in another process, which would ask for other kernels: there no graph is lowered again."""
        descent = "inductor.coordinate_descent_tuning = True\n"  # whose steps depend on times too
        bundle, report = (os.path.join(self.folder.name, name) for name in ("decided.kbundle", "decided"))
        code, _, errors = self.run_program(1, 96, descent, KILN_TRITON_SAVE=bundle)
        self.assertEqual(code, 0, errors)
        closed = {"KILN_TRITON_BUNDLE": bundle, "KILN_TRITON_MISS": "error", "KILN_CACHE_DIR": "/proc/none", "KILN_TRITON_REPORT": report}
        code, _, errors = self.run_program(1, 96, descent + "import triton" + self.CLOSED + self.LOWERS, **closed)
        self.assertEqual(code, 0, errors)
        self.assertEqual(self.origins(report), [{"bundle"}])
        code, _, errors = self.run_program(1, 160, descent + self.LOWERS, **closed)
        self.assertEqual((code, "a graph was lowered" in errors), (1, True), errors)

    def origins(self, report):
        with open(report) as file:
            return [{origin for origin, count in json.loads(line)["launches"].items() if count} for line in file]

    def test_pytorchs_artifacts_have_kilns_kernels(self):
        artifacts, report, bundle = (os.path.join(self.folder.name, name) for name in ("artifacts", "from-artifacts", "narrow.kbundle"))
        code, _, errors = self.run_program(2, 64, self.POOL, "open(%r, 'wb').write(torch.compiler.save_cache_artifacts()[0])" % artifacts, KILN_TRITON="1")
        self.assertEqual(code, 0, errors)
        load = "import triton\ntorch.compiler.load_cache_artifacts(open(%r, 'rb').read())\n" % artifacts
        code, _, errors = self.run_program(2, 64, load + self.POOL + self.CLOSED + self.LOWERS, KILN_TRITON_REPORT=report, KILN_CACHE_DIR="/proc/none")
        self.assertEqual(code, 0, errors)
        self.assertEqual(self.origins(report), [{"cache"}])
        # They are no bundle: what may run code of bundles alone does not ask them.
        self.assertEqual(self.run_program(1, 32, KILN_TRITON_SAVE=bundle)[0], 0)
        code, _, errors = self.run_program(1, 64, load + self.CLOSED, KILN_TRITON_BUNDLE=bundle, KILN_TRITON_MISS="error")
        self.assertEqual(code, 1)
        self.assertRegex(errors, r"kernel 'triton_per_fused\w*': no entry of its key in .*narrow.kbundle")

    def test_precompiled(self):
        if not hasattr(torch.compiler, "precompile"):
            self.skipTest("PyTorch %s has no torch.compiler.precompile" % torch.__version__)
        pair, bundle, report = (os.path.join(self.folder.name, name) for name in ("pair", "pair.kbundle", "from-pair"))
        code, _, errors = self.run_text(self.PRECOMPILED % ("", True), "1", "", pair, KILN_TRITON_SAVE=bundle)
        self.assertEqual(code, 0, errors)
        for given in ({}, {"KILN_TRITON_BUNDLE": bundle, "KILN_TRITON_MISS": "error"}):
            closed = {"KILN_CACHE_DIR": "/proc/none", "KILN_TRITON_REPORT": report, **given}
            code, _, errors = self.run_text(self.PRECOMPILED % (self.CLOSED + self.LOWERS, False), "1", "", pair, **closed)
            self.assertEqual(code, 0, errors)
        self.assertEqual(self.origins(report), [{"cache"}, {"bundle"}])

    def test_a_later_choice_replaces_an_earlier_one(self):
        from torch.compiler._cache import CacheArtifactManager as manager
        manager._ensure_cache_artifacts_registered()
        with manager.with_fresh_cache():
            for number in range(4):
                manager.record_artifact("autotune", "key", {"XBLOCK": number})
                manager.record_artifact("inductor", "key", b"guards %d" % (number // 2))
            self.assertEqual(torch_results.recorded(), [("autotune", "key", b'{"XBLOCK": 3}'), ("inductor", "key", b"guards 0"), ("inductor", "key", b"guards 1")])

    def test_what_pytorch_decided_is_read_with_care(self):
        results = [("inductor", "f" + "0" * 50, os.urandom(700000)), ("autotune", "g", b"{}")]
        notes = torch_results.notes(results, {})
        self.assertEqual(sorted(torch_results.unpack(notes, "a.kbundle")), sorted(results))
        self.assertEqual(len(notes), 3)  # the first takes two
        first = next(name for name in notes if name.endswith(".001"))
        self.assertRaisesRegex(kiln.Error, "a.kbundle: note 'torch [0-9a-f]{32}' has 1 parts, expected 2",
                               list, torch_results.unpack({name: text for name, text in notes.items() if name != first}, "a.kbundle"))
        broken = dict(notes, **{first: notes[first].replace('"data": "', '"data": "0')})
        self.assertRaisesRegex(kiln.Error, "a.kbundle: note 'torch [0-9a-f]{32}' is damaged", list, torch_results.unpack(broken, "a.kbundle"))
        self.assertEqual(torch_results.notes([("inductor", "f", os.urandom(torch_results.LARGEST))], {}), {})
        self.assertEqual(torch_results.notes(results, notes), notes)  # which are in the bundle already
        self.assertEqual(torch_results.notes(results, {"torch other.000": "x" * (torch_results.LARGEST - 1000)}), {})

    def test_what_triton_would_compile_is_counted(self):
        """Without a GPU Triton cannot: that it was asked is seen by its own error."""
        bundle = os.path.join(self.folder.name, "few.kbundle")
        self.assertEqual(self.run_program(1, 64, KILN_TRITON_SAVE=bundle)[0], 0)
        code, _, errors = self.run_program(1, 128, KILN_TRITON_BUNDLE=bundle, KILN_TRITON_MISS="triton")
        self.assertEqual(code, 1)
        self.assertIn("Triton compiles nothing for the CPU", errors)
        code, _, errors = self.run_program(1, 128, KILN_TRITON="report", KILN_TRITON_BUNDLE=bundle, KILN_TRITON_MISS="compile")
        self.assertEqual(code, 0, errors)
        self.assertRegex(errors, r"kiln:   launches of code from bundles \d+, from the cache 0, compiled now [1-9]\d*")


class Captured(Cases):
    """kiln.triton.capture of programs with torch.compile in them."""

    def tearDown(self):
        kiln.triton.load()

    def run_from(self, bundle, program, *arguments):
        """What a program gives whose launches may take code from the bundle alone, counted."""
        torch._dynamo.reset()
        kiln.triton.load(bundle, miss="error")
        with Counted() as counted:
            found = program(*arguments)
        seen = self.seen()
        self.assertEqual(seen.launches["bundle"], sum(seen.launches.values()), seen.text())
        self.assertTrue(0 < counted.calls <= seen.launches["bundle"], seen.text())
        return found

    def test_forward_and_backward(self):
        torch.manual_seed(3)
        bundle, model, x = os.path.join(self.folder.name, "trained.kbundle"), Block(), torch.randn(3, 20, 48)

        def gradient(compiled, x):
            x = x.clone().requires_grad_()
            return torch.autograd.grad(compiled(x).square().sum(), x)[0]
        program = torch.compile(model)
        library = kiln.triton.capture(gradient, program, x, output=bundle)
        self.assertEqual(self.seen().kernels, [])  # nothing was loaded or launched
        self.assertGreater(len(library.kernels), 6)
        self.assertEqual(*(sorted(name.partition("[")[0] for name in one.kernels) for one in (kiln.triton.capture(gradient, program, x), library)))  # again, all of them
        torch.testing.assert_close(self.run_from(bundle, gradient, program, x), gradient(model, x), rtol=1e-4, atol=1e-4)

    def test_shapes_and_kernels_of_the_program(self):
        bundle = os.path.join(self.folder.name, "dynamic.kbundle")

        def plain(x):
            return (x.softmax(-1) + x.sum(0)).relu().t() * 3

        def program(x):
            return through(doubled, torch.compile(plain, dynamic=True)(x) + 1, BLOCK=64) - torch.compile(lambda x: through(tuned, x), fullgraph=True)(x).t()
        names = {one.partition("[")[0] for one in kiln.triton.capture(program, torch.empty(40, 64), output=bundle).kernels}
        self.assertTrue({"doubled", "doubled_0"} & names and any(name.startswith("triton_") for name in names), names)
        x = torch.randn(40, 64)
        torch.testing.assert_close(self.run_from(bundle, program, x), 2 * (plain(x) + 1) - 2 * x.t())

    def test_for_a_gpu_that_is_not_there(self):
        def program():
            with torch.device("cuda"), torch.no_grad():
                torch.compile(Block())(torch.randn(3, 20, 48))
                torch.compile(lambda x: x.sum())(torch.empty(3 << 20))
        was_there, driver = torch.cuda.is_available(), triton.runtime.driver.active
        library = kiln.triton.capture(program, targets=["sm_90a", "sm_80"])
        for target in ("sm_90a", "sm_80"):
            device = library.device("null:" + target)
            self.assertEqual({device.kernel(name).choose(*[0] * len(device.kernel(name).params), grid=1).target for name in library.kernels}, {target})
        self.assertEqual(torch.cuda.is_available(), was_there)
        self.assertIs(triton.runtime.driver.active, driver)
        if not was_there:  # how a sum is divided depends on the number of multiprocessors
            few = absent_gpu.properties_of("sm_90a")
            few.multi_processor_count = 8
            self.assertNotEqual(kiln.triton.capture(program, targets=["sm_90a"]).kernels, kiln.triton.capture(program, targets=["sm_90a"], gpu=few).kernels)

    def test_what_is_measured_is_refused(self):
        program = torch.compile(lambda x: x @ x, mode="max-autotune-no-cudagraphs")
        with self.assertRaisesRegex(Exception, "torch.compile with max_autotune: what it launches depends on times"):
            kiln.triton.capture(program, torch.empty(64, 64))
        self.assertIs(triton.compile, kiln.triton._inductor.compile)


class Inside(Cases):
    """What Inductor asks of a kernel, and what could run Triton's code unnoticed."""

    def compiled(self, name=None):
        source = triton.compiler.ASTSource(doubled, {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 64}, {})
        return triton.compile(source, target=triton_compat.GPUTarget("cpu", "", 32), options={"num_warps": 2, "num_stages": 1})

    def test_a_kernel_is_launched_as_tritons_are(self):
        kernel, x, y = self.compiled(), torch.randn(100), torch.zeros(100)
        self.assertIsInstance(kernel, triton.compiler.CompiledKernel)
        kernel.run(2, 1, 1, 0, kernel.function, kernel.packed_metadata, None, None, None, x, y, 100, 64)
        torch.testing.assert_close(y, x * 2)
        kernel[(2, 1, 1)](y, x, 100, 64)
        torch.testing.assert_close(x, y * 2)
        self.assertEqual((kernel.metadata.num_warps, kernel.metadata.name, kernel.n_spills), (2, "doubled", 0))
        self.assertEqual(self.seen().by_kiln, 2)

    def test_it_survives_a_worker(self):
        result = triton_heuristics.TritonCompileResult(self.compiled(), triton.Config({"BLOCK": 64}), {}, {})
        result.kernel.src.fn = None  # as Inductor drops functions
        there = pickle.loads(pickle.dumps(result)).kernel
        self.assertIs(type(there), type(result.kernel))
        self.assertEqual((there.hash, there.name, there.asm["ttir"]), (result.kernel.hash, "doubled", result.kernel.asm["ttir"]))

    def test_there_is_no_cubin(self):
        kernel = self.compiled()
        self.assertRaisesRegex(KeyError, "kernel 'doubled' was compiled by Kiln and has no stage 'ptx'", lambda: kernel.asm["ptx"])
        self.assertEqual(kiln.Library(kernel.asm["cubin"]).kernels, ["doubled"])  # what C++ of Inductor's loads
        with inductor.patch(strict_static_triton_launcher=True):
            self.assertIsNone(triton_heuristics.StaticTritonCompileResult.can_statically_launch(kernel, {}, {"device_type": "cuda"}, None))

    def test_libkiln_is_the_one_that_runs(self):
        """A package takes it along, also where only the loader knows the place."""
        self.compiled().run
        with unittest.mock.patch.object(aot_inductor, "candidates", lambda name: [name]):
            self.assertTrue(os.path.samefile(aot_inductor._libkiln(), support.LIBRARY))

    def test_a_static_launcher_counts_as_tritons(self):
        class Static(static_triton_launcher.StaticallyLaunchedCudaKernel):
            C_impl = types.SimpleNamespace(_launch_kernel=lambda *_: launched.append(1))
        launched, kernel = [], Static.__new__(Static)
        vars(kernel).update(name="cached", hash="ab" * 32, function=1, arg_tys="O", has_global_scratch=False, has_profile_scratch=False, num_warps=1, shared=0,
                            device_agnostic=False, _has_tensordesc=False)
        for _ in range(1000):
            kernel.run(1, 1, 1, 0, None)
        seen = self.seen()
        self.assertEqual((len(launched), seen.launches["triton"], seen.by_kiln), (1000, 1000, 0))
        self.assertEqual([(one.name, one.launches, one.reason) for one in seen.kernels], [("cached", 1000, "a cubin of Triton's from PyTorch's cache")])
        self.assertIn("Triton's: 1000 launches of cached: a cubin of Triton's from PyTorch's cache", seen.text())

    def test_a_kernel_of_tritons_counts_as_tritons(self):
        launched, kernel = [], triton.compiler.CompiledKernel.__new__(triton.compiler.CompiledKernel)
        vars(kernel).update(name="theirs", hash="cd" * 32, module=None, _run=lambda *_: launched.append(1))
        launch = kernel.run  # as Inductor's launchers keep it
        for _ in range(100):
            launch(1, 1, 1)
        kernel.run(1, 1, 1)
        self.assertEqual((len(launched), self.seen().launches["triton"]), (101, 101))

    def test_no_assembler_is_asked_for_its_version(self):
        import torch.utils._triton as pytorchs
        with unittest.mock.patch.object(subprocess, "Popen", side_effect=AssertionError("a process was started")):
            self.assertRegex(pytorchs.triton_hash_with_backend(), "^[0-9A-F]{64}$")

    def test_pytorchs_caches_have_other_keys(self):
        ours = triton_compat.triton_key()
        kiln.triton.disable()
        theirs = triton_compat.triton_key()
        kiln.triton.enable()
        self.assertRegex(ours, "^%s-.*-kiln %s$" % (re.escape(triton.__version__), re.escape(kiln.version())))
        self.assertNotEqual(ours, theirs)
        self.assertNotEqual(self.compiled().hash, self.compiled().src.hash())

    def test_keys_tell_tritons_apart(self):
        """Its library by the linker's number, read whole where it has none; its Python by content."""
        whole, seen = lambda: "read whole", set()
        note = struct.pack("<III", 4, 20, 3) + b"GNU\0"
        other = struct.pack("<III", 4, 4, 1) + b"GNU\0" + bytes(4)
        with tempfile.TemporaryDirectory() as folder:
            for notes, number in ((note + bytes(range(20)), bytes(range(20)).hex()), (other + note + bytes(20), "00" * 20), (other, None), (note[:-2], None), (b"", None)):
                path = os.path.join(folder, "libtriton.so")
                header = b"\x7fELF\x02\x01" + bytes(26) + struct.pack("<Q", 64) + bytes(14) + struct.pack("<HH", 56, 1) + bytes(6)
                with open(path, "wb") as file:
                    file.write(header + struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(notes), len(notes), 4) + notes)
                self.assertEqual(triton_identity.build_id(path), number)
            for cut in range(0, 130, 7):
                with open(path, "r+b") as file:
                    file.truncate(130 - cut)
                self.assertIsNone(triton_identity.build_id(path))
            shutil.copytree(os.path.dirname(triton.__file__), os.path.join(folder, "triton"), ignore=lambda _, names: [name for name in names if name.endswith((".so", ".a", ".h"))])
            with unittest.mock.patch.object(triton, "__file__", os.path.join(folder, "triton", "__init__.py")):
                for number in ("ab" * 20, "cd" * 20, None):
                    with unittest.mock.patch.object(triton_identity, "build_id", lambda _, number=number: number):
                        triton_identity.of.cache_clear()
                        seen.add(triton_identity.of(whole))
                self.assertIn("read whole", seen)
                with open(os.path.join(folder, "triton", "language", "core.py"), "a") as file:
                    file.write("#")
                triton_identity.of.cache_clear()
                seen.add(triton_identity.of(whole))
        triton_identity.of.cache_clear()
        self.assertEqual(len(seen), 4)


if __name__ == "__main__":
    sys.exit(support.main(__name__))
