"""Conversion of records to arrays and JSON, and back, for the checkpoints of long runs.

A record is a dataclass or a named tuple of this package; its fields are records, arrays, numbers,
text, random streams, or tuples, lists and dictionaries of such. Its arrays are gathered in a list,
and the rest is a tree that JSON can hold and that refers to the arrays. A dataclass is written as
the state that it pickles, which leaves out matrices that can be computed again. An object that
occurs several times in a record is written once, and is one object again after reading. Reading a
file creates no other objects than these.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

#: Name of this package, whose records alone are written and read.
_PACKAGE = __name__.partition(".")[0]
#: Types of objects that JSON holds as they are.
_JSON_TYPES = (bool, int, float, str, type(None))
#: Bit generators of NumPy that are read; their names are looked up in `numpy.random`.
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


class StoredRecord(NamedTuple):
    """A record as a tree and arrays, which can be stored."""

    tree: Any  # lists, dictionaries, text and numbers
    arrays: list[np.ndarray]  # the tree refers to them by their positions


def to_arrays(record: Any, given: Any = None) -> StoredRecord:
    """Write a record as a tree and arrays.

    Parameters
    ----------
    record : object
        A record, or tuples, lists and dictionaries of such.
    given : object, optional
        An object that the reader has too, such as the model. Its parts are not written, only how
        they are reached.

    Raises
    ------
    TypeError
        If a part is of a kind that cannot be written; the message names its type.
    """
    writer = _Writer(given)
    return StoredRecord(writer.write(record), writer.arrays)


def from_arrays(written: StoredRecord, given: Any = None) -> Any:
    """Return the record that `to_arrays` wrote, with the same object `given`.

    Raises
    ------
    ValueError
        If the tree contains anything but records of this package, or is invalid.
    """
    try:
        return _Reader(written.arrays, given).read(written.tree)
    except (
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ValueError(f"The file has invalid content: {error!r}.") from error


def _state_by_name(part: Any) -> dict[str, Any] | None:
    """Return the state that an object pickles, by name; None if it is no mapping from names."""
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return dict(zip(part._fields, part, strict=True))
    if isinstance(part, (*_JSON_TYPES, type, np.ndarray, np.generic, np.random.Generator)):
        return None
    state = part.__getstate__() if hasattr(part, "__getstate__") else None
    return state if isinstance(state, dict) else None


def _find_paths(root: Any) -> dict[int, list[Any]]:
    """Return the path to every object that is part of another one, by the object's id.

    The steps of a path are keys, positions and names.
    """
    found: dict[int, list[Any]] = {}
    todo: list[tuple[list[Any], Any]] = [([], root)]
    while todo:
        path, part = todo.pop()
        if isinstance(part, (*_JSON_TYPES, np.ndarray, np.generic)) or id(part) in found:
            continue
        found[id(part)] = path
        if isinstance(part, dict):
            children = list(part.items())
        elif isinstance(part, (list, tuple)) and not hasattr(part, "_fields"):
            children = list(enumerate(part))
        else:
            children = list((_state_by_name(part) or {}).items())
        todo.extend(
            ([*path, step], child) for step, child in children if isinstance(step, (int, str))
        )
    return found


def _follow_path(root: Any, path: Sequence[Any]) -> Any:
    """Return the part that a path leads to."""
    for step in path:
        steps = root if isinstance(root, (dict, list)) or type(root) is tuple else None
        if steps is None:
            steps = _state_by_name(root)
            if steps is None or step not in steps:
                raise ValueError(
                    f"The file refers to {step!r}, which a {type(root).__name__} has not."
                )
        root = steps[step]
    return root


class _Writer:
    """Turns parts into trees that JSON can hold, and gathers arrays."""

    def __init__(self, given: Any) -> None:
        self.given = {} if given is None else _find_paths(given)
        self.arrays: list[np.ndarray] = []
        # By id: the number of a record, and the record, so that no other object gets its id.
        self._records: dict[int, tuple[int, Any]] = {}

    def write(self, part: Any) -> Any:
        """Return a part as a tree that JSON can hold; its arrays are appended to `arrays`."""
        if isinstance(part, (np.ndarray, np.generic)):
            if part.dtype.hasobject:
                raise TypeError("An array of objects cannot be written.")
            self.arrays.append(np.asarray(part))
            return {"array": len(self.arrays) - 1, "scalar": isinstance(part, np.generic)}
        if isinstance(part, _JSON_TYPES):
            return part
        if isinstance(part, np.random.Generator):
            return {"stream": _describe_stream(part)}
        # A container may have been filled since, and is written whole.
        is_container = isinstance(part, (dict, list)) or type(part) is tuple
        if id(part) in self.given and not is_container:
            return {"given": self.given[id(part)]}
        if isinstance(part, dict):
            kind = "counter" if isinstance(part, Counter) else "dict"
            return {kind: [[self.write(key), self.write(p)] for key, p in part.items()]}
        if isinstance(part, list):
            return {"list": [self.write(p) for p in part]}
        if type(part) is tuple:
            return {"tuple": [self.write(p) for p in part]}
        return self._record(part)

    def _record(self, part: Any) -> Any:
        if id(part) in self._records:
            return {"same": self._records[id(part)][0]}
        state = _state_by_name(part)
        if state is None or not _is_record(type(part)):
            raise TypeError(
                f"A {type(part).__module__}.{type(part).__qualname__} cannot be written as arrays "
                f"and JSON: it is no dataclass or named tuple of {_PACKAGE}."
            )
        kind = f"{type(part).__module__}:{type(part).__qualname__}"
        tree = {name: self.write(p) for name, p in state.items()}
        self._records[id(part)] = len(self._records), part
        return {"record": kind, "fields": tree}


def _is_record(kind: Any) -> bool:
    """Whether a class is a dataclass or a named tuple of this package."""
    return (
        isinstance(kind, type)
        and kind.__module__.startswith(f"{_PACKAGE}.")
        and (is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")))
    )


def _describe_stream(stream: np.random.Generator) -> dict[str, Any]:
    """Return the state of a random stream, and of the seed sequence from which it spawns others."""
    seed: Any = stream.bit_generator.seed_seq
    return {
        "kind": type(stream.bit_generator).__name__,
        "state": _as_lists(stream.bit_generator.state),
        "entropy": seed.entropy,
        "spawn_key": list(seed.spawn_key),
        "n_children_spawned": seed.n_children_spawned,
    }


def _as_lists(state: Any) -> Any:
    """Return the state of a bit generator with lists in place of arrays."""
    if isinstance(state, dict):
        return {name: _as_lists(part) for name, part in state.items()}
    return state.tolist() if isinstance(state, (np.ndarray, np.generic)) else state


class _Reader:
    """Turns trees into records, with arrays from a list."""

    def __init__(self, arrays: Sequence[np.ndarray], given: Any) -> None:
        self.arrays = arrays
        self.given = given
        self._records: list[Any] = []  # records, in the order in which they were written

    def read(self, part: Any) -> Any:
        """Return the object that `_Writer.write` turned into a part of a tree."""
        if isinstance(part, _JSON_TYPES):
            return part
        if not isinstance(part, dict):
            raise ValueError(f"The file has a {type(part).__name__} where a part should be.")
        if "record" in part:
            return self._record(part["record"], part["fields"])
        if "array" in part:
            array = self.arrays[part["array"]]
            return array[()] if part["scalar"] else array
        ((kind, content),) = part.items()
        match kind:
            case "same":
                return self._records[content]
            case "given":
                return _follow_path(self.given, content)
            case "stream":
                return _read_stream(content)
            case "dict" | "counter":
                pairs = {self.read(key): self.read(value) for key, value in content}
                return Counter(pairs) if kind == "counter" else pairs
            case "list" | "tuple":
                parts = [self.read(value) for value in content]
                return tuple(parts) if kind == "tuple" else parts
        raise ValueError(f"The file has a part of unknown kind {kind!r}.")

    def _record(self, kind: str, parts: Mapping[str, Any]) -> Any:
        found = _find_class(kind)
        values = {name: self.read(part) for name, part in parts.items()}
        if issubclass(found, tuple):
            record = found(**values)
        else:
            # Besides its fields, an object keeps the values that it has computed and cached.
            known = {field.name for field in fields(found)}
            strange = [
                name
                for name in values.keys() - known
                if not isinstance(getattr(found, name, None), cached_property)
            ]
            if strange:
                raise ValueError(f"A {found.__name__} has no {sorted(strange)}.")
            record = object.__new__(found)
            vars(record).update(values)
        self._records.append(record)
        return record


def _read_stream(state: Mapping[str, Any]) -> np.random.Generator:
    """Return the random stream that `_describe_stream` described."""
    if state["kind"] not in _BIT_GENERATORS:
        raise ValueError(f"There is no random stream of kind {state['kind']!r}.")
    seed = np.random.SeedSequence(
        state["entropy"],
        spawn_key=state["spawn_key"],
        n_children_spawned=state["n_children_spawned"],
    )
    bits = getattr(np.random, state["kind"])(seed)
    bits.state = state["state"]
    return np.random.Generator(bits)


def _find_class(kind: str) -> Any:
    module, _, name = kind.partition(":")
    if not module.startswith(f"{_PACKAGE}."):
        raise ValueError(f"A record must be of this package; the file names {module}.")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        found = None
    if not _is_record(found) or found.__module__ != module:
        raise ValueError(f"{kind} is no record of this package.")
    return found
