# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What stands around an array that a kernel gets, so that an access outside of it is seen (base/canary.h is the same for C): rows of elements lie in a
larger block of bytes, with a pattern before, after and between them; around what is only read stand bytes of 0xff, NaN in every
float type and -1 in integers. check(NAME) compares all of it after the launch and returns what has been written, "" for nothing:
"c: row 3, column 100 is written (of 100 columns in rows of 128), and 511 bytes more".

  Canary      the layout and its bytes; needs the standard library
  Array       a NumPy array in such a block
  Tensor      a tensor of PyTorch on any device, compared where it is

For tests of the package and for benches."""

AROUND = 512  # bytes, a multiple of what tensors are aligned to
PERIOD = bytes(0xA5 ^ (i * 7 & 0x1F) for i in range(32))


class Canary:
    def __init__(self, element, rows, columns, pitch=None, before=AROUND, after=AROUND, is_read=False):
        self.element, self.rows, self.columns, self.pitch = element, rows, columns, columns if pitch is None else pitch
        self.before, self.after, self.is_read = before, after, is_read
        if self.pitch < columns:
            raise ValueError("rows of %d columns that are %d apart" % (columns, self.pitch))

    def inner(self):
        """Bytes of the rows with the gaps between them."""
        return ((self.rows - 1) * self.pitch + self.columns) * self.element if self.rows else 0

    def size(self):
        return self.before + self.inner() + self.after

    def zones(self):
        """Ranges of bytes that are not the array's."""
        yield 0, self.before
        for row in range(self.rows - 1):
            if self.pitch > self.columns:
                begin = self.before + (row * self.pitch + self.columns) * self.element
                yield begin, begin + (self.pitch - self.columns) * self.element
        yield self.before + self.inner(), self.size()

    def period(self):
        return b"\xff" * len(PERIOD) if self.is_read else PERIOD

    def pattern(self):
        return bytearray((self.period() * (self.size() // len(PERIOD) + 1))[:self.size()])

    def check(self, name, block):
        block, pattern, places = memoryview(block).cast("B"), self.pattern(), []
        for begin, end in self.zones():
            if block[begin:end] != pattern[begin:end]:
                places += [i for i in range(begin, end) if block[i] != pattern[i]]
        return self.describe(name, places[0], len(places) - 1) if places else ""

    def describe(self, name, at, more):
        rest = ", and %d bytes more" % more if more else ""
        inside, end = at - self.before, self.before + self.inner()
        if inside < 0:
            return "%s: element %d before the first is written%s" % (name, (self.before - at - 1) // self.element + 1, rest)
        if at >= end:
            return "%s: element %d after the last is written%s" % (name, (at - end) // self.element + 1, rest)
        row, column = divmod(inside // self.element, self.pitch)
        return "%s: row %d, column %d is written (of %d columns in rows of %d)%s" % (name, row, column, self.columns, self.pitch, rest)


class Array:
    """`values` (one or two axes), a copy of which is `array`; rows are `pitch` elements apart; `shift` elements more before the first."""

    def __init__(self, np, values, pitch=None, shift=0, is_read=False):
        values = np.asarray(values)
        rows, columns = (1, values.size) if values.ndim < 2 else values.shape
        self.canary = Canary(values.itemsize, rows, columns, pitch, AROUND + shift * values.itemsize, AROUND, is_read)
        self.block = np.frombuffer(self.canary.pattern(), np.uint8)
        inner = self.block[self.canary.before:self.canary.before + self.canary.inner()]
        strides = (self.canary.pitch * values.itemsize, values.itemsize)
        self.array = np.ndarray(values.shape, values.dtype, buffer=inner, strides=strides[2 - values.ndim:]) if values.size else np.empty(values.shape, values.dtype)
        self.array[...] = values

    def check(self, name):
        return self.canary.check(name, self.block)


class Tensor:
    """`tensor` of `shape` (the last two axes are rows and columns; those before them, rows too) filled with `value`; rows are `pitch` elements apart; `shift`
    elements more before the first."""

    def __init__(self, torch, shape, dtype, device, value, pitch=None, shift=0, is_read=False):
        columns, rows = shape[-1], 1
        for n in shape[:-1]:
            rows *= n
        element = torch.empty((), dtype=dtype).element_size()
        self.canary = c = Canary(element, rows, columns, pitch, AROUND + shift * element, AROUND, is_read)
        self.torch, self.block = torch, torch.empty(c.size(), dtype=torch.uint8, device=device)
        period = torch.tensor(list(c.period()), dtype=torch.uint8, device=device)
        self.block.copy_(period.repeat(c.size() // len(period) + 1)[:c.size()])
        strides, step = [1], c.pitch
        for n in reversed(shape[1:-1]):
            strides.insert(0, step)
            step *= n
        if len(shape) > 1:
            strides.insert(0, step)
        self.flat = self.block[c.before:c.before + c.inner()].view(dtype)  # the rows with the gaps between them
        self.tensor = self.flat.as_strided(shape, strides)
        self.tensor.fill_(value)
        self.saved = [zone.clone() for zone, _ in self.zones()]

    def zones(self):
        """What is not the tensor's, and the byte of the block that each row of it begins at."""
        c = self.canary
        yield self.block[:c.before], [0]
        if c.pitch > c.columns and c.rows > 1:
            gap = (c.pitch - c.columns) * c.element
            begin = c.before + c.columns * c.element
            yield self.block.as_strided((c.rows - 1, gap), (c.pitch * c.element, 1), begin), range(begin, c.size(), c.pitch * c.element)
        yield self.block[c.before + c.inner():], [c.before + c.inner()]

    def check(self, name):
        count, first = 0, None
        for (zone, begins), saved in zip(self.zones(), self.saved):
            bad = (zone != saved).nonzero()
            count += len(bad)
            if len(bad) and first is None:
                place = bad[0].tolist()
                first = begins[place[0] if len(place) > 1 else 0] + place[-1]
        return self.canary.describe(name, first, count - 1) if count else ""
