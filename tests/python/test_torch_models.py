# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/torch_models.py without a GPU: its ten models run, launches are counted at the driver by who calls it, CPU time of every process is seen, and each way in which
a run could fall back to Triton or compile is found. With KILN_TEST_FULL=1 a model is compiled, saved and started from its bundle on the CPU."""
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import support

BENCH = os.path.join(support.ROOT, "bench")
sys.path.insert(0, BENCH)
import model_process  # noqa: E402
import torch_models  # noqa: E402

try:
    import torch
    import triton  # noqa: F401
    import ten_models
    absent = None
except ImportError as missing:
    absent = str(missing)


class Models(unittest.TestCase):
    def setUp(self):
        if absent:
            self.skipTest(absent)

    def test_all_run(self):
        self.assertEqual(ten_models.NAMES, torch_models.NAMES)
        for name in ten_models.NAMES:
            with self.subTest(name):
                found = model_process.eager({"model": name, "device": "cpu", "small": True})
                self.assertTrue(found["gradients"])
                self.assertEqual(found["losses"], [one for one in found["losses"] if 0 < one < 10])
        self.assertGreater(len(ten_models.make("bert", "cpu", True).inputs), 2)  # dynamic shapes

    def test_they_are_the_same_in_every_process(self):
        first, second = (ten_models.make("vit", "cpu", True) for _ in range(2))
        self.assertTrue(all(map(torch.equal, first.inputs[0], second.inputs[0])))
        self.assertTrue(all(map(torch.equal, first.model.parameters(), second.model.parameters())))

    def run_bench(self, *words):
        done = subprocess.run([sys.executable, os.path.join(BENCH, "torch_models.py"), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1200)
        return done.returncode, done.stdout.decode(errors="replace")

    def test_a_dry_run(self):
        folder = os.path.join(FOLDER, "dry")
        code, text = self.run_bench("--dry-run", folder, "--models", "gemm")
        self.assertEqual(code, 0, text)
        with open(os.path.join(folder, "models.jsonl")) as file:
            line, = map(json.loads, file)
        self.assertEqual((line["model"], line["parts"]["eager"]["gradients"]), ("gemm", True))
        code, text = self.run_bench("--dry-run", folder, "--models", "gemm")  # its line is there
        self.assertNotIn("eager   losses", text)

    def test_time_that_is_over(self):
        folder = os.path.join(FOLDER, "late")
        code, text = self.run_bench("--dry-run", folder, "--models", "gemm,flex", "--seconds", "0")
        self.assertEqual(code, 1, text)
        self.assertIn("flex: not begun", text)
        self.assertIn("NOT all hold", text)

    def test_a_part_that_takes_too_long_is_ended(self):
        code, text = self.run_bench("--dry-run", os.path.join(FOLDER, "long"), "--models", "gemm,flex", "--limit", "0")
        self.assertEqual(code, 1, text)
        for name in ("gemm", "flex"):
            self.assertRegex(text, "%s +eager +not done after 0 s" % name)

    @unittest.skipUnless(os.environ.get("KILN_TEST_FULL"), "KILN_TEST_FULL=1 compiles a model")
    def test_on_the_cpu(self):
        folder = os.path.join(FOLDER, "cpu")
        code, text = self.run_bench(os.path.join(support.BUILD, "python"), folder, "--device", "cpu", "--models", "gpt2", "--steps", "2")
        self.assertEqual(code, 0, text)
        with open(os.path.join(folder, "models.jsonl")) as file:
            parts = json.loads(file.read())["parts"]
        self.assertGreater(parts["kiln"]["monitor"]["compiled"], 0)
        self.assertGreater(parts["bundle"]["monitor"]["bundle"], 0)
        self.assertLess(parts["bundle"]["compiling"]["cpu"], parts["kiln"]["compiling"]["cpu"])


class Bytecode(unittest.TestCase):
    def test_what_pytorch_came_without_is_made(self):
        folder = tempfile.mkdtemp(dir=FOLDER)
        os.makedirs(os.path.join(folder, "site", "torch"))
        with open(os.path.join(folder, "site", "torch", "__init__.py"), "w") as file:
            file.write("print(__cached__)\n")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((os.path.join(folder, "site"), BENCH)), "PYTHONDONTWRITEBYTECODE": "1"}
        script = "import bytecode, json, os; print(json.dumps(bytecode.found_in(dict(os.environ), %r)))" % folder

        def run(environment, script):
            return subprocess.run([sys.executable, "-S", "-c", script], stdout=subprocess.PIPE, env=environment, check=True).stdout.decode().strip()
        found = json.loads(run(environment, script))
        self.assertTrue(found["PYTHONPYCACHEPREFIX"].startswith(folder))
        self.assertNotIn("PYTHONDONTWRITEBYTECODE", found)
        made = run({**found, "PYTHONDONTWRITEBYTECODE": "1"}, "import torch")
        self.assertTrue(made.startswith(folder) and os.path.exists(made), made)
        self.assertEqual(json.loads(run(found, script)), found)  # nothing is missing now


LAUNCH = """
import sys
import kiln
sys.path.insert(0, %r)
import model_process
driver = model_process.Driver(sys.argv[1])
device = kiln.Library(sys.argv[2]).device("cuda:0")
kernel, memory = device.kernel("gridless"), device.memory(5, "i32")
def launch(count):
    for _ in range(count):
        kernel(memory, grid=5)
    device.sync()
launch(3)
print(driver.launched_by(lambda: launch(4)), driver.launches())
""" % BENCH


class Launches(unittest.TestCase):
    def test_who_calls_the_driver(self):
        interpreter = os.path.join(support.BUILD, "interpreted", "libcuda.so.1")
        for wanted, why in ((shutil.which("cc"), "cc is not installed"), (os.path.exists(interpreter), "the interpreter of PTX is not built"),
                            (not support.is_instrumented(), "the sanitizer answers dlsym itself")):
            if not wanted:
                self.skipTest(why)
        folder = tempfile.mkdtemp(dir=FOLDER)
        counter, bundle = os.path.join(folder, "launches.so"), os.path.join(folder, "ptx.kbundle")
        subprocess.run(["cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", counter, os.path.join(BENCH, "launches.c"), "-ldl"], check=True)
        support.tool("build", os.path.join(FOLDER, "test.kiln"), "-t", "sm_80", "--emit=ptx", "--no-cache", "-q", "-o", bundle)
        done = subprocess.run([sys.executable, "-c", LAUNCH, counter, bundle], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, env={
            **os.environ, "LD_PRELOAD": counter, "LD_LIBRARY_PATH": os.path.dirname(interpreter), "PYTHONPATH": os.path.join(support.BUILD, "python")})
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        self.assertEqual(done.stdout.decode().strip(), "{'libkiln.so.0': 4} {'libkiln.so.0': 7}")


class Times(unittest.TestCase):
    def test_a_process_that_still_runs_counts(self):
        """As Kiln's code generator does, which stays."""
        path = os.path.join(FOLDER, "compiles")
        model_process.Compiling.path = path
        work = "import sys, time\nfor line in sys.stdin:\n    while time.process_time() < 0.4: pass\n    print(flush=True)"
        process = subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            def use():
                with model_process.Compiling.noted(), model_process.Compiling.noted():
                    process.stdin.write(b"\n")
                    process.stdin.flush()
                    process.stdout.readline()
            use()
            found = model_process.compiling(path)
        finally:
            process.stdin.close()
            process.wait()
            process.stdout.close()
        self.assertEqual(found["processes"], 1)
        self.assertGreater(found["cpu"], 0.3)

    def test_threads_at_the_same_time_count_once(self):
        path = os.path.join(FOLDER, "threads")
        model_process.Compiling.path = path
        together = threading.Barrier(3)

        def use():
            with model_process.Compiling.noted():
                together.wait()
                time.sleep(0.2)
        threads = [threading.Thread(target=use) for _ in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        with open(path) as file:
            row, = map(json.loads, file)
        self.assertLess(row["cpu"], 0.2 + row["wall"])


PART = {"imports": 2.0, "driver": 0.5, "first": 8.0, "cpu_first": 20.0, "compiling": {"cpu": 4.0, "wall": 5.0, "processes": 3}, "process": 20.0, "step": 0.002, "programs": ["python"],
        "versions": "PyTorch 2.11, Triton 3.6", "device": "a GPU", "apart": [{"from_f32": 0.01, "eager_from_f32": 0.01, "from_eager": 0.004}],
        "launched_by_step": {"libkiln.so.0": 9}, "launched": {"libkiln.so.0": 90},
        "profile": {"kiln": {"count": 9, "us": 100.0}, "triton": {"count": 0, "us": 0.0}, "other": {"count": 5, "us": 50.0}}}
NONE = {"bundle": 0, "cache": 0, "compiled": 0, "missing": 0, "triton": 0}


def record():
    parts = {who: copy.deepcopy(PART) for who in torch_models.PARTS}
    parts["kiln"]["monitor"], parts["bundle"]["monitor"] = dict(NONE, compiled=90), dict(NONE, bundle=90)
    for who in ("triton", "warm"):
        parts[who].update(launched={"libtorch_python.so": 90}, launched_by_step={"libtorch_python.so": 9})
        parts[who]["profile"] = {"kiln": {"count": 0, "us": 0.0}, "triton": {"count": 9, "us": 110.0}, "other": {"count": 5, "us": 50.0}}
        parts[who]["compiling"] = dict(PART["compiling"], cpu=10.0)
    return parts


class Judgement(unittest.TestCase):
    def test_a_good_record(self):
        found = torch_models.checks(record())
        self.assertGreater(len(found), 13)
        self.assertTrue(all(found.values()), found)

    def test_each_fault_is_found(self):
        for who, fault, expected in (
                ("kiln", lambda one: one["launched"].update({"libtorch_python.so": 1}), "kiln: nobody but Kiln and NVIDIA's libraries launched (driver)"),
                ("kiln", lambda one: one["launched"].update({"libkiln.so.0": 91}), "kiln: driver and monitor count the same"),
                ("kiln", lambda one: one["monitor"].update(triton=1), "kiln: Kiln launched, Triton did not (monitor)"),
                ("bundle", lambda one: one["profile"]["triton"].update(count=1), "bundle: no kernel of Triton's (profiler)"),
                ("bundle", lambda one: one["monitor"].update(compiled=1, bundle=89), "bundle: compiled nothing"),
                ("bundle", lambda one: one["monitor"].update(missing=1), "bundle: no launch without code"),
                ("bundle", lambda one: one["programs"].append("ptxas"), "bundle: no compiler was started"),
                ("kiln", lambda one: one["apart"][0].update(from_f32=0.013), "kiln: as near to f32 as Triton or eager, shape 0"),
                ("triton", lambda one: one.update(launched={}), "triton: the count at the driver sees its launches"),
                ("triton", lambda one: one.update(error="exit 1"), "triton: runs"), ("bundle", lambda one: one.update(error="exit 1"), "bundle: runs")):
            with self.subTest(expected):
                parts = record()
                fault(parts[who])
                found = torch_models.checks(parts)
                self.assertEqual([what for what, good in found.items() if not good], [expected])

    def test_sums(self):
        """The table of two models, and a line of a part that failed."""
        path = os.path.join(FOLDER, "lines.jsonl")
        with open(path, "w") as file:
            for name in ("bert", "llama"):
                parts = record()
                if name == "bert":
                    parts["warm"] = {"error": "exit 9: no memory"}
                file.write(json.dumps({"model": name, "parts": parts, "checks": torch_models.checks(parts)}) + "\n")
        done = subprocess.run([sys.executable, os.path.join(BENCH, "torch_models.py"), "--sum", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text = done.stdout.decode()
        self.assertEqual(done.returncode, 0, text)
        rows = [line.split() for line in text.splitlines()]
        self.assertIn(["llama", "9/9", "9/9", "0/9", *["0.01"] * 3, *["0.004"] * 2], rows)
        self.assertIn(["sum", "8.00", "-", "20.00", "-", "0.40", "16.00", "-", "16.00", "-", "1.00"], rows)
        self.assertIn(["geometric", "mean", "1.000", "0.909"], rows)
        self.assertIn("bert, warm: exit 9: no memory", text)


if __name__ == "__main__":
    sys.exit(support.main(__name__))
