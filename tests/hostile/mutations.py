"""Seeded changes of text, arrays, JSON documents and bytes."""

import copy

import numpy as np

NUMBERS = [0, 1, -1, 2, 7, -(2**31), 2**31, 2**62, 10**9, 10**30, 0.5, -1e308, 1e-320]
WORDS = ["", "nan", "inf", "-inf", "None", "os:system", "../../x", "é\0", "9" * 400]
TOKENS = [*map(str, NUMBERS), *WORDS, "{", "}", "'", '"', "\\n", ";", ",", "?", "1:1"]
JUNK = [None, True, False, *NUMBERS, *WORDS, [], {}, [[]], {"t": "array", "v": 0}]
DTYPES = ["f2", "f4", "f8", ">f8", "i1", "u1", "i4", "i8", "u8", "?", "c16", "U4", "S3"]


def pick(rng, items):
    """Return one item of a list, as it is."""
    return items[int(rng.integers(len(items)))]


def mutate_bytes(rng, raw):
    """Flip, delete, repeat, overwrite or truncate."""
    raw = bytearray(raw or b"\0")
    first = int(rng.integers(len(raw)))
    last = min(len(raw), first + int(rng.integers(1, 17)))
    kind = pick(rng, ["flip", "flip", "delete", "repeat", "overwrite", "truncate"])
    if kind == "flip":
        raw[first] ^= int(rng.integers(1, 256))
    elif kind == "delete":
        del raw[first:last]
    elif kind == "repeat":
        raw[first:first] = raw[first:last] * int(rng.integers(1, 9))
    elif kind == "overwrite":
        raw[first:last] = bytes([pick(rng, [0, 255, 127, 128])]) * (last - first)
    else:
        del raw[first:]
    return bytes(raw)


def mutate_text(rng, text):
    """Change a token, or delete, repeat, exchange, split or join lines."""
    lines = text.split("\n")
    at, other = (int(rng.integers(len(lines))) for _ in range(2))
    kind = pick(
        rng, ["token", "token", "token", "delete", "repeat", "exchange", "join"]
    )
    if kind == "token":
        line = lines[at]
        places = [0, *(i for i, c in enumerate(line) if c in ",;: '\"{}@"), len(line)]
        first = pick(rng, places)
        last = pick(rng, [p for p in places if p >= first])
        lines[at] = line[:first] + pick(rng, [line[0:1], *TOKENS]) + line[last:]
    elif kind == "delete":
        del lines[at]
    elif kind == "repeat":
        lines[at:at] = [lines[at]] * int(rng.integers(1, 4))
    elif kind == "exchange":
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at : at + 2] = ["".join(lines[at : at + 2])]
    return "\n".join(lines)


def mutate_array(rng, array):
    """Change a value, the signs, the shape, the length or the type."""
    array = np.array(array)
    kinds = ["value", "value", "value", "sign", "shape", "length", "dtype"]
    kind = pick(rng, kinds) if array.ndim else "value"
    if kind == "sign" and array.dtype.kind in "fi":
        return -array
    if kind == "dtype" and array.dtype.names is None:
        with np.errstate(all="ignore"):
            return array.astype("U" if array.dtype.kind in "US" else pick(rng, DTYPES))
    if kind == "shape":
        shapes = [array.reshape(-1), array[None], array.T, array[..., None]]
        return np.ascontiguousarray(pick(rng, [*shapes, array[..., :0]]))
    if kind == "length" and len(array):
        n = len(array)
        wanted = pick(rng, [0, 1, n - 1, n // 2, n + 1, 2 * n])
        return array[np.arange(wanted) % n]
    if array.size:
        # A record, such as the nodes of a tree, is changed in one of its fields.
        names = array.dtype.names
        field = array if names is None else array[pick(rng, list(names))]
        _set_value(rng, field)
    return array


def _set_value(rng, array):
    """Set one entry to a number that the type of the array can hold."""
    value = pick(rng, [np.nan, np.inf, *NUMBERS])
    where = np.unravel_index(int(rng.integers(array.size)), array.shape)
    try:
        with np.errstate(all="ignore"):
            array[where] = value
    except (OverflowError, ValueError):
        limits = np.iinfo(array.dtype)
        array[where] = pick(rng, [limits.min, limits.max])


def places(node, here=()):
    """Yield the path of every value in a JSON document."""
    children = node.items() if isinstance(node, dict) else ()
    children = enumerate(node) if isinstance(node, list) else children
    for key, child in children:
        yield (*here, key)
        yield from places(child, (*here, key))


def mutate_json(rng, document):
    """Replace, delete, repeat, exchange or rename values of a document."""
    document = copy.deepcopy(document)
    found = list(places(document))
    if not found:
        return pick(rng, JUNK)
    parent, key = _at(document, pick(rng, found))
    other, other_key = _at(document, pick(rng, found))
    kind = pick(rng, ["junk", "junk", "scale", "copy", "delete", "repeat", "name"])
    value = parent[key]
    if kind == "scale" and isinstance(value, int | float):
        parent[key] = pick(
            rng, [-value, value + 1, value - 1, value * 1000, str(value)]
        )
    elif kind == "copy":
        parent[key] = copy.deepcopy(other[other_key])
    elif kind == "delete":
        del parent[key]
    elif kind == "repeat" and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(value))
    elif kind == "name" and isinstance(parent, dict):
        parent[pick(rng, ["__class__", "classes_", "_x", "memory"])] = parent.pop(key)
    else:
        parent[key] = copy.deepcopy(pick(rng, JUNK))
    return document


def _at(document, path):
    for key in path[:-1]:
        document = document[key]
    return document, path[-1]
