# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors by which the extension proves how it reads PyTorch's (python/extension/handles.c): whatever mode the program is in, they are plain ones."""
import torch
from torch.utils._python_dispatch import _disable_current_modes


def tensors():
    """A tensor of 2 x 3 of f32, of which every other column is there, and a Parameter of the same."""
    with _disable_current_modes(), torch.inference_mode(False):
        half = torch.zeros(2, 6, dtype=torch.float32, device="cpu")[:, ::2]
        return half, torch.nn.Parameter(half)
