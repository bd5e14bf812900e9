"""A file of trees and arrays that is whole or refused, and replaced at once or not at all.

Its first line names the format, the second one is the SHA-256 of all that follows: the length of an
index, the index in JSON, and the bytes of the arrays, to which the index refers. Nothing in such a
file is code, and nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from .archive import Written

#: First bytes of a file.
_MAGIC = b"skgpmcmc checkpoint "
#: Version of the format.
_VERSION = 1
#: Characters of the digest.
_DIGEST = 64
#: Characters of the length of the index.
_LENGTH = 16
#: Kinds of numbers that arrays may have, as NumPy's characters.
_ARRAY_TYPES = "?bhilqBHILQfdFD"
#: Most axes of an array.
_MOST_AXES = 8


class UnreadableError(ValueError):
    """A file is not what was written."""


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Replace a file by another one, or leave it as it is.

    Parameters
    ----------
    path : Path
        Of the file; another one beside it exists for a moment.
    content : dict
        What JSON can hold, with a `Written` anywhere in it.

    Raises
    ------
    OSError
        If the file cannot be written; an earlier one is untouched.
    """
    arrays: list[np.ndarray] = []
    index = json.dumps(_index_arrays(content, arrays)).encode()
    digest = hashlib.sha256()
    for part in _parts(index, arrays):
        digest.update(part)
    beside = path.with_name(f".{path.name}.part")
    try:
        with beside.open("wb") as file:
            file.write(b"%s%d\n%s\n" % (_MAGIC, _VERSION, digest.hexdigest().encode()))
            file.writelines(_parts(index, arrays))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    _settle(path.parent)


def _settle(folder: Path) -> None:
    """Let a file's new name outlive a failure of power, where the system can say so."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    with suppress(OSError):  # nor do all file systems know of this
        os.fsync(handle)
    os.close(handle)


def _parts(index: bytes, arrays: Sequence[np.ndarray]) -> Iterator[bytes]:
    """Give what follows the head, an array at a time: there may be little memory left."""
    yield b"%0*d\n" % (_LENGTH, len(index))
    yield index
    for array in arrays:
        yield array.tobytes(order="A")


def _index_arrays(part: Any, arrays: list[np.ndarray]) -> Any:
    """Return a part with places in the file instead of arrays."""
    if isinstance(part, Written):
        places = []
        for array in part.arrays:
            if array.dtype.char not in _ARRAY_TYPES:
                raise TypeError(f"An array of {array.dtype} cannot be written.")
            fortran = array.flags.f_contiguous and not array.flags.c_contiguous
            places.append([array.dtype.str, list(array.shape), "F" if fortran else "C"])
            arrays.append(array)
        return {"tree": part.tree, "arrays": places}
    if isinstance(part, dict):
        return {name: _index_arrays(p, arrays) for name, p in part.items()}
    if isinstance(part, (list, tuple)):
        return [_index_arrays(p, arrays) for p in part]
    return part


def read_sealed(path: Path) -> dict[str, Any]:
    """Read what `write_sealed` wrote, every `Written` in its place.

    Raises
    ------
    UnreadableError
        If the file is none of ours, of another version, cut short or changed.
    OSError
        If there is no such file, or it cannot be read.
    """
    with path.open("rb") as file:
        first = file.read(len(_MAGIC))
        version = file.readline(16)
        if first != _MAGIC or not version.strip().isdigit():
            raise UnreadableError("it is no checkpoint of skgpmcmc, or its beginning is damaged")
        if version != b"%d\n" % _VERSION:
            raise UnreadableError(
                f"it has format {int(version)}, and this version of skgpmcmc reads {_VERSION}"
            )
        digest = file.read(_DIGEST + 1)
        rest = file.read()
    if digest != hashlib.sha256(rest).hexdigest().encode() + b"\n":
        raise UnreadableError("it is damaged or was cut short: its digest does not fit")
    try:
        length = int(rest[:_LENGTH])
        begin = _LENGTH + 1 + length
        index = json.loads(rest[_LENGTH + 1 : begin])
        content = _fill_in(index, _Bytes(memoryview(rest)[begin:]))
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise UnreadableError(f"its content is invalid ({error})") from error
    return dict(content)


class _Bytes:
    """The bytes of all arrays, taken one after the other."""

    def __init__(self, rest: memoryview) -> None:
        self._rest = rest

    def array(self, kind: str, shape: list[int], order: str) -> np.ndarray:
        """Take the next array, if there are as many bytes as it says."""
        dtype = np.dtype(str(kind))
        sizes = [int(n) for n in shape]
        if dtype.char not in _ARRAY_TYPES or len(sizes) > _MOST_AXES or min(sizes, default=0) < 0:
            raise ValueError(f"no array is of {kind} {shape}")
        n_bytes = dtype.itemsize * prod(sizes)
        if n_bytes > len(self._rest):
            raise ValueError(f"an array of {n_bytes} bytes has {len(self._rest)}")
        own = self._rest[:n_bytes]
        self._rest = self._rest[n_bytes:]
        # In memory of its own: aligned, and free to be changed.
        flat = np.frombuffer(own, dtype).copy()
        return flat.reshape(sizes, order="F" if order == "F" else "C")


def _fill_in(part: Any, content: _Bytes) -> Any:
    """Return an index with arrays in their places."""
    if isinstance(part, dict) and part.keys() == {"tree", "arrays"}:
        return Written(part["tree"], [content.array(*place) for place in part["arrays"]])
    if isinstance(part, dict):
        return {name: _fill_in(p, content) for name, p in part.items()}
    return [_fill_in(p, content) for p in part] if isinstance(part, list) else part
