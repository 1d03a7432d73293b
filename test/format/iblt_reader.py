#!/usr/bin/python3
"""A second implementation of values of type iblt, from doc/internals/format.md and doc/checksum.md alone.

A value is base64, or \\x and hex digits, or - for standard input.  "build" reads lines in the text
format of COPY: the columns of the key, the checksum or value, and -1 if the row is to be deleted.
"decode" writes key, side, count and value in that format; its exit status is 1 if the decoding is
incomplete and 2 if the value is refused.  A value has one column, whatever its type."""

import argparse
import base64
import ctypes
import inspect
import re
import struct
import sys
import uuid


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


# The module python3-xxhash does not know secrets.
LIBRARY = ctypes.CDLL("libxxhash.so.0")
for function, result in (LIBRARY.XXH3_64bits_withSecret, ctypes.c_uint64), (LIBRARY.XXH3_128bits_withSecret, Hash128):
    function.argtypes = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t
    function.restype = result
LIBRARY.XXH3_64bits_withSeed.argtypes = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64
LIBRARY.XXH3_64bits_withSeed.restype = ctypes.c_uint64

P = 2**64 - 59
U64 = 2**64 - 1
UNTYPED, INTEGER, UUID, CANONICAL = range(4)
HEADER = struct.Struct("<4sBBBBBBHIQqHHH2s")
DESCRIPTION_AT = 552


def xxh3_64_seeded(data, seed):
    return LIBRARY.XXH3_64bits_withSeed(data, len(data), seed)


def xxh3_64(data, secret):
    return LIBRARY.XXH3_64bits_withSecret(data, len(data), secret, len(secret))


def xxh3_128(data, secret):
    digest = LIBRARY.XXH3_128bits_withSecret(data, len(data), secret, len(secret))
    return digest.high << 64 | digest.low


def chacha20_block(state):
    x = list(state)

    def quarter(*places):
        for to, add, mix, left in (0, 1, 3, 16), (2, 3, 1, 12), (0, 1, 3, 8), (2, 3, 1, 7):
            to, add, mix = places[to], places[add], places[mix]
            x[to] = x[to] + x[add] & 0xFFFFFFFF
            x[mix] ^= x[to]
            x[mix] = (x[mix] << left | x[mix] >> 32 - left) & 0xFFFFFFFF

    for _ in range(10):
        for i in range(4):
            quarter(i, i + 4, i + 8, i + 12)
        for i in range(4):
            quarter(i, (i + 1) % 4 + 4, (i + 2) % 4 + 8, (i + 3) % 4 + 12)
    return struct.pack("<16I", *(a + b & 0xFFFFFFFF for a, b in zip(x, state)))


def keystream(label, seed):
    """The first 256 bytes of the keystream of ChaCha20."""
    key = struct.unpack("<8I", struct.pack("<Q24x", seed & U64))
    nonce = struct.unpack("<3I", label.ljust(12, b"\0"))
    constants = struct.unpack("<4I", b"expand 32-byte k")
    return b"".join(chacha20_block(constants + key + (block,) + nonce) for block in range(4))


class Refused(Exception):
    """Not a value of type iblt, or a row that cannot be in this sketch."""


def require(condition, reason):
    if not condition:
        raise Refused(reason)


def signed(x, bits):
    """x modulo 2^bits in two's complement."""
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def seal(data):
    """The bytes before the checksum, and the checksum."""
    return data + struct.pack("<Q", xxh3_64_seeded(data, 0))


class Sketch:
    """A sketch.  A cell is a list: count, weight, key limbs, check, value limbs.  The type of its
    values is their kind, limbs and description."""

    def __init__(self, k, s, seed, value_type, kind, limbs, description="", kept=0xFF):
        self.k, self.s, self.seed, self.kind = k, s, seed & U64, kind
        self.limbs, self.description = limbs, description
        self.value_kind, self.values, self.value_description = value_type
        self.kept = [i for i in range(k) if kept >> i & 1]
        self.net_rows, self.meter = 0, [0] * 256
        self.cell = struct.Struct(f"<i{limbs + 2 + self.values}Q")
        self.cells = [[0] * (limbs + 3 + self.values)
                      for _ in range(len(self.kept) * s if kind != UNTYPED else 0)]
        stream = keystream(b"iblt key", seed)
        self.secret = stream[:192]
        self.weight_seed, *masks = struct.unpack_from("<3Q", stream, 192)
        self.value_masks, self.masks = ([(mask + i * 0x9E3779B97F4A7C15) & U64 for i in range(512)]
                                        for mask in masks)

    @classmethod
    def from_bytes(cls, data):
        """Parse and validate: all that the page refuses raises Refused."""
        require(DESCRIPTION_AT + 8 <= len(data) <= 2**30 - 5, "length")
        (magic, version, k, kept, reserved, kind, value_kind, limbs, s, seed, net_rows, size, values,
         value_size, more_reserved) = HEADER.unpack_from(data)
        require(magic == b"IBLT", "magic")
        require(version == 1, "version")
        require(3 <= k <= 8, "k")
        require(0 < kept < 1 << k, "subtables")
        require(kind <= CANONICAL and value_kind <= CANONICAL, "kind")
        require(value_kind == 0 if not values else (value_kind == 0) == (kind == 0), "kind of value")
        require(values <= 512 and values == {INTEGER: 1, UUID: 2}.get(value_kind, values), "V")
        require(reserved == 0 and not any(more_reserved), "reserved")
        require(1 <= limbs <= 512 and limbs == {INTEGER: 1, UUID: 2}.get(kind, limbs), "L")
        require(1 <= s <= 2**24 and 2**24 * 3**2 * 5 * 7 % s == 0, "s")
        require(1 <= size <= 8192 if kind == CANONICAL else size == 0, "T")
        require(1 <= value_size <= 8192 if value_kind == CANONICAL else value_size == 0, "U")
        cells_at = DESCRIPTION_AT + -(-(size + value_size) // 8) * 8
        cells_size = bin(kept).count("1") * s * (4 + 8 * (limbs + 2 + values)) if kind != UNTYPED else 0
        require(len(data) == cells_at + cells_size + 8, "length")
        require(seal(data[:-8]) == data, "checksum")
        try:
            description = data[DESCRIPTION_AT:DESCRIPTION_AT + size].decode("utf-8")
            of_value = data[DESCRIPTION_AT + size:DESCRIPTION_AT + size + value_size].decode("utf-8")
        except UnicodeDecodeError:
            raise Refused("description") from None
        require(not re.search("[\0-\x1f\x7f]", description + of_value), "description")
        require(not any(data[DESCRIPTION_AT + size + value_size:cells_at]), "padding")
        sketch = cls(k, s, seed, (value_kind, values, of_value), kind, limbs, description, kept)
        sketch.net_rows, sketch.meter = net_rows, list(struct.unpack_from("<256h", data, 40))
        require(kind != UNTYPED or net_rows == 0 and not any(sketch.meter), "untyped with rows")
        sketch.cells = [list(cell) for cell in sketch.cell.iter_unpack(data[cells_at:-8])]
        require(all(x < P for cell in sketch.cells for x in cell[1:]), "field element")
        return sketch

    def to_bytes(self):
        description, of_value = self.description.encode(), self.value_description.encode()
        return seal(HEADER.pack(b"IBLT", 1, self.k, sum(1 << i for i in self.kept), 0, self.kind,
                                self.value_kind, self.limbs, self.s, self.seed, self.net_rows,
                                len(description), self.values, len(of_value), bytes(2))
                    + struct.pack("<256h", *self.meter) + description + of_value
                    + bytes(-len(description + of_value) % 8)
                    + b"".join(self.cell.pack(*cell) for cell in self.cells))

    def hashed(self, key):
        """The numbers of a key's cells, and g(key)."""
        bits = xxh3_128(key, self.secret)
        g = (bits ^ bits >> 64) & U64
        bits |= xxh3_128(bits.to_bytes(16, "little"), self.secret) << 128
        positions = [(bits >> 32 * i & 0xFFFFFFFF) * self.s >> 32 for i in self.kept]
        return [i * self.s + position for i, position in enumerate(positions)], g % P

    def weight(self, y):
        return xxh3_64_seeded(struct.pack("<q", y), self.weight_seed) % P or 1

    def masked(self, words):
        return [word ^ mask for word, mask in zip(words, self.masks)]

    def checksum(self, value):
        """The y of a value."""
        return (struct.unpack("<q", value)[0] if self.value_kind == INTEGER else
                signed(xxh3_64(value, self.secret), 64))

    def add_to_cell(self, number, terms, c):
        cell = self.cells[number]
        cell[0] = signed(cell[0] + c * terms[0], 32)
        cell[1:] = [(x + c * term) % P for x, term in zip(cell[1:], terms[1:])]

    def insert(self, key, y, c=1):
        """Insert a row (c = 1) or delete it (c = -1).  y is the bytes of a value, or a checksum."""
        require(len(key) <= 8 * self.limbs, "key too long")
        key, value = key.ljust(8 * self.limbs, b"\0"), b""
        if self.values:
            require(len(y) <= 8 * self.values, "value too long")
            value = y.ljust(8 * self.values, b"\0")
            y = self.checksum(value)
        numbers, g = self.hashed(key)
        w, limbs = self.weight(y), self.masked(struct.unpack(f"<{self.limbs}Q", key))
        values = [word ^ mask for word, mask in zip(struct.unpack(f"<{self.values}Q", value), self.value_masks)]
        require(max(limbs + values) < P, "row cannot be represented")
        terms = [1, w] + [w * x for x in limbs] + [w * g] + [w * x for x in values]
        for number in numbers:
            self.add_to_cell(number, terms, c)
        m = w * g % P
        self.meter[m >> 56] = signed(self.meter[m >> 56] + (-c if m >> 55 & 1 else c), 16)
        self.net_rows = signed(self.net_rows + c, 64)

    def subtract(self, other):
        mine, theirs = ([x.k, x.kept, x.s, x.seed, x.values, x.value_kind, x.value_description, x.kind,
                         x.limbs, x.description] for x in (self, other))
        require(mine == theirs, "headers differ")
        for number, cell in enumerate(other.cells):
            self.add_to_cell(number, cell, -1)
        self.net_rows = signed(self.net_rows - other.net_rows, 64)
        self.meter = [signed(x - y, 16) for x, y in zip(self.meter, other.meter)]

    def pure(self, number):
        """The key of a pure cell and the numbers of its cells, else None."""
        _, weight, *limbs, check = self.cells[number][:self.limbs + 3]
        if weight == 0:
            return None
        inverse = pow(weight, -1, P)
        key = struct.pack(f"<{self.limbs}Q", *self.masked(x * inverse % P for x in limbs))
        numbers, g = self.hashed(key)
        return (key, numbers) if check == weight * g % P and number in numbers else None

    def value_of(self, cell):
        """The value of all the rows of a pure cell's key, or None."""
        count, weight = cell[:2]
        if not self.values or count == 0:
            return None
        inverse = pow(weight, -1, P)
        value = struct.pack(f"<{self.values}Q", *(x * inverse % P ^ mask for x, mask in
                                                  zip(cell[-self.values:], self.value_masks)))
        return value if self.weight(self.checksum(value)) * count % P == weight else None

    def decode(self):
        """The keys in the sketch as (key, count, value), and whether these are all."""
        rows, taken, contradiction, queue = [], set(), False, list(range(len(self.cells)))
        while queue:
            number = queue.pop()
            found = self.pure(number) if number not in taken else None
            if found:
                key, numbers = found
                content = list(self.cells[number])
                rows.append((key, content[0], self.value_of(content)))
                contradiction |= not taken.isdisjoint(numbers)
                taken.add(number)
                for other in numbers:
                    self.add_to_cell(other, content, -1)
                queue += numbers
        complete = (not any(map(any, self.cells)) and not contradiction
                    and sum(count for _, count, _ in rows) == self.net_rows
                    and (rows != [] or not any(self.meter)))
        return rows, complete

    def key_text(self, key):
        return bytes_text(self.kind, self.description, key)

    def value_text(self, value):
        return None if value is None else bytes_text(self.value_kind, self.value_description, value)


def bytes_text(kind, description, data):
    """A key or value as PostgreSQL shows it."""
    if kind == INTEGER:
        return str(*struct.unpack("<q", data))
    if kind == UUID:
        return str(uuid.UUID(bytes=data))
    values = []
    for name in key_types(description):
        require(name in TYPES, f"type {name} is not known here")
        size, shift, at = data[0] & 0x7F, 0, 1
        while data[at - 1] >= 0x80:  # LEB128
            shift, at = shift + 7, at + 1
            size |= (data[at - 1] & 0x7F) << shift
        end = at + max(size - 1, 0)
        require(end <= len(data), "malformed key or value")
        values.append(TYPES[name][1](data[at:end]) if size else None)
        data = data[end:]
    return row_text(values) if description.startswith("(") else values[0]


# Types in canonical keys: text to bytes and bytes to text.
TYPES = {f"int{size}": (lambda text, size=size: int(text).to_bytes(size, "big", signed=True),
                        lambda data: str(int.from_bytes(data, "big", signed=True))) for size in (2, 4, 8)}
TYPES["text"] = str.encode, bytes.decode


def key_types(description):
    return description[1:-1].split(",") if description.startswith("(") else [description]


def item(name, text):
    """The canonical item of a value."""
    if text is None:
        return b"\0"
    data = TYPES[name][0](text)
    size, leb128 = len(data) + 1, b""
    while size >= 0x80:
        size, leb128 = size >> 7, leb128 + bytes([size & 0x7F | 0x80])
    return leb128 + bytes([size]) + data


def row_text(values):
    """A row as PostgreSQL shows it."""
    quoted = ("" if value is None else
              '"' + re.sub(r'(["\\])', r"\1\1", value) + '"' if re.search(r'^$|["\\(),\s]', value) else value
              for value in values)
    return "(" + ",".join(quoted) + ")"


# --- the command line ---

KINDS = {"integer": (INTEGER, 1), "uuid": (UUID, 2)}
ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", None: "\\N"}


def read_value(text):
    text = re.sub(r"[ \t\r\n]", "", sys.stdin.read() if text == "-" else text)
    try:
        return bytes.fromhex(text[2:]) if text.startswith("\\x") else base64.b64decode(text, validate=True)
    except ValueError as error:
        raise Refused(f"text: {error}") from None


def write_value(data):
    print(base64.b64encode(data).decode())


def packed(kind, description, fields):
    """The bytes of a key or value."""
    return (struct.pack("<q", int(fields[0])) if kind == INTEGER else uuid.UUID(fields[0]).bytes if kind == UUID else
            b"".join(map(item, key_types(description), fields)))


def lines():
    """The columns of each line of standard input, in the text format of COPY."""
    unescape = {escape: char for char, escape in ESCAPES.items()}
    for line in sys.stdin:
        yield [None if field == "\\N" else re.sub(r"\\.", lambda match: unescape[match[0]], field)
               for field in line.rstrip("\n").split("\t")]


def build(*, hashes=4, cells=1, seed=0, values="", value_size=32, kind="integer", key_size=32):
    """kind and values: integer, uuid, or a description as text or (int4,text), with bytes of a size."""
    number, limbs = KINDS.get(kind, (CANONICAL, key_size // 8))
    of_value = (*KINDS.get(values, (CANONICAL, value_size // 8)), "" if values in KINDS else values) if values else (0, 0, "")
    sketch = Sketch(hashes, cells, seed, of_value, number, limbs, kind if number == CANONICAL else "")
    n = len(key_types(kind))
    for fields in lines():
        sketch.insert(packed(number, kind, fields[:n]), packed(of_value[0], values, [fields[n]]) if values else int(fields[n]),
                      *map(int, fields[n + 1:]))
    write_value(sketch.to_bytes())


def escaped(text):
    return ESCAPES[None] if text is None else re.sub(r"[\\\t\n\r]", lambda match: ESCAPES[match[0]], text)


def decode(value):
    sketch = Sketch.from_bytes(read_value(value))
    rows, complete = sketch.decode()
    for key, count, y in rows:
        side = "left" if count > 0 else "right" if count < 0 else "both"
        text = escaped(sketch.key_text(key))
        print(text, side, count, escaped(sketch.value_text(y)), sep="\t")
    return 0 if complete else 1


def subtract(value, other):
    sketch = Sketch.from_bytes(read_value(value))
    sketch.subtract(Sketch.from_bytes(read_value(other)))
    write_value(sketch.to_bytes())


def estimate(value):
    """About how many rows are in a difference."""
    print(sum(counter * counter for counter in Sketch.from_bytes(read_value(value)).meter))


def reseal(value):
    """Put a right checksum to bytes that are to be refused for something else."""
    write_value(seal(read_value(value)[:-8]))


def command(description, *commands):
    """Run the command that the arguments name.  It has an option for each parameter with a default."""
    parser = argparse.ArgumentParser(description=description)
    parsers = parser.add_subparsers(required=True)
    for run in commands:
        arguments = parsers.add_parser(run.__name__)
        arguments.set_defaults(run=run)
        for name, parameter in inspect.signature(run).parameters.items():
            if parameter.default is parameter.empty:
                arguments.add_argument(name)
            else:
                arguments.add_argument("--" + name.replace("_", "-"), type=type(parameter.default), default=parameter.default)
    options = vars(parser.parse_args())
    try:
        return options.pop("run")(**options)
    except Refused as refusal:
        print(f"refused: {refusal}", file=sys.stderr)
        return 2


def main():
    return command(__doc__, build, decode, subtract, estimate, reseal)


if __name__ == "__main__":
    sys.exit(main())
