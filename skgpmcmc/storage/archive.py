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
from collections.abc import Iterator, Mapping, Sequence
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


def _list_children(part: Any) -> Iterator[tuple[Any, Any]]:
    """Give the parts of an object, each with its key, position or name.

    Yields
    ------
    tuple
        Key and part.
    """
    if isinstance(part, dict):
        yield from part.items()
    elif isinstance(part, (list, tuple)) and not hasattr(part, "_fields"):
        yield from enumerate(part)
    else:
        yield from (_state_by_name(part) or {}).items()


def _find_paths(root: Any) -> dict[int, list[Any]]:
    """Return the path to every object that is part of another one, by the object's id."""
    found: dict[int, list[Any]] = {}
    todo: list[tuple[list[Any], Any]] = [([], root)]
    while todo:
        path, part = todo.pop()
        if isinstance(part, (*_JSON_TYPES, np.ndarray, np.generic)) or id(part) in found:
            continue
        found[id(part)] = path
        plain = ((s, p) for s, p in _list_children(part) if isinstance(s, (int, str)))
        todo.extend(([*path, step], next_part) for step, next_part in plain)
    return found


def _follow_path(root: Any, path: Sequence[Any]) -> Any:
    """Return the part that a path leads to."""
    for step in path:
        root = (
            root[step]
            if isinstance(root, (dict, list)) or type(root) is tuple
            else _get_by_name(root, step)
        )
    return root


def _get_by_name(part: Any, name: Any) -> Any:
    """Return the field of an object's state that has a name."""
    state = _state_by_name(part)
    if state is None or name not in state:
        raise ValueError(f"The file refers to {name!r}, which a {type(part).__name__} has not.")
    return state[name]


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
            return self._array(part)
        if isinstance(part, _JSON_TYPES):
            return part
        if isinstance(part, np.random.Generator):
            return {"stream": _describe_stream(part)}
        if id(part) in self.given and _is_referable(part):
            return {"given": self.given[id(part)]}
        if isinstance(part, dict):
            kind = "counter" if isinstance(part, Counter) else "dict"
            return {kind: [[self.write(key), self.write(p)] for key, p in part.items()]}
        if isinstance(part, list):
            return {"list": [self.write(p) for p in part]}
        if type(part) is tuple:
            return {"tuple": [self.write(p) for p in part]}
        return self._record(part)

    def _array(self, part: Any) -> Any:
        if part.dtype.hasobject:
            raise TypeError("An array of objects cannot be written.")
        self.arrays.append(np.asarray(part))
        return {"array": len(self.arrays) - 1, "scalar": isinstance(part, np.generic)}

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


def _is_referable(part: Any) -> bool:
    """Whether a part may be written as a reference: a container may have been filled since."""
    return not isinstance(part, (dict, list)) and type(part) is not tuple


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
        return (
            getattr(self, f"_read_{kind}")(content) if kind in _PART_KINDS else _refuse_kind(kind)
        )

    def _record(self, kind: str, parts: Mapping[str, Any]) -> Any:
        found = _find_class(kind)
        values = {name: self.read(part) for name, part in parts.items()}
        if issubclass(found, tuple):
            record = found(**values)
        else:
            known = {field.name for field in fields(found)}
            strange = [name for name in values.keys() - known if not _is_cached(found, name)]
            if strange:
                raise ValueError(f"A {found.__name__} has no {sorted(strange)}.")
            record = object.__new__(found)
            vars(record).update(values)
        self._records.append(record)
        return record

    def _read_same(self, number: int) -> Any:
        return self._records[number]

    def _read_given(self, path: Sequence[Any]) -> Any:
        return _follow_path(self.given, path)

    def _read_stream(self, state: Mapping[str, Any]) -> np.random.Generator:
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

    def _read_dict(self, pairs: Sequence[Any]) -> dict[Any, Any]:
        return {self.read(key): self.read(part) for key, part in pairs}

    def _read_counter(self, pairs: Sequence[Any]) -> Counter[Any]:
        return Counter(self._read_dict(pairs))

    def _read_list(self, parts: Sequence[Any]) -> list[Any]:
        return [self.read(part) for part in parts]

    def _read_tuple(self, parts: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self._read_list(parts))


#: Kinds of parts that `_Reader` has a method for.
_PART_KINDS = ("same", "given", "stream", "dict", "counter", "list", "tuple")


def _refuse_kind(kind: Any) -> Any:
    raise ValueError(f"The file has a part of unknown kind {kind!r}.")


def _is_cached(kind: type, name: str) -> bool:
    """Whether objects of a class keep a value that they have computed under this name."""
    return isinstance(getattr(kind, name, None), cached_property)


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
