# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A GPU for PyTorch where there is none, as far as TorchInductor asks for one when it lowers a graph of fake tensors: nothing is loaded and nothing launched."""
import contextlib
import re
import types
from unittest import mock

import torch
from torch._dynamo.device_interface import CudaInterface
from torch._inductor.constant_folding import ConstantFolder
from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from triton.runtime import driver

# What kernels of Inductor's depend on, by compute capability: of the GPU for servers that most have. (name, multiprocessors, threads of each, shared memory of a block, L2, memory)
_KNOWN = {
    (7, 0): ("Tesla V100-SXM2-16GB", 80, 2048, 98304, 6 << 20, 16 << 30),
    (7, 5): ("Tesla T4", 40, 1024, 65536, 4 << 20, 15 << 30),
    (8, 0): ("NVIDIA A100-SXM4-80GB", 108, 2048, 166912, 40 << 20, 80 << 30),
    (8, 6): ("NVIDIA A10", 72, 1536, 101376, 6 << 20, 23 << 30),
    (8, 9): ("NVIDIA L4", 58, 1536, 101376, 48 << 20, 23 << 30),
    (9, 0): ("NVIDIA H100 80GB HBM3", 132, 2048, 232448, 50 << 20, 80 << 30),
    (10, 0): ("NVIDIA B200", 148, 2048, 232448, 126 << 20, 178 << 30),
    (12, 0): ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 188, 1536, 101376, 128 << 20, 95 << 30),
}


def properties_of(target):
    """Of a target such as "sm_90a"; None where it is no GPU of NVIDIA's that is known."""
    found = re.match(r"sm_(\d+)(\d)[af]?$", target)
    known = _KNOWN.get(tuple(map(int, found.groups()))) if found else None
    if known is None:
        return None
    name, multiprocessors, threads, shared, l2, memory = known
    return types.SimpleNamespace(
        name=name, major=int(found[1]), minor=int(found[2]), multi_processor_count=multiprocessors, max_threads_per_multi_processor=threads, warp_size=32,
        regs_per_multiprocessor=65536, max_threads_per_block=1024, shared_memory_per_block=49152, shared_memory_per_block_optin=shared, L2_cache_size=l2,
        total_memory=memory, gcnArchName="")


class _OnTheCpu(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        args, kwargs = tree_map_only(torch.device, lambda _: torch.device("cpu"), (args, kwargs or {}))
        return function(*args, **kwargs)


def _on_the_cpu(theirs):
    """Inductor computes constants of a graph where they are: here that is the CPU."""
    def run(*arguments):
        with _OnTheCpu():
            return theirs(*arguments)
    return run


@contextlib.contextmanager
def pretended(properties):
    """Inside, torch.cuda says that there is one GPU with these properties, as torch.cuda.get_device_properties gives them."""
    answers = {"is_available": True, "device_count": 1, "current_device": 0, "_lazy_init": None, "_exchange_device": 0, "_maybe_exchange_device": 0, "synchronize": None,
               "is_current_stream_capturing": False, "get_rng_state": torch.zeros(16, dtype=torch.uint8), "set_rng_state": None, "_get_device_properties": properties,
               "_get_device": torch.device("cuda", 0), "get_device_capability": (properties.major, properties.minor)}
    with contextlib.ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, lambda *_, answer=answer: answer, create=True))
        for name in ("_default", "_active"):  # Triton's driver that is made inside would stay
            stack.enter_context(mock.patch.object(driver, name, None))
        stack.enter_context(mock.patch.object(FakeTensorMode, "avoid_device_init", True))  # as where torch.cuda.is_available() says the truth
        for owner, name in ((ConstantFolder, "run"), (UniformValueConstantFolder, "__init__")):
            stack.enter_context(mock.patch.object(owner, name, _on_the_cpu(getattr(owner, name))))
        for name in ("exchange_device", "maybe_exchange_device"):
            stack.enter_context(mock.patch.object(CudaInterface, name, staticmethod(lambda *_: 0)))
        for name in ("torch._subclasses.fake_tensor.init_gpu_context", "torch._inductor.fx_passes.joint_graph.lazy_init", "torch.accelerator.is_available"):
            stack.enter_context(mock.patch(name, lambda *_: None))
        yield
