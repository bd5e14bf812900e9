"""Parameters: scikit-learn's protocol for the configuration objects of the core, and checks.

Samplers and approximations are parts of an estimator's configuration: `clone` copies them and a
grid search reaches their fields as ``sampler__defensive`` or ``approximation__tol``. The protocol
is two methods, so the core does not import scikit-learn for it. Each check tests a single value;
its message names the parameter, the legal values and the value that was given.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, Self

import numpy as np


class Configuration:
    """Base of dataclasses whose fields are parameters; values are checked where they are used."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return parameters by name; `deep` adds those of nested configurations."""
        params = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        if deep:
            for name, value in list(params.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    nested = value.get_params()
                    params.update({f"{name}__{key}": item for key, item in nested.items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, nested ones as ``part__name``, and return the object."""
        for key, value in params.items():
            name, _, rest = key.partition("__")
            if name not in self.get_params(deep=False):
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; it has "
                    f"{sorted(self.get_params(deep=False))}."
                )
            if rest:
                getattr(self, name).set_params(**{rest: value})
            else:
                setattr(self, name, value)
        return self


def check_flag(name: str, value: Any) -> bool:
    """Return `value` as a bool, or raise a ValueError."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def check_choice(name: str, value: Any, choices: Collection[str]) -> str:
    """Return `value`, or raise a ValueError if it is not one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {list(choices)}; got {value!r}.")
    return value


def check_integer(name: str, value: Any, minimum: int, remedy: str = "") -> int:
    """Return `value` as an int, or raise a ValueError if it is not an integer >= `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}; got {value!r}.{remedy}")
    return int(value)


def check_in(name: str, value: Any, interval: str, remedy: str = "") -> float:
    """Return a number in an interval such as ``"(0, 1]"``.

    Raises
    ------
    ValueError
        If the value is not such a number; the message names the parameter, interval and value.
    """
    low, high = (float(bound) for bound in interval[1:-1].split(","))
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    is_inside = is_number and (
        (low < value or (interval[0] == "[" and value == low))
        and (value < high or (interval[-1] == "]" and value == high))
    )
    if not is_inside:
        raise ValueError(f"{name} must be a number in {interval}; got {value!r}.{remedy}")
    return float(value)
