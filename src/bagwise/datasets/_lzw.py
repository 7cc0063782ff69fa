"""Unix ``compress`` (.Z) files, in which UCI keeps the Musk data.

Python's library has no reader for them. Codes are 9 to 16 bits wide, lowest bit
first, and stand in groups of eight; when the width changes, the rest of a group is
padding.
"""

from __future__ import annotations

_MAGIC = b"\x1f\x9d"
_CLEAR = 256


def decompress(raw: bytes, limit: int = 2**28) -> bytes:
    """Return the content of a .Z file.

    Parameters
    ----------
    raw : bytes
        The file.
    limit : int, default=2**28
        Refuse to produce more bytes than this.

    Raises
    ------
    ValueError
        The data are damaged, too large, or no .Z file.
    """
    if len(raw) < 3 or raw[:2] != _MAGIC:
        raise ValueError("not a Unix compress (.Z) file")
    max_bits, block_mode = raw[2] & 0x1F, bool(raw[2] & 0x80)
    if not 9 <= max_bits <= 16:
        raise ValueError(f"a .Z file with codes of {max_bits} bits")
    start = [bytes([i]) for i in range(256)] + ([b""] if block_mode else [])
    table = list(start)
    width, previous = 9, b""
    out: list[bytes] = []
    produced, position = 0, 3
    while position < len(raw):
        group = raw[position : position + width]
        position += width
        bits = int.from_bytes(group, "little")
        mask = (1 << width) - 1
        for k in range(len(group) * 8 // width):
            code = (bits >> (k * width)) & mask
            if block_mode and code == _CLEAR:
                table, width, previous = list(start), 9, b""
                break
            entry = _entry(code, table, previous)
            out.append(entry)
            produced += len(entry)
            if previous and len(table) < 1 << max_bits:
                table.append(previous + entry[:1])
            previous = entry
            if len(table) > mask and width < max_bits:
                width += 1
                break
        if produced > limit:
            raise ValueError(f"a .Z file with more than {limit} bytes of content")
    return b"".join(out)


def _entry(code: int, table: list[bytes], previous: bytes) -> bytes:
    if code < len(table):
        return table[code]
    # The one code a reader meets before it can have built it.
    if code == len(table) and previous:
        return previous + previous[:1]
    raise ValueError("a damaged .Z file")
