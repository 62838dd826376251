# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The device of the arguments of a launch. PyTorch need not be installed: then kernels run on the CPU, and every object with `data_ptr` and `dtype` is a tensor, as
for Triton. It may also be in the middle of its own import, which imports Triton, so nothing of it is used before the first launch."""
import collections
import functools

try:
    import torch
except ImportError:
    torch = None
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend

READ_FOR = GPUTarget("cuda", 90, 32)  # what Triton's front end is told where the kernel is for the host
CPU = collections.namedtuple("Device", "type index")("cpu", None)  # where there is no PyTorch to say it


def has_gpu():
    return torch is not None and torch.cuda.is_available()


def is_capturing():
    return has_gpu() and torch.cuda.is_current_stream_capturing()


def cpu():
    return CPU if torch is None else torch.device("cpu")


class Place:
    """A device with what Triton's front end is told of it and the target to compile for."""

    def __init__(self, device, read_for, target):
        self.device, self.read_for, self.target = device, read_for, target
        self.backend = make_backend(read_for)


def target_of(read_for):
    """The target to compile for where Triton would compile for that one."""
    if read_for.backend == "hip":
        return read_for.arch
    return "sm_%d%s" % (read_for.arch, "a" if read_for.arch >= 90 else "")


@functools.lru_cache(None)
def place_of(device) -> Place:
    if device.type == "cpu":
        return Place("host", READ_FOR, "host")
    if device.type != "cuda" or not torch.cuda.is_available():
        raise TypeError("expected a tensor with memory on the CPU or a GPU, found one on %s%s" % (device, ", and there is no GPU" if device.type == "cuda" else ""))
    index = torch.cuda.current_device() if device.index is None else device.index
    properties = torch.cuda.get_device_properties(index)
    if torch.version.hip:
        read_for = GPUTarget("hip", properties.gcnArchName.split(":")[0], properties.warp_size)
    else:
        read_for = GPUTarget("cuda", 10 * properties.major + properties.minor, 32)
    return Place("%s:%d" % (read_for.backend, index), read_for, target_of(read_for))


def device_of(values):
    """Where the first tensor is; without one, where Triton would launch."""
    if torch is None:
        return CPU
    for value in values:
        kind = value.__class__
        if kind is torch.Tensor or kind is torch.nn.Parameter:
            return value.device
        if isinstance(value, tuple):
            if any(hasattr(one, "data_ptr") for one in value):
                return device_of(value)
            continue
        device = getattr(value, "device", None) or getattr(getattr(value, "base", None), "device", None)
        if isinstance(device, torch.device):  # NumPy's arrays name theirs by a text
            return device
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def strided(base, shape, strides):
    """A view of a tensor, as a descriptor of the host has it."""
    if torch is None:
        raise TypeError("tensor descriptors want PyTorch, which is not installed")
    return torch.as_strided(base, list(shape), list(strides))
