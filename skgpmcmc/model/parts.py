"""The parts of a kernel that have no parts: their names, their columns, and what data tell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Exponentiation, Kernel, Product, Sum

from .._typing import FloatArray
from ..kernels import Categorical, Linear, On
from ..kernels.categorical import sort_levels
from .lengths import root_mean_square


class KernelPart(NamedTuple):
    """A kernel without parts, which is a part of another kernel."""

    kernel: Kernel
    path: str  # what its names in the other kernel begin with
    columns: list[int]  # positions of the columns of X that it sees


def list_parts(
    kernel: Kernel, n_features: int, feature_names: Sequence[str] | None = None
) -> list[KernelPart]:
    """Return all parts of a kernel of inputs with so many columns, in the order of theta.

    A constant belongs to the columns of its factor: its unit follows from theirs.

    Raises
    ------
    ValueError
        If a kernel is on columns that X does not have.
    """
    return _list_parts(kernel, "", list(range(n_features)), feature_names)


def _list_parts(
    kernel: Kernel, path: str, columns: list[int], names: Sequence[str] | None
) -> list[KernelPart]:
    if isinstance(kernel, Sum):
        first = _list_parts(kernel.k1, f"{path}k1__", columns, names)
        second = _list_parts(kernel.k2, f"{path}k2__", columns, names)
        return first + second
    if isinstance(kernel, Product):
        first = _list_parts(kernel.k1, f"{path}k1__", columns, names)
        second = _list_parts(kernel.k2, f"{path}k2__", columns, names)
        return _place_constant(first, second) + _place_constant(second, first)
    if isinstance(kernel, Exponentiation):
        return _list_parts(kernel.kernel, f"{path}kernel__", columns, names)
    if isinstance(kernel, On):
        own = kernel.find_positions(len(columns), names)
        chosen = [columns[k] for k in own]
        own_names = None if names is None else [names[k] for k in own]
        return _list_parts(kernel.kernel, f"{path}kernel__", chosen, own_names)
    if isinstance(kernel, Categorical):
        own = kernel.find_positions(len(columns), names)
        columns = [columns[k] for k in own]
    return [KernelPart(kernel, path, columns)]


def _place_constant(factor: list[KernelPart], other: list[KernelPart]) -> list[KernelPart]:
    """Return the parts of a factor, which has the columns of the other factor if constant."""
    if len(factor) > 1 or not isinstance(factor[0].kernel, ConstantKernel):
        return factor
    columns = sorted({column for part in other for column in part.columns})
    return [factor[0]._replace(columns=columns)]


def has_part(kernel: Any, kind: type[Kernel]) -> bool:
    """Whether a kernel is of a class, or has a part that is; the kernel may be invalid."""
    if isinstance(kernel, kind):
        return True
    parts = (getattr(kernel, name, None) for name in ("k1", "k2", "kernel"))
    return any(has_part(part, kind) for part in parts if part is not None)


def find_category_columns(
    kernel: Kernel, n_features: int, feature_names: Sequence[str] | None = None
) -> list[int]:
    """Return the sorted columns that parts of a kernel take as categories."""
    parts = list_parts(kernel, n_features, feature_names)
    own = (part.columns for part in parts if isinstance(part.kernel, Categorical))
    return sorted({column for columns in own for column in columns})


def owner_of(kernel: Kernel, name: str) -> tuple[Kernel, str]:
    """Return the part of a kernel that owns a hyper-parameter, and its name in this part."""
    path, _, own_name = name.rpartition("__")
    return kernel.get_params().get(path, kernel), own_name


def find_columns(
    kernel: Kernel, n_features: int, feature_names: Sequence[str] | None = None
) -> dict[str, list[int]]:
    """Return the columns of X that belong to each hyper-parameter, by its name."""
    return {
        f"{part.path}{h.name}": part.columns
        for part in list_parts(kernel, n_features, feature_names)
        for h in part.kernel.hyperparameters
    }


def label_elements(
    kernel: Kernel, n_features: int, feature_names: Sequence[str] | None = None
) -> dict[str, list[str]]:
    """Return labels of the elements of hyper-parameters that are vectors, by name.

    They are the levels of categories; otherwise the names of the columns, if these are known.
    """
    labels = {}
    for part in list_parts(kernel, n_features, feature_names):
        for h in part.kernel.hyperparameters:
            if isinstance(part.kernel, Categorical) and part.kernel.levels is not None:
                labels[f"{part.path}{h.name}"] = [str(level) for level in part.kernel.levels]
            elif feature_names is not None and h.n_elements == len(part.columns):
                labels[f"{part.path}{h.name}"] = [feature_names[k] for k in part.columns]
    return labels


def complete_kernel(
    kernel: Kernel,
    X: FloatArray,
    feature_names: Sequence[str] | None = None,
    levels: Sequence[Sequence[str]] | None = None,
) -> Kernel:
    """Give the parts of a kernel what they leave to the training data, and return the kernel.

    These are names of columns, the center and the scale of `Linear`, and levels of `Categorical`.

    Parameters
    ----------
    kernel : Kernel
        Valid for X; it is changed.
    X : ndarray of shape (n, d)
        Inputs, in which text is replaced by its position among the levels.
    feature_names : sequence of d str, optional
        Names of the columns.
    levels : sequence of d sequences of str, optional
        Sorted levels of the columns that had text; those of other columns are empty.
    """
    if isinstance(kernel, (On, Categorical)) and kernel.feature_names is None:
        kernel.feature_names = None if feature_names is None else tuple(feature_names)
    if isinstance(kernel, (Sum, Product)):
        complete_kernel(kernel.k1, X, feature_names, levels)
        complete_kernel(kernel.k2, X, feature_names, levels)
    elif isinstance(kernel, Exponentiation):
        complete_kernel(kernel.kernel, X, feature_names, levels)
    elif isinstance(kernel, On):
        own = kernel.find_positions(X.shape[1])
        own_names = None if feature_names is None else [feature_names[k] for k in own]
        own_levels = None if levels is None else [levels[k] for k in own]
        complete_kernel(kernel.kernel, X[:, own], own_names, own_levels)
    elif isinstance(kernel, Categorical):
        _complete_levels(kernel, X, levels)
    else:  # a kernel of another package may have parts too
        for part in (kernel, *kernel.get_params().values()):
            if isinstance(part, Linear):
                _complete_linear(part, X)
    return kernel


def _complete_levels(
    kernel: Categorical, X: FloatArray, levels: Sequence[Sequence[str]] | None
) -> None:
    own = kernel.find_positions(X.shape[1])
    if kernel.levels is None and len(own) == 1:
        text = () if levels is None else tuple(levels[own[0]])
        kernel.levels = text or sort_levels(X[:, own[0]])


def _complete_linear(kernel: Linear, X: FloatArray) -> None:
    if kernel.center is None:
        kernel.center = X.mean(axis=0)
    if kernel.scale is None:
        kernel.scale = root_mean_square(X - kernel.center)
    if not np.all(np.asarray(kernel.scale, dtype=float) > 0.0):
        raise ValueError(
            f"kernel: the scale of Linear must be positive; got {kernel.scale!r}. Leave it out for "
            "the root mean square distance of the rows from the center."
        )
