"""Files of trees and arrays: a damaged file is refused, and a file is replaced atomically.

The first line names the format. The second one is the SHA-256 of all that follows: the length of an
index, the index in JSON, and the bytes of the arrays in the order of the index. Such a file
contains no code, and nothing in it is ever unpickled.
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

from .archive import StoredRecord

#: First bytes of a file.
_MAGIC = b"skgpmcmc checkpoint "
#: Version of the format.
_VERSION = 1
#: Characters of the digest, in hexadecimal.
_DIGEST_LENGTH = 64
#: Digits with which the length of the index is written.
_INDEX_LENGTH_DIGITS = 16
#: Types of the entries of arrays, as NumPy's characters.
_ARRAY_TYPES = "?bhilqBHILQfdFD"
#: Most axes of an array.
_MOST_AXES = 8


class UnreadableError(ValueError):
    """A file is damaged, or of another format."""


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Replace a file by another one, or leave it as it is.

    Parameters
    ----------
    path : Path
        The file. A temporary file in the same folder takes its place once it is complete.
    content : dict
        Objects that JSON can hold, and any number of `StoredRecord`.

    Raises
    ------
    OSError
        If the file cannot be written; an earlier file is untouched.
    """
    arrays: list[np.ndarray] = []
    index = json.dumps(_index_arrays(content, arrays)).encode()
    digest = hashlib.sha256()
    for part in _serialize(index, arrays):
        digest.update(part)
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as file:
            file.write(b"%s%d\n%s\n" % (_MAGIC, _VERSION, digest.hexdigest().encode()))
            file.writelines(_serialize(index, arrays))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    # The folder is written to disk, too, so that the new name outlives a power failure. Windows
    # cannot open folders, and some file systems cannot sync them.
    with suppress(OSError):
        handle = os.open(path.parent, os.O_RDONLY)
        with suppress(OSError):
            os.fsync(handle)
        os.close(handle)


def _serialize(index: bytes, arrays: Sequence[np.ndarray]) -> Iterator[bytes]:
    """Give the bytes after the two first lines, one array at a time to save memory."""
    yield b"%0*d\n" % (_INDEX_LENGTH_DIGITS, len(index))
    yield index
    for array in arrays:
        yield array.tobytes(order="A")


def _index_arrays(part: Any, arrays: list[np.ndarray]) -> Any:
    """Return a part with type, shape and order in place of each array, which is appended."""
    if isinstance(part, StoredRecord):
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
    """Return the content that `write_sealed` wrote.

    Raises
    ------
    UnreadableError
        If the file has another format or version, was cut short or changed.
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
        digest = file.read(_DIGEST_LENGTH + 1)
        rest = file.read()
    if digest != hashlib.sha256(rest).hexdigest().encode() + b"\n":
        raise UnreadableError("it is damaged or was cut short: its digest does not fit")
    try:
        length = int(rest[:_INDEX_LENGTH_DIGITS])
        begin = _INDEX_LENGTH_DIGITS + 1 + length
        index = json.loads(rest[_INDEX_LENGTH_DIGITS + 1 : begin])
        content = _restore_arrays(index, _ArrayBytes(memoryview(rest)[begin:]))
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise UnreadableError(f"its content is invalid ({error})") from error
    return dict(content)


class _ArrayBytes:
    """The bytes of all arrays, from which one array after the other is taken."""

    def __init__(self, rest: memoryview) -> None:
        self._rest = rest

    def take_array(self, kind: str, shape: list[int], order: str) -> np.ndarray:
        """Return the next array; an error if its type is not legal or too few bytes are left."""
        dtype = np.dtype(str(kind))
        sizes = [int(n) for n in shape]
        if dtype.char not in _ARRAY_TYPES or len(sizes) > _MOST_AXES or min(sizes, default=0) < 0:
            raise ValueError(f"no array is of {kind} {shape}")
        n_bytes = dtype.itemsize * prod(sizes)
        if n_bytes > len(self._rest):
            raise ValueError(f"an array of {n_bytes} bytes has {len(self._rest)}")
        own = self._rest[:n_bytes]
        self._rest = self._rest[n_bytes:]
        # A copy is aligned and can be changed.
        flat = np.frombuffer(own, dtype).copy()
        return flat.reshape(sizes, order="F" if order == "F" else "C")


def _restore_arrays(part: Any, content: _ArrayBytes) -> Any:
    """Return an index with its arrays in place of their descriptions."""
    if isinstance(part, dict) and part.keys() == {"tree", "arrays"}:
        return StoredRecord(part["tree"], [content.take_array(*place) for place in part["arrays"]])
    if isinstance(part, dict):
        return {name: _restore_arrays(p, content) for name, p in part.items()}
    return [_restore_arrays(p, content) for p in part] if isinstance(part, list) else part
