# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors with which the extension checks how it reads PyTorch's (python/extension/handles.c). They are plain tensors in any mode of the program."""
import torch
from torch.utils._python_dispatch import _disable_current_modes


def tensors():
    """A 2 x 3 tensor of f32 made of every other column of another one, a Parameter of it, and what has the same memory and the other sign."""
    with _disable_current_modes(), torch.inference_mode(False):
        half = torch.zeros(2, 6, dtype=torch.float32, device="cpu")[:, ::2]
        return half, torch.nn.Parameter(half), torch._neg_view(half)
