#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a small model whose normalisation, forward and backward, is Kiln's, beside the same model of PyTorch alone: train.py norms.kbundle [DEVICE]

    kiln build ../../../kernels/norms.kiln -t host,sm_90a -o norms.kbundle
"""
import sys

import torch

import kiln.torch

STEPS, ROWS, COLUMNS, EPSILON = 50, 64, 128, 1e-5


def rms_norm(x, w):
    """The operation allocates what it returns, and has derivatives: norms.kiln states both (@returns, @backward)."""
    y, _ = torch.ops.example.rms_norm(x, w, *x.shape, EPSILON)
    return y


class Model(torch.nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm, self.weight = norm, torch.nn.Parameter(torch.ones(COLUMNS))
        self.first, self.last = torch.nn.Linear(32, COLUMNS), torch.nn.Linear(COLUMNS, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.norm(self.first(x), self.weight)))


def train(norm, device):
    """The loss of every step."""
    torch.manual_seed(1)
    model, x = Model(norm).to(device), torch.randn(ROWS, 32).to(device)
    target = x.square().sum(1, keepdim=True) / 32
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.05), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    kiln.torch.register(sys.argv[1], namespace="example")
    ours = train(rms_norm, device)
    eager = train(lambda x, w: torch.nn.functional.rms_norm(x, (COLUMNS,), w, EPSILON), device)
    apart = max(abs(a - b) / b for a, b in zip(ours, eager))
    print("%d steps on %s: loss %.4f to %.4f, at most %.1e of it from PyTorch's" % (STEPS, device, ours[0], ours[-1], apart))
    return apart > 1e-3 or not ours[-1] < 0.5 * ours[0]


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) > 1 else __doc__)
