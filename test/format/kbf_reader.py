#!/usr/bin/python3
"""A second implementation of values of type kbf, from doc/internals/format.md and doc/checksum.md alone.

A value is base64, or \\x and hex digits, or - for standard input.  "build" reads lines in the text
format of COPY: the columns of the key, its value, and - if the pair is to be deleted, or =NEW if its
value is to be changed.  "get" reads keys and writes status and value of each.  The exit status is 2 if
the value is refused or an operation is."""

import re
import struct
import sys

from iblt_reader import (CANONICAL, KINDS, U64, UNTYPED, Refused, command, key_types, keystream, lines, packed,
                         read_value, require, seal, write_value, xxh3_128)

HEADER = struct.Struct("<4sBBBBBBHIQQHHI")
MODULUS = dict(zip(range(3, 13), (0xb, 0x13, 0x25, 0x43, 0x83, 0x11d, 0x211, 0x409, 0x805, 0x1053)))
FULL = 15
ANY, NONE = object(), object()


class Field:
    """GF(2^q), and the codes of its elements with t terms."""

    def __init__(self, q, t):
        self.q, self.t, self.size = q, t, 2**q - 1
        self.codes = [self.code(x) for x in range(2**q)]
        self.singles = {code: x for x, code in enumerate(self.codes) if x}
        self.pairs = None

    def times(self, a, b):
        product = 0
        for i in range(self.q):
            if b >> i & 1:
                product ^= a << i
        for i in range(2 * self.q, self.q - 1, -1):
            if product >> i & 1:
                product ^= MODULUS[self.q] << i - self.q
        return product

    def code(self, x):
        square = self.times(x, x)
        cube = self.times(square, x)
        terms = x, cube, self.times(cube, square)
        return sum(term << self.q * i for i, term in enumerate(terms[:self.t]))

    def elements(self, count, content):
        """What a cell of at most t pairs says: its different elements, ANY if two are equal, or NONE."""
        if count == 1:
            return {self.singles[content]} if content in self.singles else NONE
        if count == 2 and content == 0 or count == 3 and content in self.singles:
            return ANY
        rest = self.singles
        if count == 3:
            if self.pairs is None:
                self.pairs = {self.codes[x] ^ self.codes[y]: (x, y)
                              for x in range(1, self.size + 1) for y in range(1, x)}
            rest = self.pairs
        for x in range(1, self.size + 1):
            others = rest.get(content ^ self.codes[x])
            if others is not None:
                found = {x, others} if count == 2 else {x, *others}
                if len(found) == count:
                    return found
        return NONE

    def possible(self, count, content):
        return content == 0 if count == 0 else self.elements(count, content) is not NONE


class Filter:
    """A filter.  A cell is a pair of counter and content."""

    def __init__(self, k, q, t, s, values, kind, seed, description="", labels=()):
        self.k, self.q, self.t, self.s, self.values, self.kind = k, q, t, s, values, kind
        self.seed, self.description, self.labels, self.keys = seed & U64, description, list(labels), 0
        self.field, self.b = Field(q, t), 4 + t * q
        self.cells = [(0, 0)] * (k * s if kind != UNTYPED else 0)
        self.secret = keystream(b"iblt kbf", seed)[:192]

    @classmethod
    def from_bytes(cls, data):
        """Parse and validate: all that the page refuses raises Refused."""
        require(48 <= len(data) <= 2**30 - 5, "length")
        (magic, version, k, q, t, kind, reserved, values, s, seed, keys, size, more_reserved,
         labels_size) = HEADER.unpack_from(data)
        require(magic == b"IBLK", "magic")
        require(version == 1, "version")
        require(2 <= k <= 8, "k")
        require(3 <= q <= 12 and 1 <= t <= 3 and 1 <= values <= 2**q - 1, "q, t, V")
        require(kind <= CANONICAL, "kind")
        require(reserved == 0 and more_reserved == 0, "reserved")
        require(1 <= s <= 2**24, "s")
        require(keys < 2**63, "net keys")
        require(1 <= size <= 8192 if kind == CANONICAL else size == 0, "T")
        require(labels_size <= 2**20, "N")
        text_end = 40 + size + labels_size
        cells_at = -(-text_end // 8) * 8
        cells_size = -(-k * s * (4 + t * q) // 64) * 8
        require(cells_at + cells_size + 8 <= 2**30 - 5, "length")
        require(len(data) == cells_at + (cells_size if kind != UNTYPED else 0) + 8, "length")
        require(seal(data[:-8]) == data, "checksum")
        require(not any(data[text_end:cells_at]), "padding")
        try:
            description = data[40:40 + size].decode("utf-8")
            labels = parse_labels(data[40 + size:text_end], values)
        except UnicodeDecodeError:
            raise Refused("text") from None
        require(not re.search("[\0-\x1f\x7f]", "".join([description, *labels])), "control character")
        kbf = cls(k, q, t, s, values, kind, seed, description, labels)
        kbf.keys = keys
        require(kind != UNTYPED or keys == 0, "untyped with keys")
        kbf.read_cells(int.from_bytes(data[cells_at:-8], "little"))
        return kbf

    def read_cells(self, number):
        require(number >> len(self.cells) * self.b == 0, "padding")
        for i in range(len(self.cells)):
            cell = number >> i * self.b & (1 << self.b) - 1
            self.cells[i] = cell & 15, cell >> 4
        require(all(content == 0 for counter, content in self.cells if counter in (0, FULL)), "content")
        require(all(content in self.field.singles for counter, content in self.cells if counter == 1), "code")
        sums = set()
        for i in range(0, len(self.cells), self.s):
            subtable = self.cells[i:i + self.s]
            if any(counter == FULL for counter, _ in subtable):
                continue
            require(sum(counter for counter, _ in subtable) == self.keys, "counters")
            xor = 0
            for _, content in subtable:
                xor ^= content
            sums.add(xor)
        require(len(sums) <= 1, "contents")

    def to_bytes(self):
        description = self.description.encode()
        labels = b"".join(bytes([len(label)]) + label for label in map(str.encode, self.labels))
        number = sum((content << 4 | counter) << i * self.b for i, (counter, content) in enumerate(self.cells))
        text = description + labels
        return seal(HEADER.pack(b"IBLK", 1, self.k, self.q, self.t, self.kind, 0, self.values, self.s, self.seed,
                                self.keys, len(description), 0, len(labels))
                    + text + bytes(-len(text) % 8)
                    + number.to_bytes(-(-len(self.cells) * self.b // 64) * 8, "little"))

    def place(self, key):
        """The numbers of a key's cells, and its turn."""
        bits = xxh3_128(key, self.secret)
        mixed = (bits ^ bits >> 64) & U64
        bits |= xxh3_128(bits.to_bytes(16, "little"), self.secret) << 128
        numbers = [i * self.s + ((bits >> 32 * i & 0xFFFFFFFF) * self.s >> 32) for i in range(self.k)]
        turn = ((mixed * 0x9E3779B97F4A7C15 & U64) >> 32) * self.field.size >> 32
        return numbers, turn

    def code(self, value, turn):
        require(1 <= value <= self.values, "value out of range")
        return self.field.codes[1 + (value - 1 + turn) % self.field.size]

    @staticmethod
    def sum(a, b):
        return (FULL, 0) if a[0] + b[0] >= FULL else (a[0] + b[0], a[1] ^ b[1])

    def insert(self, key, value):
        numbers, turn = self.place(key)
        for number in numbers:
            self.cells[number] = self.sum(self.cells[number], (1, self.code(value, turn)))
        self.keys += 1

    def admits(self, cell, code):
        counter, content = cell
        if counter == 0:
            return False
        return counter > self.t + 1 or self.field.possible(counter - 1, content ^ code)

    def change(self, key, old, new=None):
        """Deletes a pair, or changes its value."""
        numbers, turn = self.place(key)
        code, less = self.code(old, turn), new is None
        require(self.keys > 0 and all(self.admits(self.cells[number], code) for number in numbers), "not there")
        if new is not None:
            code ^= self.code(new, turn)
        for number in numbers:
            counter, content = self.cells[number]
            if counter != FULL:
                self.cells[number] = counter - less, content ^ code
        self.keys -= less

    def get(self, key):
        """Status and value of a key."""
        if not self.cells:
            return "absent", None
        numbers, turn = self.place(key)
        cells = [self.cells[number] for number in numbers]
        if any(counter == 0 for counter, _ in cells):
            return "absent", None
        named = [self.field.elements(*cell) for cell in cells if cell[0] <= self.t]
        require(NONE not in named, "contradiction")
        named = [elements for elements in named if elements is not ANY]
        if not named:
            return "unknown", None
        left = [value for value in (1 + (element - 1 - turn) % self.field.size for element in min(named, key=len))
                if value <= self.values and all(self.admits(cell, self.code(value, turn)) for cell in cells)]
        return ("absent", None) if not left else ("present", left[0]) if len(left) == 1 else ("unknown", None)

    def same_kind(self, other):
        mine, theirs = ([x.k, x.q, x.t, x.s, x.seed] for x in (self, other))
        require(mine == theirs and UNTYPED in (self.kind, other.kind)
                or [self.kind, self.description] == [other.kind, other.description], "headers differ")
        short, long = sorted((self, other), key=lambda x: len(x.labels))
        require(short.labels == long.labels[:len(short.labels)]
                and (short.labels or not long.labels) and (short.labels or short.values == long.values), "labels differ")
        self.labels, self.values = long.labels, long.values

    def add(self, other):
        self.same_kind(other)
        self.cells = [self.sum(*cells) for cells in zip(self.cells, other.cells)]
        self.keys += other.keys

    def subtract(self, other):
        self.same_kind(other)
        require(self.keys >= other.keys, "not a part")
        for i, ((counter, content), (less, part)) in enumerate(zip(self.cells, other.cells)):
            if FULL in (counter, less):
                self.cells[i] = FULL, 0
                continue
            left = counter - less, content ^ part
            require(left[0] >= 0 and (left[0] > self.t or self.field.possible(*left)), "not a part")
            self.cells[i] = left
        self.keys -= other.keys

    def fold(self, f):
        require(self.s % f == 0, "not a divisor")
        cells, self.cells = self.cells, []
        for i in range(0, len(cells), f):
            total = 0, 0
            for cell in cells[i:i + f]:
                total = self.sum(total, cell)
            self.cells.append(total)
        self.s //= f


def parse_labels(data, values):
    """The labels of the values 1 to V, if there are any."""
    labels, at = [], 0
    while at < len(data):
        size = data[at]
        require(size > 0 and at + 1 + size <= len(data), "label")
        labels.append(data[at + 1:at + 1 + size].decode("utf-8"))
        at += 1 + size
    require(len(labels) in (0, values), "labels")
    return labels


# --- the command line ---

def build(*, hashes=4, cells=1, degree=8, superposed=3, values=255, labels="", seed=0, kind="integer"):
    """kind: integer, uuid, or a description as text or (int4,text).  There are commas between labels."""
    number = KINDS.get(kind, (CANONICAL,))[0]
    labels = labels.split(",") if labels else []
    kbf = Filter(hashes, degree, superposed, cells, len(labels) or values, number, seed,
                 kind if number == CANONICAL else "", labels)
    n = len(key_types(kbf.description))
    for fields in lines():
        key, value, change = packed(number, kind, fields[:n]), int(fields[n]), fields[n + 1:]
        if not change:
            kbf.insert(key, value)
        elif change == ["-"]:
            kbf.change(key, value)
        else:
            kbf.change(key, value, int(change[0].lstrip("=")))
    write_value(kbf.to_bytes())


def get(value):
    kbf = Filter.from_bytes(read_value(value))
    for fields in lines():
        status, found = kbf.get(packed(kbf.kind, kbf.description, fields))
        print(status, "\\N" if found is None else found, sep="\t")


def check(value):
    Filter.from_bytes(read_value(value))


def combine(value, other, operation):
    kbf = Filter.from_bytes(read_value(value))
    getattr(kbf, operation)(Filter.from_bytes(read_value(other)))
    write_value(kbf.to_bytes())


def add(value, other):
    combine(value, other, "add")


def subtract(value, other):
    combine(value, other, "subtract")


def fold(value, divisor):
    kbf = Filter.from_bytes(read_value(value))
    kbf.fold(int(divisor))
    write_value(kbf.to_bytes())


def main():
    return command(__doc__, build, get, check, add, subtract, fold)


if __name__ == "__main__":
    sys.exit(main())
