"""Methods that bear the name of the class that a user has."""

from __future__ import annotations

from types import FunctionType
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


def names_methods(cls: C) -> C:
    """Give a class its inherited methods under its own name.

    When an argument is wrong, Python names a method by the class that defines it, such as
    ``LogProbabilityClassifierMixin.predict()``, which no user has heard of.
    """
    inherited = [name for name in dir(cls) if name not in vars(cls) and not name.startswith("_")]
    for name in inherited:
        found = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
        if isinstance(found, FunctionType) and _is_ours(found):
            setattr(cls, name, _rename(found, f"{cls.__qualname__}.{name}"))
    return cls


def _is_ours(function: FunctionType) -> bool:
    """Whether this package says what a method does; it documents `score` too."""
    package = __name__.partition(".")[0]
    return function.__module__.partition(".")[0] == package or function.__name__ == "score"


def _rename(function: FunctionType, qualified_name: str) -> Any:
    """Return the same function with another name in messages."""
    twin = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    for attribute in ("__doc__", "__module__", "__annotations__", "__kwdefaults__"):
        setattr(twin, attribute, getattr(function, attribute))
    vars(twin).update(vars(function))
    twin.__qualname__ = qualified_name
    return twin
