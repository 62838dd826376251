#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a small model whose normalisation, forward and backward, is Kiln's, beside the same model of JAX alone: train.py norms.kbundle

    kiln build ../../../kernels/norms.kiln -t host,sm_90a -o norms.kbundle
"""
import sys

import jax
import jax.numpy as jnp

import kiln.jax

STEPS, ROWS, COLUMNS, EPSILON = 50, 64, 128, 1e-5


def kilns(x, w):
    y, _ = kiln.jax.call(sys.argv[1], "rms_norm", x, w, *x.shape, EPSILON)
    return y


def jaxs(x, w):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + EPSILON) * w


def train(norm):
    """The loss of every step."""
    keys = jax.random.split(jax.random.key(1), 3)
    model = {"first": jax.random.normal(keys[0], (32, COLUMNS)) / 6, "scale": jnp.ones(COLUMNS), "last": jax.random.normal(keys[1], (COLUMNS, 1)) / 12}
    x = jax.random.normal(keys[2], (ROWS, 32))
    target = jnp.sum(x * x, axis=1, keepdims=True) / 32

    def loss(model):
        return jnp.mean((jnp.tanh(norm(x @ model["first"], model["scale"])) @ model["last"] - target) ** 2)

    @jax.jit
    def step(model):
        value, gradient = jax.value_and_grad(loss)(model)
        return value, jax.tree.map(lambda one, its: one - 0.05 * its, model, gradient)
    losses = []
    for _ in range(STEPS):
        value, model = step(model)
        losses.append(float(value))
    return losses


def main():
    ours, theirs = train(kilns), train(jaxs)
    apart = max(abs(a - b) / b for a, b in zip(ours, theirs))
    print("%d steps on %s: loss %.4f to %.4f, at most %.1e of it from JAX's" % (STEPS, jax.devices()[0], ours[0], ours[-1], apart))
    return apart > 1e-3 or not ours[-1] < 0.5 * ours[0]


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) > 1 else __doc__)
