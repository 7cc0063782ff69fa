"""Change what a model file says, the way an attacker would."""

import hashlib
import io
import json
import zipfile

import numpy as np


def read_parts(path):
    """Return the description and the arrays of a file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    description = json.loads(members.pop("model.json"))
    arrays = {
        int(name.split("/")[1].removesuffix(".npy")): np.load(io.BytesIO(raw))
        for name, raw in members.items()
    }
    return description, arrays


def write_parts(path, description, arrays, *, raw=None):
    """Write a file of these parts with hashes that fit; `raw` adds members as they are.

    An attacker can compute hashes: they protect from accidents.
    """
    members = []
    for number, array in arrays.items():
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=True)
        members.append((f"arrays/{number}.npy", buffer.getvalue()))
    members += (raw or {}).items()
    last = max([-1, *(_number(name) for name, _ in members)])
    hashes = [""] * (last + 1)
    for name, content in members:
        hashes[_number(name)] = hashlib.sha256(content).hexdigest()
    write_description(path, {**description, "arrays": hashes}, members)


def write_description(path, description, members=()):
    """Write a description, or its text, with its hash, and further members."""
    text = description if isinstance(description, str) else json.dumps(description)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", text)
        for name, content in members:
            archive.writestr(name, content)
        archive.comment = hashlib.sha256(text.encode()).hexdigest().encode()


def _number(name):
    return int(name.split("/")[1].removesuffix(".npy"))


def objects_of(node, name):
    """Return the descriptions of all objects of a class, by its bare name."""
    found = []
    if isinstance(node, dict):
        if node.get("t") == "object" and node["c"].endswith(f":{name}"):
            found.append(node)
        for child in node.values():
            found += objects_of(child, name)
    elif isinstance(node, list):
        for child in node:
            found += objects_of(child, name)
    return found


def trees_of(node):
    """Return the descriptions of all compiled trees."""
    found = []
    if isinstance(node, dict):
        found += [node] if node.get("t") == "tree" else []
        for child in node.values():
            found += trees_of(child)
    elif isinstance(node, list):
        for child in node:
            found += trees_of(child)
    return found
