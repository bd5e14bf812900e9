"""Records as arrays and JSON: what a long run can be written to, and read from again.

A record is a dataclass or a named tuple of this package; its fields are records, arrays, numbers,
text, random streams, or tuples, lists and dictionaries of such. Its arrays are gathered in a list,
and the rest is a tree that JSON can hold and that refers to them. What a dataclass writes is what
it pickles, without matrices that can be made again; parts that are one object are one when they are
read. Nothing but records of this package is ever made from a file.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

_PACKAGE = __name__.partition(".")[0]
_PLAIN = (bool, int, float, str, type(None))
_STREAMS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


class Written(NamedTuple):
    """A record as it can be stored."""

    tree: Any  # of lists, dictionaries, text and numbers
    arrays: list[np.ndarray]  # that the tree refers to by their numbers


def to_arrays(record: Any, given: Any = None) -> Written:
    """Write a record as a tree and arrays.

    Parameters
    ----------
    record : object
        A record, or tuples, lists and dictionaries of such.
    given : object, optional
        Whatever belongs to it is not written, as who reads the record has it: the model, for one.

    Raises
    ------
    TypeError
        If a part is of a kind that cannot be written; the message names its type.
    """
    writer = _Writer(given)
    return Written(writer.written(record), writer.arrays)


def from_arrays(written: Written, given: Any = None) -> Any:
    """Return the record that `to_arrays` wrote; `given` is the same as there.

    Raises
    ------
    ValueError
        If the tree asks for anything but records of this package, or makes no sense.
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


def _state(part: Any) -> dict[str, Any] | None:
    """What an object pickles, by name; None for one without names."""
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return dict(zip(part._fields, part, strict=True))
    if isinstance(part, (*_PLAIN, type, np.ndarray, np.generic, np.random.Generator)):
        return None
    state = part.__getstate__() if hasattr(part, "__getstate__") else None
    return state if isinstance(state, dict) else None


def _steps(part: Any) -> Iterator[tuple[Any, Any]]:
    """Give the parts of an object, and how they are reached.

    Yields
    ------
    tuple
        The step, and where it leads.
    """
    if isinstance(part, dict):
        yield from part.items()
    elif isinstance(part, (list, tuple)) and not hasattr(part, "_fields"):
        yield from enumerate(part)
    else:
        yield from (_state(part) or {}).items()


def _paths(root: Any) -> dict[int, list[Any]]:
    """How every object that belongs to another one is reached, by the object's id."""
    found: dict[int, list[Any]] = {}
    todo: list[tuple[list[Any], Any]] = [([], root)]
    while todo:
        path, part = todo.pop()
        if isinstance(part, (*_PLAIN, np.ndarray, np.generic)) or id(part) in found:
            continue
        found[id(part)] = path
        plain = ((s, p) for s, p in _steps(part) if isinstance(s, (int, str)))
        todo.extend(([*path, step], next_part) for step, next_part in plain)
    return found


def _at(root: Any, path: Sequence[Any]) -> Any:
    """Return what a path leads to."""
    for step in path:
        root = (
            root[step]
            if isinstance(root, (dict, list)) or type(root) is tuple
            else _named(root, step)
        )
    return root


def _named(part: Any, name: Any) -> Any:
    state = _state(part)
    if state is None or name not in state:
        raise ValueError(f"The file refers to {name!r}, which a {type(part).__name__} has not.")
    return state[name]


class _Writer:
    """Turns parts into what JSON can hold, and gathers arrays."""

    def __init__(self, given: Any) -> None:
        self.given = {} if given is None else _paths(given)
        self.arrays: list[np.ndarray] = []
        self._known: dict[int, tuple[int, Any]] = {}  # by id: number, and the record, kept alive

    def written(self, part: Any) -> Any:
        """Return a part in a form that JSON can hold; arrays are collected in `arrays`."""
        if isinstance(part, (np.ndarray, np.generic)):
            return self._array(part)
        if isinstance(part, _PLAIN):
            return part
        if isinstance(part, np.random.Generator):
            return {"stream": _state_of(part)}
        if id(part) in self.given and _is_referable(part):
            return {"given": self.given[id(part)]}
        if isinstance(part, dict):
            kind = "counter" if isinstance(part, Counter) else "dict"
            return {kind: [[self.written(key), self.written(p)] for key, p in part.items()]}
        if isinstance(part, list):
            return {"list": [self.written(p) for p in part]}
        if type(part) is tuple:
            return {"tuple": [self.written(p) for p in part]}
        return self._record(part)

    def _array(self, part: Any) -> Any:
        if part.dtype.hasobject:
            raise TypeError("An array of objects cannot be written.")
        self.arrays.append(np.asarray(part))
        return {"array": len(self.arrays) - 1, "scalar": isinstance(part, np.generic)}

    def _record(self, part: Any) -> Any:
        if id(part) in self._known:
            return {"same": self._known[id(part)][0]}
        state = _state(part)
        if state is None or not _is_record(type(part)):
            raise TypeError(
                f"A {type(part).__module__}.{type(part).__qualname__} cannot be written as arrays "
                f"and JSON: it is no dataclass or named tuple of {_PACKAGE}."
            )
        kind = f"{type(part).__module__}:{type(part).__qualname__}"
        tree = {name: self.written(p) for name, p in state.items()}
        self._known[id(part)] = len(self._known), part
        return {"record": kind, "fields": tree}


def _is_referable(part: Any) -> bool:
    """Whether a reference may stand for a part: containers that calls fill are no such thing."""
    return not isinstance(part, (dict, list)) and type(part) is not tuple


def _is_record(kind: Any) -> bool:
    """Whether a class is a dataclass or a named tuple of this package."""
    return (
        isinstance(kind, type)
        and kind.__module__.startswith(f"{_PACKAGE}.")
        and (is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")))
    )


def _state_of(stream: np.random.Generator) -> dict[str, Any]:
    """What a random stream goes on from, and how many others it has spawned."""
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
    """Makes records of trees, and takes arrays from a list."""

    def __init__(self, arrays: Sequence[np.ndarray], given: Any) -> None:
        self.arrays = arrays
        self.given = given
        self._known: list[Any] = []  # records, in the order in which they were written

    def read(self, part: Any) -> Any:
        """Return the part of a tree that `written` made this of."""
        if isinstance(part, _PLAIN):
            return part
        if not isinstance(part, dict):
            raise ValueError(f"The file has a {type(part).__name__} where a part should be.")
        if "record" in part:
            return self._record(part["record"], part["fields"])
        if "array" in part:
            array = self.arrays[part["array"]]
            return array[()] if part["scalar"] else array
        ((kind, content),) = part.items()
        return getattr(self, f"_read_{kind}")(content) if kind in _PART_KINDS else _unknown(kind)

    def _record(self, kind: str, parts: Mapping[str, Any]) -> Any:
        found = _class_named(kind)
        values = {name: self.read(part) for name, part in parts.items()}
        if issubclass(found, tuple):
            made = found(**values)
        else:
            known = {field.name for field in fields(found)}
            strange = [name for name in values.keys() - known if not _is_cached(found, name)]
            if strange:
                raise ValueError(f"A {found.__name__} has no {sorted(strange)}.")
            made = object.__new__(found)
            vars(made).update(values)
        self._known.append(made)
        return made

    def _read_same(self, number: int) -> Any:
        return self._known[number]

    def _read_given(self, path: Sequence[Any]) -> Any:
        return _at(self.given, path)

    def _read_stream(self, state: Mapping[str, Any]) -> np.random.Generator:
        if state["kind"] not in _STREAMS:
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


_PART_KINDS = ("same", "given", "stream", "dict", "counter", "list", "tuple")


def _unknown(kind: Any) -> Any:
    raise ValueError(f"The file has a part of unknown kind {kind!r}.")


def _is_cached(kind: type, name: str) -> bool:
    """Whether objects of a class keep a value that they have computed under this name."""
    return isinstance(getattr(kind, name, None), cached_property)


def _class_named(kind: str) -> Any:
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
