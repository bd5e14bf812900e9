"""Records as arrays and JSON: what a long run can be written to, and read from again.

A record is a frozen dataclass or a named tuple of this package; its fields are records, arrays,
numbers, text, or tuples, lists and dictionaries of such. Its arrays are gathered under names, and
the rest is text that refers to them. Nothing but classes of this package is ever made from a file.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

_PACKAGE = __name__.partition(".")[0]


def to_arrays(
    record: Any, given: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, np.ndarray]]:
    """Write a record as JSON and arrays.

    Parameters
    ----------
    record : object
        A record, or tuples, lists and dictionaries of such.
    given : mapping of str to object, optional
        Parts that are not written, as whoever reads the record has them: the model, for one.

    Returns
    -------
    tuple of str and dict of str to ndarray
        JSON, and the arrays that it refers to.

    Raises
    ------
    TypeError
        If a part is of a kind that cannot be written; the message names its type.
    """
    writer = _Writer({id(part): name for name, part in (given or {}).items()})
    return json.dumps(writer.written(record)), writer.arrays


def from_arrays(
    text: str, arrays: Mapping[str, np.ndarray], given: Mapping[str, Any] | None = None
) -> Any:
    """Return the record that `to_arrays` wrote, with the same parts `given`."""
    return _read(json.loads(text), arrays, given or {})


class _Writer:
    """Turns parts into what JSON can hold, and gathers arrays."""

    def __init__(self, given: dict[int, str]) -> None:
        self.given = given
        self.arrays: dict[str, np.ndarray] = {}

    def written(self, part: Any) -> Any:
        if id(part) in self.given:
            return {"given": self.given[id(part)]}
        if part is None or isinstance(part, (bool, int, float, str)):
            return part
        if isinstance(part, (np.ndarray, np.generic)):
            name = f"a{len(self.arrays)}"
            self.arrays[name] = np.asarray(part)
            return {"array": name, "scalar": isinstance(part, np.generic)}
        if isinstance(part, np.random.Generator):
            return {"stream": _state_of(part)}
        if isinstance(part, dict):
            return {"dict": [[self.written(key), self.written(p)] for key, p in part.items()]}
        if isinstance(part, list):
            return {"list": [self.written(p) for p in part]}
        names = _field_names(part)
        if names is not None:
            kind = f"{type(part).__module__}:{type(part).__qualname__}"
            return {"record": kind, "fields": {n: self.written(getattr(part, n)) for n in names}}
        if isinstance(part, tuple):
            return {"tuple": [self.written(p) for p in part]}
        raise TypeError(f"A {type(part).__qualname__} cannot be written as arrays and JSON.")


def _field_names(part: Any) -> list[str] | None:
    """Names of the fields of a record of this package; None for anything else."""
    if not type(part).__module__.startswith(f"{_PACKAGE}."):
        return None
    if is_dataclass(part):
        return [field.name for field in fields(part)]
    return list(part._fields) if hasattr(part, "_fields") else None


def _state_of(stream: np.random.Generator) -> dict[str, Any]:
    """What a random stream goes on from, and how many others it has spawned."""
    seed: Any = stream.bit_generator.seed_seq
    return {
        "kind": type(stream.bit_generator).__name__,
        "state": json.loads(json.dumps(stream.bit_generator.state, default=np.ndarray.tolist)),
        "entropy": seed.entropy,
        "spawn_key": list(seed.spawn_key),
        "n_children_spawned": seed.n_children_spawned,
    }


def _stream(state: dict[str, Any]) -> np.random.Generator:
    seed = np.random.SeedSequence(
        state["entropy"],
        spawn_key=state["spawn_key"],
        n_children_spawned=state["n_children_spawned"],
    )
    bits = getattr(np.random, state["kind"])(seed)
    bits.state = state["state"]
    return np.random.Generator(bits)


def _read(part: Any, arrays: Mapping[str, np.ndarray], given: Mapping[str, Any]) -> Any:
    """Return what was written."""
    if not isinstance(part, dict):
        return part
    if "given" in part:
        return given[part["given"]]
    if "array" in part:
        array = arrays[part["array"]]
        return array[()] if part["scalar"] else array
    if "stream" in part:
        return _stream(part["stream"])
    if "dict" in part:
        return {_read(k, arrays, given): _read(p, arrays, given) for k, p in part["dict"]}
    if "record" in part:
        values = {name: _read(p, arrays, given) for name, p in part["fields"].items()}
        return _class_named(part["record"])(**values)
    (kind,) = part
    parts = [_read(p, arrays, given) for p in part[kind]]
    return tuple(parts) if kind == "tuple" else parts


def _class_named(kind: str) -> Any:
    module, _, name = kind.partition(":")
    if not module.startswith(f"{_PACKAGE}."):
        raise ValueError(f"A record must be of this package; the file names {module}.")
    found: Any = importlib.import_module(module)
    for step in name.split("."):
        found = getattr(found, step)
    return found
