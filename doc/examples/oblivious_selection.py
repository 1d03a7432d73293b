#!/usr/bin/python3
"""Oblivious selection: read the items that match from a server that must not learn which ones do.

    oblivious_selection.py secret                          print a new secret
    oblivious_selection.py store TABLE                     store the lines "KEY tab TEXT" of standard input
    oblivious_selection.py select TABLE CAPACITY PATTERN   print the lines whose text matches the pattern

The environment variable SECRET has the secret, and PGHOST, PGDATABASE and the like name the server.
The items are rows of TABLE, each encrypted.  "select" reads all of them in order.  For each one it reads
the cells of the item's key in an invertible Bloom lookup table, which is a table of the server, too, and
writes them back encrypted anew, whether the item matches and was added or not.  The cells depend on the
key alone.  At the end it reads all cells and lists what is in them.  See doc/applications/oblivious.md.

An illustration of Goodrich & Mitzenmacher, "Invertible Bloom Lookup Tables" (2011).  It needs Debian's
python3-cryptography and python3-psycopg2, and the extension iblt on the server for the number of cells."""

import os
import re
import secrets
import sys
from hashlib import blake2b

import psycopg2
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from psycopg2.sql import SQL, Identifier

KEY_BYTES, TEXT_BYTES, CHECK_BYTES, COUNT_BYTES = 8, 119, 8, 8
RECORD_BYTES = KEY_BYTES + 1 + TEXT_BYTES


class Refused(Exception):
    """The message says why there is no answer."""


# --- an item is a record of fixed length: key, length of the text, text, zeros ---------------------

def to_record(line):
    key, separator, text = line.partition("\t")
    data = text.encode()
    if not separator or not re.fullmatch(r"[0-9]{1,19}", key) or len(data) > TEXT_BYTES:
        raise Refused(f"a line needs a number, a tab and a text of at most {TEXT_BYTES} bytes")
    return int(key).to_bytes(KEY_BYTES, "big") + bytes([len(data)]) + data.ljust(TEXT_BYTES, b"\0")


def key_of(record):
    return int.from_bytes(record[:KEY_BYTES], "big")


def text_of(record):
    return record[KEY_BYTES + 1:][:record[KEY_BYTES]].decode()


# --- the secret's two keys: one encrypts, the other one hashes ---------------------------------------

class Secret:
    def __init__(self, text):
        if not re.fullmatch("[0-9a-f]{64}", text):
            raise Refused("the variable SECRET must hold what \"secret\" printed")
        self.cipher = AESGCM(self._derive(text, b"encrypt"))
        self.hash_key = self._derive(text, b"hash")

    @staticmethod
    def _derive(text, purpose):
        return blake2b(key=bytes.fromhex(text), digest_size=32, person=purpose).digest()

    def encrypt(self, place, data):
        """With a fresh random nonce, so two encryptions never look alike. Bound to its place."""
        nonce = secrets.token_bytes(12)
        return nonce + self.cipher.encrypt(nonce, data, place.encode())

    def decrypt(self, place, data):
        try:
            return self.cipher.decrypt(data[:12], data[12:], place.encode())
        except (InvalidTag, ValueError):
            raise Refused(f"the server changed {place}") from None

    def hash(self, purpose, data):
        digest = blake2b(data, key=self.hash_key, digest_size=8, person=purpose.encode()).digest()
        return int.from_bytes(digest, "big")


# --- the lookup table: a cell is (number of records, their sum, the sum of their hashes) -------------

MODULI = 1 << 8 * COUNT_BYTES, 1 << 8 * RECORD_BYTES, 1 << 8 * CHECK_BYTES
EMPTY = 0, 0, 0


def pack(cell):
    return b"".join(part.to_bytes((modulus.bit_length() - 1) // 8, "big") for part, modulus in zip(cell, MODULI))


def unpack(data):
    middle, end = COUNT_BYTES, COUNT_BYTES + RECORD_BYTES
    return tuple(int.from_bytes(part, "big") for part in (data[:middle], data[middle:end], data[end:]))


class Layout:
    """Which cells a key has, one in each of as many subtables as there are hashes."""

    def __init__(self, secret, hashes, cells):
        self.secret, self.hashes, self.size, self.cells = secret, hashes, cells // hashes, cells

    def cells_of(self, record):
        return [i * self.size + self.secret.hash(f"cell {i}", record[:KEY_BYTES]) % self.size for i in range(self.hashes)]

    def add(self, cell, record, times):
        """The cell with the record added so many times: 1, 0 or -1."""
        change = 1, int.from_bytes(record, "big"), self.secret.hash("check", record)
        return tuple((part + times * more) % modulus for part, more, modulus in zip(cell, change, MODULI))

    def holds_one(self, cell):
        count, total, check = cell
        return count == 1 and self.secret.hash("check", total.to_bytes(RECORD_BYTES, "big")) == check

    def list(self, cells):
        """The records in these cells, and whether that is all of them."""
        found, waiting = [], list(range(self.cells))
        while waiting:
            cell = cells[waiting.pop()]
            if not self.holds_one(cell):
                continue
            record = cell[1].to_bytes(RECORD_BYTES, "big")
            found.append(record)
            for number in self.cells_of(record):
                cells[number] = self.add(cells[number], record, -1)
                waiting.append(number)
        return found, all(cell == EMPTY for cell in cells)


# --- what is asked of the server ----------------------------------------------------------------------

class Server:
    """Rows of the tables, which only this class decrypts and encrypts."""

    def __init__(self, secret, table):
        self.secret, self.name, self.table = secret, table, Identifier(table)
        self.connection = psycopg2.connect("")
        self.cursor = self.connection.cursor()

    def run(self, text, *values):
        self.cursor.execute(SQL(text).format(table=self.table), values)

    def read(self, text, number, place):
        self.run(text, number)
        row = self.cursor.fetchone()
        if row is None:
            raise Refused(f"the server lacks {place}")
        return self.secret.decrypt(place, bytes(row[0]))

    # Row 0 has the number of items, so that the server cannot hide some.
    def write_items(self, records):
        self.run("CREATE TABLE {table} (position int PRIMARY KEY, item bytea NOT NULL)")
        for position, record in enumerate([len(records).to_bytes(8, "big")] + records):
            self.run("INSERT INTO {table} VALUES (%s, %s)", position, self.secret.encrypt(f"item {position} of {self.name}", record))
        self.connection.commit()

    def read_item(self, position):
        return self.read("SELECT item FROM {table} WHERE position = %s", position, f"item {position} of {self.name}")

    def make_cells(self, capacity):
        self.run("SELECT hashes, cells FROM iblt_info(iblt_new(capacity => %s))", capacity)
        layout = Layout(self.secret, *self.cursor.fetchone())
        # or the server could give back the cells of an earlier selection
        self.selection = secrets.token_hex(8)
        self.run("CREATE TEMP TABLE cells (number int PRIMARY KEY, cell bytea NOT NULL)")
        for number in range(layout.cells):
            self.run("INSERT INTO cells VALUES (%s, %s)", number, self.secret.encrypt(self.place(number), pack(EMPTY)))
        return layout

    def place(self, number):
        return f"cell {number} of selection {self.selection}"

    def read_cell(self, number):
        return unpack(self.read("SELECT cell FROM cells WHERE number = %s", number, self.place(number)))

    def write_cell(self, number, cell):
        self.run("UPDATE cells SET cell = %s WHERE number = %s", self.secret.encrypt(self.place(number), pack(cell)), number)


def select(server, capacity, pattern):
    """The records whose text matches. What the server sees does not depend on which ones do."""
    layout = server.make_cells(capacity)
    matches = 0
    for position in range(1, int.from_bytes(server.read_item(0), "big") + 1):
        record = server.read_item(position)
        wanted = bool(pattern.search(text_of(record)))
        matches += wanted
        for number in layout.cells_of(record):
            server.write_cell(number, layout.add(server.read_cell(number), record, int(wanted)))
    found, complete = layout.list([server.read_cell(number) for number in range(layout.cells)])
    # Not earlier: the server would see that, and when.
    if matches > capacity:
        raise Refused(f"{matches} items match, more than the capacity {capacity}")
    if not complete or len(found) != matches:
        raise Refused(f"cannot list all of the {matches} items that match")
    return sorted(found, key=key_of)


def store(server, lines):
    records = [to_record(line.rstrip("\n")) for line in lines]
    if len({key_of(record) for record in records}) < len(records):
        raise Refused("a key occurs twice")
    server.write_items(records)


def main(arguments):
    if arguments == ["secret"]:
        print(secrets.token_hex(32))
    elif arguments[:1] == ["store"] and len(arguments) == 2:
        store(Server(Secret(os.environ.get("SECRET", "")), arguments[1]), sys.stdin)
    elif arguments[:1] == ["select"] and len(arguments) == 4:
        server = Server(Secret(os.environ.get("SECRET", "")), arguments[1])
        for record in select(server, int(arguments[2]), re.compile(arguments[3])):
            print(key_of(record), text_of(record), sep="\t")
    else:
        raise Refused("usage: secret | store TABLE | select TABLE CAPACITY PATTERN")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (Refused, ValueError, re.error, psycopg2.Error) as error:
        sys.exit(f"oblivious_selection.py: {str(error).strip()}")
