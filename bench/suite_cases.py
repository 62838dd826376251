# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases for bench/triton_suites.py: every operation of Liger Kernel that launches kernels of Triton, and Triton's tutorials, at sizes that are drawn. A case has
a name, the words of its sizes, and `make`, which makes the inputs on the GPU and returns a Call. Nothing here knows who compiles."""
import ast
import linecache
import math
import os
import random
import types

import torch

BF16, F16, F32, F8 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e5m2
NAMES = {BF16: "bf16", F16: "f16", F32: "f32", F8: "e5m2"}
HIDDEN = (1024, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192)
VOCABULARY = (32000, 32768, 50257, 65024, 100352, 128256, 151936, 200064, 256000, 262144)
HEADS = ((8, 1), (16, 8), (28, 4), (32, 8), (40, 8), (64, 8))  # of queries, of keys
LOGITS = 3 << 28  # bytes of a matrix of logits, at most


class Call:
    """run() gives the results; those that need gradients get `wanted` gradients for them. Every tensor of `inputs` is as it was before each run."""

    def __init__(self, run, inputs, flops=None):
        self.run, self.inputs, self.flops = run, inputs, flops or {}

    def differentiable(self):
        return [one for one in self.inputs if one.requires_grad]


class Case:
    def __init__(self, name, sizes, dtype, make, is_tuned=False):
        self.name, self.sizes, self.dtype, self.make, self.is_tuned = name, sizes, NAMES[dtype], make, is_tuned
        self.title = "%s %s %s" % (name, sizes, self.dtype)


def normal(*shape, dtype=F32, scale=1.0, grad=True):
    return (torch.randn(*shape, device="cuda", dtype=dtype) * scale).requires_grad_(grad)


def ones(*shape, dtype=F32):
    return torch.ones(shape, device="cuda", dtype=dtype).requires_grad_(True)


def labels(count, below):
    return torch.randint(0, below, (count,), device="cuda")


def chance(*shape, dtype=F32, grad=True, log=False):
    """Rows of probabilities, or of their logarithms."""
    logits = torch.randn(*shape, device="cuda")
    return (torch.log_softmax(logits, -1) if log else torch.softmax(logits, -1)).to(dtype).requires_grad_(grad)


# ------------------------------------------------------------------------------------------ Liger

class Draw:
    """The sizes of one case: three for each operation, bf16 twice and f32."""

    def __init__(self, seed, name, number):
        self.random = random.Random("%s %s %d" % (seed, name, number))
        self.dtype = F32 if number % 3 == 2 else BF16

    def one(self, values):
        return self.random.choice(values)

    def tokens(self):
        return self.one((2048, 4096, 6000, 8192, 16384))

    def hidden(self):
        return self.one(HIDDEN)

    def logits(self, copies=1, most=262144):
        """Rows and columns of logits that take at most LOGITS bytes for each of `copies`."""
        columns = self.one([one for one in VOCABULARY if one <= most])
        rows = LOGITS // (columns * self.dtype.itemsize * copies)
        return max(256, 1 << int(math.log2(rows))), columns


def rows_of(function, *more):
    """An operation on rows of the hidden size."""
    def make(draw, ops):
        tokens, hidden, dtype = draw.tokens(), draw.hidden(), draw.dtype
        return "%dx%d" % (tokens, hidden), lambda: function(ops, tokens, hidden, dtype, *more)
    return make


def rms_norm(ops, tokens, hidden, dtype, casting):
    x, w = normal(tokens, hidden, dtype=dtype), ones(hidden, dtype=dtype)
    return Call(lambda: ops.LigerRMSNormFunction.apply(x, w, 1e-6, 0.0 if casting == "llama" else 1.0, casting), [x, w])


def add_rms_norm(ops, tokens, hidden, dtype):
    x, r, w = normal(tokens, hidden, dtype=dtype), normal(tokens, hidden, dtype=dtype), ones(hidden, dtype=dtype)
    return Call(lambda: ops.LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6), [x, r, w])


def modulated_rms_norm(draw, ops):
    batch, length, hidden, dtype = draw.one((2, 4)), draw.one((1024, 4096)), draw.hidden(), draw.dtype

    def make():
        x, w = normal(batch, length, hidden, dtype=dtype), ones(hidden, dtype=dtype)
        scale, shift = (normal(batch, hidden, dtype=dtype) for _ in range(2))
        return Call(lambda: ops.LigerModulatedRMSNormFunction.apply(x, w, scale, shift, 1e-6), [x, w, scale, shift])
    return "%dx%dx%d" % (batch, length, hidden), make


def layer_norm(ops, tokens, hidden, dtype):
    x, w, b = normal(tokens, hidden, dtype=dtype), ones(hidden, dtype=dtype), normal(hidden, dtype=dtype)
    return Call(lambda: ops.LigerLayerNormFunction.apply(x, w, b, 1e-5), [x, w, b])


def group_norm(draw, ops):
    batch, channels, groups, pixels = draw.one((4, 8, 16)), draw.one((128, 320, 512)), 32, draw.one((16 * 16, 32 * 32))  # ptxas takes minutes for more

    def make():
        x, w, b = normal(batch, channels, pixels, dtype=draw.dtype), ones(channels, dtype=draw.dtype), normal(channels, dtype=draw.dtype)
        return Call(lambda: ops.LigerGroupNormFunction.apply(x, w, b, channels, groups, 1e-5), [x, w, b])
    return "%dx%dx%d" % (batch, channels, pixels), make


def dyt(ops, tokens, hidden, dtype):
    x, alpha, gamma, beta = normal(tokens, hidden, dtype=dtype), ones(1, dtype=dtype), ones(hidden, dtype=dtype), normal(hidden, dtype=dtype)
    return Call(lambda: ops.LigerDyTFunction.apply(x, alpha, gamma, beta), [x, alpha, gamma, beta])


def poly_norm(ops, tokens, hidden, dtype):
    x, w, b = normal(tokens, hidden, dtype=dtype), ones(3, dtype=dtype), ones(dtype=dtype)
    return Call(lambda: ops.LigerPolyNormFunction.apply(x, w, b, 1e-6), [x, w, b])


def softmax(ops, tokens, hidden, dtype):
    x = normal(tokens, hidden, dtype=dtype)
    return Call(lambda: ops.LigerSoftmaxFunction.apply(x), [x])


def sparsemax(ops, tokens, hidden, dtype):
    x = normal(tokens, hidden, dtype=dtype)
    return Call(lambda: ops.LigerSparsemaxFunction.apply(x, -1), [x])


def relu_squared(ops, tokens, hidden, dtype):
    x = normal(tokens, hidden, dtype=dtype)
    return Call(lambda: ops.LigerReLUSquaredFunction.apply(x), [x])


def gated(ops, tokens, hidden, dtype, name):
    a, b = (normal(tokens, hidden, dtype=dtype) for _ in range(2))
    return Call(lambda: getattr(ops, name).apply(a, b), [a, b])


def gate_up(ops, tokens, hidden, dtype):
    y = normal(tokens, 2 * hidden, dtype=dtype)
    return Call(lambda: ops.LigerFusedGateUpSiLUMulFunction.apply(y), [y])


def attention_residual(draw, ops):
    blocks, tokens, hidden = draw.one((4, 8)), draw.one((1024, 4096)), draw.one([one for one in HIDDEN if one <= 4096])

    def make():
        v, q, w = normal(blocks, 1, tokens, hidden, dtype=draw.dtype), normal(hidden, dtype=draw.dtype, scale=0.02), ones(hidden, dtype=draw.dtype)
        return Call(lambda: ops.LigerAttnResFunction.apply(v, q, w, 1e-6), [v, q, w])
    return "%dx%dx%d" % (blocks, tokens, hidden), make


def heads_of(draw, dtype, most=8192):
    (queries, keys), size = draw.one(HEADS), draw.one((64, 128))
    return draw.one((1, 2)), draw.one((2048, 4096, most)), queries, keys, size, dtype


def turned(*shape, dtype):
    """As a projection gives them: the heads of a token lie together."""
    batch, heads, length, size = shape
    return (torch.randn(batch, length, heads, size, device="cuda", dtype=dtype)).transpose(1, 2).requires_grad_(True)


def angles(*shape, dtype):
    half = torch.randn(*shape[:-1], shape[-1] // 2, device="cuda")
    both = torch.cat((half, half), -1)
    return both.cos().to(dtype), both.sin().to(dtype)


def rope(draw, ops):
    batch, length, queries, keys, size, dtype = heads_of(draw, draw.dtype)

    def make():
        q, k = turned(batch, queries, length, size, dtype=dtype), turned(batch, keys, length, size, dtype=dtype)
        cos, sin = angles(1, length, size, dtype=dtype)
        return Call(lambda: ops.LigerRopeFunction.apply(q, k, cos, sin), [q, k])
    return "%dx%dx%d+%dx%d" % (batch, length, queries, keys, size), make


def mrope(draw, ops):
    batch, length, queries, keys, _, dtype = heads_of(draw, draw.dtype)

    def make():
        q, k = turned(batch, queries, length, 128, dtype=dtype), turned(batch, keys, length, 128, dtype=dtype)
        cos, sin = angles(3, batch, length, 128, dtype=dtype)
        return Call(lambda: ops.LigerQwen2VLMRopeFunction.apply(q, k, cos, sin, [16, 24, 24]), [q, k])
    return "%dx%dx%d+%dx128" % (batch, length, queries, keys), make


def llama4_rope(draw, ops):
    batch, length, queries, keys, size, dtype = heads_of(draw, draw.dtype)

    def make():
        q, k = normal(batch, length, queries, size, dtype=dtype), normal(batch, length, keys, size, dtype=dtype)
        turn = torch.polar(torch.ones(length, size // 2, device="cuda"), torch.randn(length, size // 2, device="cuda"))
        return Call(lambda: ops.LigerLlama4RopeFunction.apply(q, k, turn), [q, k])
    return "%dx%dx%d+%dx%d" % (batch, length, queries, keys, size), make


def logits_of(function, copies=1, most=262144):
    """An operation on rows of a vocabulary."""
    def make(draw, ops):
        rows, columns = draw.logits(copies, most)
        return "%dx%d" % (rows, columns), lambda: function(ops, rows, columns, draw.dtype)
    return make


def cross_entropy(ops, rows, columns, dtype):
    x, target = normal(rows, columns, dtype=dtype), labels(rows, columns)
    return Call(lambda: ops.LigerCrossEntropyFunction.apply(x, target, None)[0], [x])


def cross_entropy_all(ops, rows, columns, dtype):
    """With everything that a model may ask for."""
    x, target, weight = normal(rows, columns, dtype=dtype), labels(rows, columns), torch.rand(columns, device="cuda")
    return Call(lambda: ops.LigerCrossEntropyFunction.apply(x, target, weight, -100, 1e-4, 0.1, "mean", 30.0, True)[:2], [x])


def vocabulary_parallel(ops, rows, columns, dtype):
    x, target = normal(rows, 1, columns, dtype=dtype), labels(rows, columns).view(rows, 1)
    return Call(lambda: ops.LigerVocabParallelCEFunction.apply(x, target, None, -100, 0.0, "megatron", "full"), [x])


def kl_div(ops, rows, columns, dtype):
    x, y = chance(rows, columns, dtype=dtype, log=True), chance(rows, columns, dtype=dtype, grad=False)
    return Call(lambda: ops.LigerKLDivLossFunction.apply(x, y, "batchmean", False), [x])


def jsd(ops, rows, columns, dtype):
    x, y = chance(rows, columns, dtype=dtype, log=True), chance(rows, columns, dtype=dtype, grad=False, log=True)
    return Call(lambda: ops.LigerJSDFunction.apply(x, y, None, 0.5), [x])


def tvd(ops, rows, columns, dtype):
    x, y = chance(rows, columns, dtype=dtype), chance(rows, columns, dtype=dtype, grad=False)
    return Call(lambda: ops.LigerTVDLossFunction.apply(x, y), [x])


def cross_entropy_tvd(ops, rows, columns, dtype):
    x, y, target = normal(rows, columns, dtype=dtype), normal(rows, columns, dtype=dtype, grad=False), labels(rows, columns)
    return Call(lambda: ops.LigerFusedCETVDFunction.apply(x, y, target), [x])


def grpo(draw, ops):
    rows, columns = draw.logits(2)
    batch, length = 4, rows // 4

    def make():
        logits, ids = normal(batch, length + 1, columns, dtype=draw.dtype), torch.randint(0, columns, (batch, length), device="cuda")
        old, reference = (-torch.rand(batch, length, device="cuda") - 8 for _ in range(2))
        mask, gain = torch.ones(batch, length, dtype=torch.int64, device="cuda"), torch.randn(batch, device="cuda")
        return Call(lambda: ops.GrpoLossFunction.apply(logits, old, reference, ids, gain, mask, 0.9, 0.04, 0.2, 0.4, False)[0], [logits])
    return "%dx%dx%d" % (batch, length, columns), make


def heads_linear(function, most=152000):
    """The last projection of a model, fused with a loss."""
    def make(draw, ops):
        tokens, hidden, columns = draw.one((1024, 2048, 4096)), draw.one((1024, 2048, 4096)), draw.one([one for one in VOCABULARY if one <= most])
        return "%dx%dx%d" % (tokens, hidden, columns), lambda: function(ops, tokens, hidden, columns, draw.dtype)
    return make


def linear_cross_entropy(ops, tokens, hidden, columns, dtype):
    x, w, target = normal(tokens, hidden, dtype=dtype), normal(columns, hidden, dtype=dtype, scale=0.02), labels(tokens, columns)
    return Call(lambda: ops.LigerFusedLinearCrossEntropyFunction.apply(x, w, target)[0], [x, w])


def linear_jsd(ops, tokens, hidden, columns, dtype):
    x, y = normal(tokens, hidden, dtype=dtype), normal(tokens, hidden, dtype=dtype, grad=False)
    w, v = normal(columns, hidden, dtype=dtype, scale=0.02), normal(columns, hidden, dtype=dtype, scale=0.02, grad=False)
    return Call(lambda: ops.LigerFusedLinearJSDFunction.apply(x, w, y, v), [x, w])


def linear_kl_div(ops, tokens, hidden, columns, dtype):
    x, w, y = normal(tokens, hidden, dtype=dtype), normal(columns, hidden, dtype=dtype, scale=0.02), chance(tokens, columns, dtype=dtype, grad=False)
    return Call(lambda: ops.LigerFusedLinearKLDivFunction.apply(x, w, y), [x, w])


def multi_token_attention(draw, ops):
    batch, channels, length = draw.one((8, 16)), draw.one((8, 16)), draw.one((64, 128))  # a program has the whole matrix in one tile

    def make():
        x, w = normal(batch, channels, length, length, dtype=draw.dtype), normal(channels, channels, 3, 3, dtype=draw.dtype, scale=0.1)
        return Call(lambda: ops.LigerMultiTokenAttentionFunction.apply(x, w, None, 1, 1), [x, w])
    return "%dx%dx%dx%d" % (batch, channels, length, length), make


def neighbourhood_attention(draw, ops):
    batch, heads, length, size = 1, draw.one((8, 16)), draw.one((512, 1024, 2048)), draw.one((64, 128))

    def make():
        q, k, v = (normal(batch, heads, length, size, dtype=draw.dtype) for _ in range(3))
        return Call(lambda: ops.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 7, 1), [q, k, v])
    return "%dx%dx%dx%d" % (batch, heads, length, size), make


def mhc(draw, ops):
    tokens, streams, hidden = draw.one((2048, 4096)), 4, draw.one((1024, 2048, 4096))

    def make():
        columns = streams * streams + 2 * streams
        x, phi = normal(tokens, streams, hidden, dtype=draw.dtype), normal(streams * hidden, columns, dtype=draw.dtype, scale=0.02)
        b, alphas = normal(columns, scale=0.1), [torch.full((), 0.5, device="cuda").requires_grad_(True) for _ in range(3)]
        f = normal(tokens, hidden, dtype=draw.dtype)

        def run():
            pre, post, res = ops.LigerMHCCoeffsFunction.apply(x, phi, b, *alphas, True, 20, 1e-6, 0.0, 1e-6, 2.0)
            return ops.LigerMHCPreFunction.apply(x, pre), ops.LigerMHCPostResFunction.apply(x, f, post, res)
        return Call(run, [x, phi, b, *alphas, f])
    return "%dx%dx%d" % (tokens, streams, hidden), make


def moe(draw, ops):
    tokens, hidden, inner, experts, chosen = draw.one((1024, 4096)), draw.one((1024, 2048)), draw.one((768, 1024)), draw.one((8, 32)), draw.one((2, 4))

    def make():
        x = normal(tokens, hidden, dtype=BF16)
        up, down = normal(experts, 2 * inner, hidden, dtype=BF16, scale=0.02), normal(experts, hidden, inner, dtype=BF16, scale=0.02)
        score = torch.rand(tokens, experts, device="cuda")
        weight, index = torch.topk(score, chosen, -1)
        index, weight = index.to(torch.int32), weight.to(BF16).requires_grad_(True)
        return Call(lambda: ops.LigerFusedMoEFunction.apply(x, up, down, index, weight), [x, up, down, weight])
    return "%dx%dx%d of %d experts, %d" % (tokens, hidden, inner, experts, chosen), make


def mlp(draw, ops):
    batch, length, hidden, inner = 1, draw.one((2048, 4096)), draw.one((1024, 2048, 4096)), draw.one((4096, 8192))

    def make():
        x = normal(batch, length, hidden, dtype=BF16)
        gate, up, down = normal(inner, hidden, dtype=BF16, scale=0.02), normal(inner, hidden, dtype=BF16, scale=0.02), normal(hidden, inner, dtype=BF16, scale=0.02)
        return Call(lambda: ops.LigerMLPFunction.apply(x, gate, up, down), [x, gate, up, down])
    return "%dx%dx%dx%d" % (batch, length, hidden, inner), make


def tiled_mlp(draw, ops):
    tokens, hidden = draw.one((4096, 8192)), draw.one((1024, 2048))

    def make():
        x, weights = normal(1, tokens, hidden, dtype=draw.dtype), torch.nn.Module()
        weights.gate, weights.up = (torch.nn.Parameter(normal(4 * hidden, hidden, dtype=draw.dtype, scale=0.02, grad=False)) for _ in range(2))
        weights.down = torch.nn.Parameter(normal(hidden, 4 * hidden, dtype=draw.dtype, scale=0.02, grad=False))

        def inner(its, part):
            return ops.LigerSiLUMulFunction.apply(part @ its.gate.T, part @ its.up.T) @ its.down.T
        return Call(lambda: ops.apply_tiled_mlp(inner, weights, x), [x])
    return "%dx%d" % (tokens, hidden), make


def embedding(draw, ops):
    tokens, hidden, rows = draw.tokens(), draw.hidden(), draw.one([one for one in VOCABULARY if one <= 65536])

    def make():
        w, index = normal(rows, hidden, dtype=draw.dtype), labels(tokens, rows)
        return Call(lambda: ops.LigerEmbeddingFunction.apply(w, index), [w])
    return "%d of %dx%d" % (tokens, rows, hidden), make


def int8_int2(draw, ops):
    m, n, k = draw.one((512, 2048)), draw.one((2048, 4096)), draw.one((2048, 4096))

    def make():
        from liger_kernel.ops.experimental import mm_int8int2
        a, b = torch.randint(-128, 127, (m, k), dtype=torch.int8, device="cuda"), torch.randint(0, 255, (k // 4, n), dtype=torch.uint8, device="cuda")
        return Call(lambda: mm_int8int2.matmul(a, b), [], {"matmul_kernel": 2 * m * n * k})
    return "%dx%dx%d" % (m, n, k), make


LIGER = {
    "rms_norm": rows_of(rms_norm, "llama"), "rms_norm gemma": rows_of(rms_norm, "gemma"), "fused_add_rms_norm": rows_of(add_rms_norm), "modulated_rms_norm": modulated_rms_norm,
    "layer_norm": rows_of(layer_norm), "group_norm": group_norm, "dyt": rows_of(dyt), "poly_norm": rows_of(poly_norm), "softmax": rows_of(softmax),
    "sparsemax": rows_of(sparsemax), "relu_squared": rows_of(relu_squared), "swiglu": rows_of(gated, "LigerSiLUMulFunction"), "swiglu of one matrix": rows_of(gate_up),
    "geglu": rows_of(gated, "LigerGELUMulFunction"), "attn_res": attention_residual, "rope": rope, "qwen2vl_mrope": mrope, "llama4_rope": llama4_rope,
    "cross_entropy": logits_of(cross_entropy), "cross_entropy all": logits_of(cross_entropy_all), "vocab_parallel_ce": logits_of(vocabulary_parallel, 2),
    "kl_div": logits_of(kl_div, 2), "jsd": logits_of(jsd, 2), "tvd": logits_of(tvd, 2), "fused_ce_tvd": logits_of(cross_entropy_tvd, 2), "grpo_loss": grpo,
    "fused_linear_ce": heads_linear(linear_cross_entropy), "fused_linear_jsd": heads_linear(linear_jsd, 130000), "fused_linear_kl_div": heads_linear(linear_kl_div, 130000),
    "multi_token_attention": multi_token_attention, "neighborhood_attention": neighbourhood_attention, "mhc": mhc, "fused_moe": moe, "mlp": mlp, "tiled_mlp": tiled_mlp,
    "embedding": embedding, "mm_int8int2": int8_int2,
}
TUNED = {"dyt", "fused_moe", "mlp", "mm_int8int2"}  # by an autotuner
ONCE = {"fused_moe", "mlp", "mm_int8int2"}  # whose tuners take long: one case


def liger_cases(seed, most=3):
    import liger_kernel.ops as ops
    from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction
    ops.LigerEmbeddingFunction = LigerEmbeddingFunction
    found = []
    for name, of in LIGER.items():
        for number in range(1 if name in ONCE else most):
            draw = Draw(seed, name, number)
            sizes, make = of(draw, ops)
            case = Case("liger " + name, sizes, BF16 if name in ONCE else draw.dtype, make, name in TUNED)
            if case.title not in {one.title for one in found}:
                found.append(case)
    return found


# -------------------------------------------------------------------------------------- tutorials

RUNS = ("rand", "benchmark", "test_", "bench_", "allclose", "validate", "Benchmark")  # in what a tutorial does rather than defines


def tutorial(folder, name):
    """A tutorial's functions, without what it runs: imports, definitions, and constants that no result goes into."""
    path = os.path.join(folder, name)
    with open(path) as file:
        text = file.read()
    module = types.ModuleType("tutorial_" + "".join(c if c.isalnum() else "_" for c in name[:-3]))
    module.__file__ = path
    linecache.checkcache(path)
    for node in ast.parse(text).body:
        is_wanted = isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign))
        if isinstance(node, ast.If):
            is_wanted = "NUM_STAGES_OPTIONS" in ast.unparse(node)
        if isinstance(node, ast.FunctionDef) and any("perf_report" in ast.unparse(one) or "pytest" in ast.unparse(one) for one in node.decorator_list):
            is_wanted = False
        if isinstance(node, ast.Assign) and (any(word in ast.unparse(node.value) for word in RUNS) or not is_constant(node)):
            is_wanted = False
        if isinstance(node, (ast.Import, ast.ImportFrom)) and any(word in ast.unparse(node) for word in ("tabulate", "pytest", "proton")):
            is_wanted = False
        if is_wanted:
            exec(compile(ast.Module([node], []), path, "exec"), module.__dict__)
    return module


def is_constant(node):
    names = [one.id for one in node.targets if isinstance(one, ast.Name)]
    return bool(names) and (names[0].isupper() or names[0] in ("configs", "tma_configs", "properties", "target", "kernels", "layer_norm", "attention"))


class Tutorials:
    """Each is read when its first case is made."""

    def __init__(self, folder):
        self.folder, self.read = folder, {}

    def of(self, number):
        if number not in self.read:
            name = next(one for one in sorted(os.listdir(self.folder)) if one.startswith("%02d-" % number) and one.endswith(".py"))
            self.read[number] = tutorial(self.folder, name)
        return self.read[number]


def tutorial_cases(folder, seed):
    draw, its, found = random.Random("%s tutorials" % seed), Tutorials(folder), []

    def add(name, sizes, dtype, make, is_tuned=False):
        found.append(Case("tutorial " + name, sizes, dtype, make, is_tuned))

    for count in draw.sample((98432, 1 << 20, 1 << 24, 3 * 10**7, 1 << 26), 3):
        def vector(count=count):
            x, y = (normal(count, grad=False) for _ in range(2))
            return Call(lambda: its.of(1).add(x, y), [])
        add("01 vector add", str(count), F32, vector)

        def dependent(count=count):
            x, y = (normal(count, grad=False) for _ in range(2))
            return Call(lambda: its.of(11).add(x, y, True), [])
        add("11 vector add, dependent launch", str(count), F32, dependent)

        def dropout(count=count):
            x, keep = normal(count, grad=False), (torch.rand(count, device="cuda") > 0.5).to(torch.int32)
            return Call(lambda: (its.of(4).dropout(x, keep, 0.5), its.of(4).seeded_dropout(x, 0.5, 123)), [])
        add("04 dropout", str(count), F32, dropout)

        def asin(count=count):
            x = torch.rand(count, device="cuda")

            def run():
                y = torch.empty_like(x)
                its.of(7).asin_kernel[((count + 1023) // 1024,)](x, y, count, BLOCK_SIZE=1024)
                return y
            return Call(run, [])
        add("07 asin", str(count), F32, asin)
    for rows, columns, dtype in ((1823, 781, F32), (draw.choice((4096, 8192)), draw.choice((1024, 2048, 4096, 6144, 8192)), F32), (4096, draw.choice((2048, 5000, 12288)), F16)):
        def softmax_rows(rows=rows, columns=columns, dtype=dtype):
            x = normal(rows, columns, dtype=dtype, grad=False)
            return Call(lambda: its.of(2).softmax(x), [])
        add("02 softmax", "%dx%d" % (rows, columns), dtype, softmax_rows)
    for columns in (draw.choice((1024, 2048, 4096)), draw.choice((5120, 8192, 15872))):
        def norm(columns=columns):
            x, w, b = normal(4096, columns, dtype=F16), normal(columns, dtype=F16), normal(columns, dtype=F16)
            return Call(lambda: its.of(5).layer_norm(x, (columns,), w, b, 1e-5), [x, w, b])
        add("05 layer norm", "4096x%d" % columns, F16, norm)
    size = draw.choice((2048, 4096, 6144, 8192))
    for dtype in F16, F8:
        def product(dtype=dtype):
            a, b = normal(size, size, dtype=F16, grad=False).to(dtype), normal(size, size, dtype=F16, grad=False)
            b = b.T.contiguous().to(dtype).T if dtype is F8 else b
            return Call(lambda: its.of(3).matmul(a, b), [], {"matmul_kernel": 2 * size**3})
        add("03 matmul", str(size), dtype, product, True)
    for D, causal, length in ((64, draw.random() < 0.5, draw.choice((1024, 4096))), (128, True, draw.choice((1024, 2048, 4096))), (128, False, draw.choice((2048, 8192)))):
        def attention(D=D, causal=causal, length=length):
            q, k, v = (normal(4, 16384 // length * 4, length, D, dtype=F16) for _ in range(3))
            work = 4 * q.numel() * length * (0.5 if causal else 1)
            return Call(lambda: its.of(6).attention(q, k, v, causal, 0.5, False), [q, k, v], {"_attn_fwd": work, "_attn_bwd": 2.5 * work})
        add("06 attention D%d %s" % (D, "causal" if causal else "full"), "4x%dx%d" % (16384 // length * 4, length), F16, attention, True)
    groups = [[draw.choice((128, 256, 512, 1024, 2048, 4096)) for _ in range(3)] for _ in range(4)]
    work = sum(2 * m * n * k for m, n, k in groups)
    for kind in "pointers", "descriptors":
        def grouped(kind=kind):
            a = [normal(m, k, dtype=F16, grad=False) for m, _, k in groups]
            if kind == "pointers":
                b = [normal(k, n, dtype=F16, grad=False) for _, n, k in groups]
                return Call(lambda: its.of(8).group_gemm_fn(a, b), [], {"grouped_matmul_kernel": work})
            b = [normal(n, k, dtype=F16, grad=False) for _, n, k in groups]
            return Call(lambda: its.of(8).group_gemm_tma_fn(a, b), [], {"grouped_matmul_tma_kernel": work})
        add("08 grouped by %s" % kind, " ".join("x".join(map(str, one)) for one in groups), F16, grouped, True)
    m, n, k = 8192, 8192, draw.choice((512, 1024, 2048, 4096))
    for function, kernel, is_turned in (("matmul", "matmul_kernel", False), ("matmul_persistent", "matmul_kernel_persistent", False), ("matmul_tma", "matmul_kernel_tma", True),
                                        ("matmul_tma_persistent", "matmul_kernel_tma_persistent", True), ("matmul_descriptor_persistent", "matmul_kernel_descriptor_persistent", True)):
        def persistent(function=function, kernel=kernel, is_turned=is_turned):
            a, b = normal(m, k, dtype=F16, grad=False), normal(n, k, dtype=F16, grad=False)
            b = b if is_turned else b.T
            more = (False,) if is_turned else ()
            return Call(lambda: getattr(its.of(9), function)(a, b, *more), [], {kernel: 2 * m * n * k})
        add("09 %s" % function, "%dx%dx%d" % (m, n, k), F16, persistent, True)
    return found


def cases(seed, tutorials=None, only="", most=3):
    """All cases whose title has one of the words of `only`."""
    found = liger_cases(seed, most) + (tutorial_cases(tutorials, seed) if tutorials else [])
    words = [one for one in only.split(",") if one]
    return [one for one in found if not words or any(word in one.title for word in words)]
