# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ten models in plain PyTorch for bench/torch_models.py, made from a few numbers with random weights. Each returns a loss, so that a step is forward and backward.
`make(name, device, is_small)` gives a Case; small ones are for tests on a CPU."""
import typing

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


class Case(typing.NamedTuple):
    model: nn.Module
    inputs: list  # of each shape that is run; the first is the one that is timed
    compiled: dict  # arguments of torch.compile
    settings: dict  # of torch._inductor.config


def norms(x, weight):
    return functional.rms_norm(x, x.shape[-1:], weight)


def turned(x):
    """Rotary embedding of (batch, heads, rows, width)."""
    rows, half = x.shape[-2], x.shape[-1] // 2
    angle = torch.arange(rows, device=x.device)[:, None] / torch.pow(10000.0, torch.arange(half, device=x.device) / half)
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1).to(x.dtype)


class Decoder(nn.Module):
    """A layer of Llama's; with `is_qwen` of Qwen's: biases and norms of queries and keys."""

    def __init__(self, width, heads, pairs, is_qwen):
        super().__init__()
        self.heads, self.pairs, self.size = heads, pairs, width // heads
        self.before, self.after = (nn.Parameter(torch.ones(width)) for _ in range(2))
        self.q = nn.Linear(width, width, bias=is_qwen)
        self.k, self.v = (nn.Linear(width, pairs * self.size, bias=is_qwen) for _ in range(2))
        self.out = nn.Linear(width, width, bias=False)
        self.norm_q, self.norm_k = (nn.Parameter(torch.ones(self.size)) if is_qwen else None for _ in range(2))
        self.gate, self.up, self.down = (nn.Linear(*sizes, bias=False) for sizes in ((width, 3 * width), (width, 3 * width), (3 * width, width)))

    def forward(self, x):
        batch, rows, width = x.shape
        y = norms(x, self.before)
        q, k, v = (one(y).view(batch, rows, -1, self.size) for one in (self.q, self.k, self.v))
        if self.norm_q is not None:
            q, k = norms(q, self.norm_q), norms(k, self.norm_k)
        q, k, v = turned(q.transpose(1, 2)), turned(k.transpose(1, 2)), v.transpose(1, 2)
        k, v = (one.repeat_interleave(self.heads // self.pairs, 1) for one in (k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        y = norms(x, self.after)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Language(nn.Module):
    def __init__(self, words, width, layers, heads, pairs, is_qwen):
        super().__init__()
        self.words, self.norm, self.is_tied = nn.Embedding(words, width), nn.Parameter(torch.ones(width)), is_qwen
        self.layers = nn.ModuleList(Decoder(width, heads, pairs, is_qwen) for _ in range(layers))
        self.head = None if is_qwen else nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)
        x = norms(x, self.norm)
        scores = functional.linear(x, self.words.weight) if self.is_tied else self.head(x)
        return functional.cross_entropy(scores[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


class Encoder(nn.Module):
    """A layer of BERT's (norms after), GPT-2's or ViT's (norms before)."""

    def __init__(self, width, heads, is_before, is_causal, approximate):
        super().__init__()
        self.heads, self.is_before, self.is_causal, self.approximate = heads, is_before, is_causal, approximate
        self.all, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def attention(self, x, mask):
        batch, rows, width = x.shape
        q, k, v = self.all(x).view(batch, rows, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return self.out(functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.is_causal).transpose(1, 2).reshape(x.shape))

    def products(self, x):
        return self.outer(functional.gelu(self.inner(x), approximate=self.approximate))

    def forward(self, x, mask=None):
        if self.is_before:
            x = x + self.attention(self.first(x), mask)
            return x + self.products(self.second(x))
        x = self.first(x + self.attention(x, mask))
        return self.second(x + self.products(x))


class Bert(nn.Module):
    def __init__(self, words, width, layers, heads, rows):
        super().__init__()
        self.words, self.places, self.parts, self.norm = nn.Embedding(words, width), nn.Embedding(rows, width), nn.Embedding(2, width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(Encoder(width, heads, False, False, "none") for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, tokens, parts, is_there):
        x = self.norm(self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device)) + self.parts(parts))
        for layer in self.layers:
            x = layer(x, is_there[:, None, None, :])
        return functional.cross_entropy(self.head(x).flatten(0, 1).float(), tokens.flatten())


class Gpt2(nn.Module):
    def __init__(self, words, width, layers, heads, rows):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(words, width), nn.Embedding(rows, width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(Encoder(width, heads, True, True, "tanh") for _ in range(layers))

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        scores = functional.linear(self.norm(x), self.words.weight)
        return functional.cross_entropy(scores[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


class Mixer(nn.Module):
    """A layer of Mamba-2's: a short convolution, and a scan of states as a product with decays."""

    def __init__(self, width, heads, states):
        super().__init__()
        self.heads, self.states, self.inner = heads, states, 2 * width
        self.norm, self.gated = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(2 * width))
        self.into, self.out = nn.Linear(width, 4 * width + 2 * states + heads, bias=False), nn.Linear(2 * width, width, bias=False)
        self.around = nn.Conv1d(2 * width + 2 * states, 2 * width + 2 * states, 4, padding=3, groups=2 * width + 2 * states)
        self.decay, self.start, self.skip = nn.Parameter(torch.zeros(heads)), nn.Parameter(torch.zeros(heads)), nn.Parameter(torch.ones(heads))

    def forward(self, x):
        batch, rows, width = x.shape
        z, y, dt = self.into(norms(x, self.norm)).split((self.inner, self.inner + 2 * self.states, self.heads), -1)
        y = functional.silu(self.around(y.transpose(1, 2))[..., :rows].transpose(1, 2))
        y, b, c = y.split((self.inner, self.states, self.states), -1)
        y, dt = y.unflatten(-1, (self.heads, -1)), functional.softplus(dt.float() + self.start)
        # (batch, heads, rows), in two steps: TorchInductor of PyTorch 2.11 fails to write a cumsum of more than 32 elements and few rows
        steps = (-dt * self.decay.float().exp()).transpose(1, 2).unflatten(-1, (-1, 32)).cumsum(-1)
        decays = (steps + (steps[..., -1].cumsum(-1) - steps[..., -1])[..., None]).flatten(-2)
        below = torch.ones(rows, rows, dtype=torch.bool, device=x.device).tril()
        passed = (decays[..., :, None] - decays[..., None, :]).masked_fill(~below, float("-inf")).exp()
        mixed = (c.float() @ b.float().transpose(1, 2))[:, None] * passed
        found = torch.einsum("bhts,bshp->bthp", mixed, y.float() * dt[..., None]) + self.skip[:, None] * y
        return x + self.out(norms(found.flatten(2).to(x.dtype) * functional.silu(z), self.gated))


class Mamba(nn.Module):
    def __init__(self, words, width, layers, heads, states):
        super().__init__()
        self.words, self.layers = nn.Embedding(words, width), nn.ModuleList(Mixer(width, heads, states) for _ in range(layers))

    def forward(self, tokens):
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(functional.linear(x, self.words.weight)[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.first, self.second = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm_first, self.norm_second = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)) if before != after else nn.Identity()

    def forward(self, x):
        y = functional.relu(self.norm_first(self.first(x)))
        return functional.relu(self.norm_second(self.second(y)) + self.short(x))


class Classes(nn.Module):
    """A model of images whose features are averaged and classified."""

    def __init__(self, features, width, classes=100):
        super().__init__()
        self.features, self.head = features, nn.Linear(width, classes)

    def forward(self, images, labels):
        return functional.cross_entropy(self.head(self.features(images).mean((2, 3))).float(), labels)


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.around, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
        self.inner, self.outer, self.scale = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        y = self.norm(self.around(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.outer(functional.gelu(self.inner(y)))).permute(0, 3, 1, 2)


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Vit(nn.Module):
    def __init__(self, width, layers, heads, patch, patches, classes=100):
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, width, patch, patch), nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, patches + 1, width))
        self.layers = nn.ModuleList(Encoder(width, heads, True, False, "none") for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images, labels):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(len(x), -1, -1), x), 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.head(self.norm(x)[:, 0]).float(), labels)


class Products(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return self.outer(functional.gelu(self.inner(x))).float().square().mean()


class Flex(nn.Module):
    """Attention with a bias by distance under a causal mask."""

    def __init__(self, width, heads, rows, device):
        super().__init__()
        self.heads, self.all, self.out = heads, nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, rows, rows, device=device)

    def forward(self, x):
        batch, rows, width = x.shape
        q, k, v = self.all(x).view(batch, rows, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        if torch.compiler.is_compiling():
            found = flex_attention(q, k, v, score_mod=lambda score, b, h, row, column: score - 0.05 * (row - column), block_mask=self.mask)
        else:  # what it is compared with; PyTorch has no gradient of the other on a CPU
            at = torch.arange(rows, device=x.device)
            ahead = at[:, None] - at
            found = functional.scaled_dot_product_attention(q, k, v, attn_mask=torch.where(ahead >= 0, -0.05 * ahead, float("-inf")).to(q.dtype))
        return self.out(found.transpose(1, 2).reshape(x.shape)).float().square().mean()


NAMES = ("llama", "qwen", "bert", "gpt2", "mamba", "resnet", "convnext", "vit", "gemm", "flex")


def make(name, device, is_small) -> Case:
    torch.manual_seed(7)
    of = torch.Generator(device="cpu").manual_seed(11)
    words, width, heads, rows, batch = (96, 64, 4, 32, 2) if is_small else (4096, 512, 8, 256, 4)
    kind = torch.float32 if is_small else torch.bfloat16
    compiled, settings = {}, {}

    def tokens(batch=batch, rows=rows, below=words):
        return torch.randint(below, (batch, rows), generator=of)

    def normal(*shape):
        return torch.randn(shape, generator=of)

    images, side = (2, 16) if is_small else (16, 64)
    pictures = [(normal(images, 3, side, side), torch.randint(100, (images,), generator=of))]
    if name in ("llama", "qwen"):
        model, inputs = Language(words, width, 2, heads, heads // 2, name == "qwen"), [(tokens(),)]
    elif name == "bert":  # with dynamic shapes
        shapes = ((batch, rows), (batch + 1, rows - 7), (batch + 3, rows // 2 + 1))
        model, compiled = Bert(words, width, 2, heads, rows), {"dynamic": True}
        inputs = [(tokens(*shape), tokens(*shape, 2), torch.arange(shape[1]) < shape[1] - torch.arange(shape[0])[:, None]) for shape in shapes]
    elif name == "gpt2":
        model, inputs = Gpt2(words, width, 2, heads, rows), [(tokens(),)]
    elif name == "mamba":
        model, inputs = Mamba(words, width, 2, heads, 16), [(tokens(),)]
    elif name == "resnet":
        features = nn.Sequential(nn.Conv2d(3, width // 8, 3, 1, 1, bias=False), nn.BatchNorm2d(width // 8), nn.ReLU(), Residual(width // 8, width // 8, 1),
                                 Residual(width // 8, width // 4, 2), Residual(width // 4, width // 2, 2))
        model, inputs = Classes(features, width // 2), pictures
    elif name == "convnext":
        features = nn.Sequential(nn.Conv2d(3, width // 8, 4, 4), ChannelNorm(width // 8), ConvNextBlock(width // 8), ChannelNorm(width // 8),
                                 nn.Conv2d(width // 8, width // 4, 2, 2), ConvNextBlock(width // 4), ChannelNorm(width // 4))
        model, inputs = Classes(features, width // 4), pictures
    elif name == "vit":
        model, inputs = Vit(width, 2, heads, 8, (side // 8) ** 2), pictures
    elif name == "gemm":
        model, inputs, compiled = Products(width), [(normal(batch * rows, width),)], {"mode": "max-autotune-no-cudagraphs"}
        settings = {"max_autotune_gemm_backends": "TRITON"}
    elif name == "flex":
        model, inputs = Flex(width, heads, 2 * rows if is_small else 4 * rows, device), [(normal(batch, 2 * rows if is_small else 4 * rows, width),)]
    else:
        raise ValueError("expected a model among %s, found '%s'" % (", ".join(NAMES), name))
    for part in model.modules():
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=0.02)
    inputs = [tuple((one.to(kind) if one.is_floating_point() else one).to(device) for one in some) for some in inputs]
    return Case(model.to(device, kind), inputs, compiled, settings)
