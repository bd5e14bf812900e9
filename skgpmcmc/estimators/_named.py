"""Methods whose qualified name has the class that the user works with."""

from __future__ import annotations

from functools import update_wrapper
from types import FunctionType
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)


def names_methods(cls: _Class) -> _Class:
    """Give a class copies of its inherited methods that are qualified by its own name.

    When an argument is wrong, Python names a method by the class that defines it, such as
    ``LogProbabilityClassifierMixin.predict()``, which a user does not know.
    """
    package = __name__.partition(".")[0]
    inherited = [name for name in dir(cls) if name not in vars(cls) and not name.startswith("_")]
    for name in inherited:
        found = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
        # Docstrings of other packages stay with their classes; that of `score` is written here.
        is_own = getattr(found, "__module__", "").partition(".")[0] == package or name == "score"
        if isinstance(found, FunctionType) and is_own:
            parts = found.__code__, found.__globals__, name, found.__defaults__, found.__closure__
            copy = update_wrapper(FunctionType(*parts), found)
            copy.__kwdefaults__ = found.__kwdefaults__
            copy.__qualname__ = f"{cls.__qualname__}.{name}"
            del copy.__wrapped__
            vars(copy).update(vars(found))  # what a decorated method wraps has its signature
            setattr(cls, name, copy)
    return cls
