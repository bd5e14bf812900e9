"""Methods whose qualified name has the class that the user works with."""

from __future__ import annotations

from types import FunctionType
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type)


def names_methods(cls: _Class) -> _Class:
    """Give a class copies of its inherited methods that are qualified by its own name.

    When an argument is wrong, Python names a method by the class that defines it, such as
    ``LogProbabilityClassifierMixin.predict()``, which a user does not know.
    """
    inherited = [name for name in dir(cls) if name not in vars(cls) and not name.startswith("_")]
    for name in inherited:
        found = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
        if isinstance(found, FunctionType) and _is_documented_here(found):
            setattr(cls, name, _rename(found, f"{cls.__qualname__}.{name}"))
    return cls


def _is_documented_here(function: FunctionType) -> bool:
    """Whether the docstring of a method is by this package, which also documents `score`."""
    package = __name__.partition(".")[0]
    return function.__module__.partition(".")[0] == package or function.__name__ == "score"


def _rename(function: FunctionType, qualified_name: str) -> Any:
    """Return a copy of a function with another qualified name, which messages show."""
    copy = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    for attribute in ("__doc__", "__module__", "__annotations__", "__kwdefaults__"):
        setattr(copy, attribute, getattr(function, attribute))
    vars(copy).update(vars(function))
    copy.__qualname__ = qualified_name
    return copy
