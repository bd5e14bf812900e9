"""An interrupt is noticed soon: no call of a routine takes long, and what is left is in order."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import blas, lapack

from skgpmcmc.numerics import linalg

N = 300  # matrices up to 256 are treated as small
BRIEF = 8 * N**2  # multiplications of a call


@pytest.fixture
def brief(monkeypatch):
    """Let work be parted at a size that is quick to test."""
    monkeypatch.setattr(linalg, "_MULTIPLICATIONS_PER_CALL", BRIEF, raising=False)
    monkeypatch.setattr(linalg, "_LEAST_COLUMNS", 4, raising=False)


def square(kind, seed=1):
    return np.random.default_rng(seed).standard_normal((N, N)).copy("F").view(kind)


def spd(kind):
    A = square(np.ndarray)
    return (A @ A.T / N + 0.1 * np.eye(N)).copy("F").view(kind)


def factor(kind):
    return np.linalg.cholesky(spd(np.ndarray)).copy("F").view(kind)


OPERATIONS = {
    "cholesky": lambda kind: linalg.cholesky(spd(kind)),
    "cholesky, C order": lambda kind: linalg.cholesky(spd(kind).copy("C")),
    "cholesky, in place": lambda kind: linalg.cholesky(spd(kind), overwrite=True),
    "cholesky_solve": lambda kind: linalg.cholesky_solve(factor(kind), square(kind)),
    "cholesky_solve, C order": lambda kind: linalg.cholesky_solve(
        factor(kind), square(kind).copy("C")
    ),
    "solve_lower": lambda kind: linalg.solve_lower(factor(kind), square(kind)),
    "solve_lower, transposed": lambda kind: linalg.solve_lower(
        factor(kind), square(kind), transpose=True
    ),
    "solve_lower, in place": lambda kind: linalg.solve_lower(
        factor(kind), square(kind), overwrite=True
    ),
    "solve_lower, C order": lambda kind: linalg.solve_lower(
        factor(kind), square(kind).copy("C"), overwrite=True
    ),
    "lower_inverse": lambda kind: linalg.lower_inverse(factor(kind)),
    "cholesky_inverse": lambda kind: linalg.cholesky_inverse(factor(kind)),
    "cholesky_pullback": lambda kind: linalg.cholesky_pullback(factor(kind), square(kind)),
    "lower_gram": lambda kind: linalg.lower_gram(factor(kind)),
    "lower_product": lambda kind: linalg.lower_product(factor(kind), square(kind)),
    "lower_product, transposed": lambda kind: linalg.lower_product(
        factor(kind), square(kind), transpose=True
    ),
    "tall_gram": lambda kind: linalg.tall_gram(square(kind)[:, :100], square(kind)[:, 0]),
    "product": lambda kind: linalg.product(square(kind), square(kind, seed=2)),
    "product with few rows": lambda kind: linalg.product(square(kind)[:60], square(kind, seed=2)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_routines_in_pieces_equal_those_in_one_call(name, brief, monkeypatch):
    in_pieces = OPERATIONS[name](np.ndarray)
    monkeypatch.undo()
    at_once = OPERATIONS[name](np.ndarray)
    assert in_pieces.shape == at_once.shape
    assert_allclose(in_pieces, at_once, rtol=1e-9, atol=1e-9)


class Watched(np.ndarray):
    """Notes the multiplications of its products with matrices."""

    most = 0

    def __matmul__(self, other):
        return self._product(np.asarray(self), np.asarray(other))

    def __rmatmul__(self, other):
        return self._product(np.asarray(other), np.asarray(self))

    @staticmethod
    def _product(A, B):
        Watched.most = max(Watched.most, A.size * B.shape[1])
        return A @ B


@pytest.mark.parametrize("name", OPERATIONS)
def test_work_of_each_call_of_lapack_is_bounded(name, brief, monkeypatch):
    """Python can act on a signal between two calls, and the work of each call is bounded."""

    def watched(routine):
        def call(*arguments, **named):
            A, *others = [a for a in arguments if isinstance(a, np.ndarray)]
            of_columns = max((A.size * min(B.shape) for B in others), default=0)
            Watched.most = max(Watched.most, of_columns or len(A) ** 3 // 3)
            return routine(*arguments, **named)

        return call

    monkeypatch.setattr(Watched, "most", 0)
    for routine in ("dpotrf", "dlauum", "dpotrs", "dtrtrs", "dtrtri"):
        monkeypatch.setattr(lapack, routine, watched(getattr(lapack, routine)))
    for routine in ("dtrmm", "dtrsm", "dsyrk"):
        monkeypatch.setattr(blas, routine, watched(getattr(blas, routine)))
    OPERATIONS[name](Watched)
    assert 0 < Watched.most <= 1.5 * BRIEF < N**3 / 5
