# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One process of bench/triton_suites.py: it runs cases by Kiln or by Triton, as lines of JSON on its input tell it, and answers each with a line on its output.

    {"do": "first", "case": 3}              makes the case and runs it once, tuners included; keeps its results, compares them with those of the other process
    {"do": "time", "reps": 5}               the time on the GPU of each kernel of Triton's language, for each run, L2 flushed before each direction
    {"do": "drop"}                          forgets the case
"""
import json
import os
import sys
import zlib

FLUSH_BYTES = 256 << 20
SAMPLE = 1 << 18
SEPARATOR = "spin_kernel"  # of torch.cuda._sleep: nothing else launches it


class Running:
    """A case that has been made."""

    def __init__(self, case, torch):
        self.torch, self.case = torch, case
        torch.manual_seed(zlib.crc32(case.title.encode()))
        self.call = case.make()
        self.kept = [one.detach().clone() for one in self.call.inputs]
        self.gradients = None

    def restore(self):
        with self.torch.no_grad():
            for one, kept in zip(self.call.inputs, self.kept):
                one.copy_(kept)

    def forward(self):
        found = self.call.run()
        return [one for one in (found if isinstance(found, (tuple, list)) else [found]) if isinstance(one, self.torch.Tensor)]

    def backward(self, results):
        """Gradients of the inputs, or None where there are none to have."""
        inputs, results = self.call.differentiable(), [one for one in results if one.requires_grad]
        if not inputs or not results:
            return None
        if self.gradients is None:
            self.torch.manual_seed(1)
            self.gradients = [self.torch.rand_like(one, dtype=self.torch.float32).to(one.dtype) for one in results]
            self.kept_gradients = [one.clone() for one in self.gradients]
        for one, kept in zip(self.gradients, self.kept_gradients):
            one.copy_(kept)  # some are overwritten
        return self.torch.autograd.grad(results, inputs, self.gradients, allow_unused=True)


class Process:
    def __init__(self, wishes):
        self.wishes, self.is_kiln, self.names = wishes, wishes["who"] == "kiln", set()
        if self.is_kiln:
            import kiln._triton_startup  # noqa: F401  as kiln-triton.pth of an installed package does
        import torch
        import suite_cases
        self.torch = torch
        if not self.is_kiln:
            self._note_names()
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
        self.cases = suite_cases.cases(wishes["seed"], wishes["tutorials"], wishes["only"], wishes["most"])
        self.running = None

    def _note_names(self):
        """Of the kernels that Triton loads."""
        from triton.compiler import CompiledKernel
        theirs, names = CompiledKernel.__init__, self.names

        def noted(kernel, *arguments):
            theirs(kernel, *arguments)
            names.add(kernel.metadata.name)
        CompiledKernel.__init__ = noted

    def launches(self):
        if not self.is_kiln:
            return {}
        import kiln.triton
        return kiln.triton.monitor().launches

    def hello(self):
        torch = self.torch
        source, target = (torch.empty(1 << 30, dtype=torch.int8, device="cuda") for _ in range(2))
        times = []
        for _ in range(7):
            begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
            begin.record(), target.copy_(source), end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
        import triton
        return {"device": torch.cuda.get_device_name(), "versions": "PyTorch %s, Triton %s" % (torch.__version__, triton.__version__), "copy": 2 * source.numel() / min(times) * 1e3}

    def first(self, case):
        torch = self.torch
        self.drop()
        self.running = running = Running(self.cases[case], torch)
        before = self.launches()
        results = running.forward()
        backward = running.backward(results)
        torch.cuda.synchronize()
        after = self.launches()
        self.save(results, backward or ())
        return {"launches": {name: after[name] - before[name] for name in after}, "apart": self.apart(), "flops": running.call.flops}

    def _path(self, who):
        return os.path.join(self.wishes["folder"], "results.%s" % who)

    def save(self, *results):
        """A part of each result, evenly spread, and its sum."""
        torch, kept = self.torch, []
        for one in (one.detach() for part in results for one in part if one is not None):
            flat = one.flatten()
            step = max(1, flat.numel() // SAMPLE)
            kept.append((flat[::step].double().cpu(), flat.double().abs().sum().item() if flat.numel() <= 1 << 28 else None))
        torch.save(kept, self._path(self.wishes["who"]))

    def apart(self):
        """Relative distance of each result from the other process's, which was asked first; None where that did not run."""
        if not self.is_kiln or not os.path.exists(self._path("triton")):
            return None
        mine, theirs = (self.torch.load(self._path(who)) for who in ("kiln", "triton"))
        if len(mine) != len(theirs):
            return [float("inf")]
        found = []
        for (a, total), (b, wanted) in zip(mine, theirs):
            far = ((a - b).norm() / b.norm().clamp_min(1e-30)).item()
            if total is not None and wanted:
                far = max(far, abs(total - wanted) / abs(wanted))
            found.append(far if far == far else 0.0 if bool((a.isnan() == b.isnan()).all()) else float("inf"))
        return found

    def time(self, reps):
        torch, running = self.torch, self.running
        before = self.launches()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            for _ in range(reps):
                running.restore()
                self._separate()
                results = running.forward()
                self._separate()
                running.backward(results)
                del results
            torch.cuda.synchronize()
        parts = self.split(seen)
        after = self.launches()
        return {"forward": parts[0::2], "backward": parts[1::2], "launches": {name: after[name] - before[name] for name in after}}

    def _separate(self):
        self.flush.zero_()
        self.torch.cuda._sleep(200000)  # the host runs ahead

    def split(self, seen):
        """[(name, us)] of each part between separators."""
        events = sorted((one.start_ns(), one.name(), one.duration_ns() / 1e3) for one in seen.profiler.kineto_results.events()
                        if one.device_type() == self.torch.autograd.DeviceType.CUDA)
        parts = []
        for _, name, us in events:
            if SEPARATOR in name:
                parts.append([])
            elif parts and (name.startswith("kiln_") if self.is_kiln else name in self.names):
                parts[-1].append((name, us))
        return parts

    def drop(self):
        self.running = None
        self.torch.cuda.empty_cache()
        return {}


def main():
    process = Process(json.loads(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what programs print is no answer
    print(json.dumps(process.hello()), file=answers, flush=True)
    for line in sys.stdin:
        wish = json.loads(line)
        try:
            found = getattr(process, wish.pop("do"))(**wish)
        except Exception as error:
            import traceback
            traceback.print_exc()
            found = {"error": "%s: %s" % (type(error).__name__, str(error)[:1000])}
            process.running = None
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
