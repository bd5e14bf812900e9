"""Models with a prior of lower rank in place of N(0, K), which cost less: K^ = R R'."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .._typing import FloatArray, IntArray
from ..numerics import linalg
from ..numerics.roots import PivotedRoot, full_root, leading_root
from .covariance import Covariance, CrossCovariance
from .joint import LatentGP
from .prior import GaussianPrior, MatrixOfInputs


class LowRankPrior(GaussianPrior):
    """p(f | theta) = N(f; 0, R R') for an R of few columns, whatever the rank of K."""

    low_rank = True
    by_columns = False  # there are few columns in any case

    def find_small_rank(self) -> int:
        """See `GaussianPrior`."""
        return self.rank

    @cached_property
    def K(self) -> FloatArray:
        """``R R'``; (n, n). No method of the package uses this large matrix."""
        return np.asfortranarray(self.root.factor @ self.root.factor.T)

    def contract(self, A: FloatArray) -> FloatArray:
        """``sum_ij A_ij dK^_ij / dtheta_r`` for A of shape (n, n)."""
        half = self.root.apply_transpose(0.5 * (A + A.T))
        return self.contract_root(np.eye(self.rank), half, half @ self.root.factor)

    @cached_property
    def variance(self) -> FloatArray:
        """Variances of f, none of them zero; (n,)."""
        squares = np.einsum("ij,ij->i", self.root.factor, self.root.factor)
        return np.maximum(squares, np.finfo(float).eps * squares.mean())


@dataclass(frozen=True, eq=False)
class NystromPrior(LowRankPrior):
    """K^ = K[:, I] K[I, I]^-1 K[I, :]: only the rows I can be pivots.

    Attributes
    ----------
    rows : ndarray of shape (m,)
        The rows I.
    blocks : tuple of Covariance and CrossCovariance, optional
        What `bind_rows` returns, if it is known already.

    References
    ----------
    Wang & Neal (2013), section 5.2, (38)-(41); here a Cholesky factor replaces eigenvectors.
    """

    rows: IntArray = field(kw_only=True)
    blocks: tuple[Covariance, CrossCovariance] | None = field(default=None, kw_only=True)

    def __getstate__(self) -> dict[str, Any]:
        # As in `GaussianPrior`: what holds all inputs, or distances, is bound again on demand.
        return {**super().__getstate__(), "blocks": None}

    @cached_property
    def _columns(self) -> FloatArray:
        """``K[I, :]``; (m, n)."""
        of_rows, of_all = self.blocks or bind_rows(self.covariance, self.rows)
        columns = of_rows.fast_cross(self.kernel_theta, of_all)
        columns[:, self.rows] = of_rows.matrix(self.kernel_theta)
        return columns

    @cached_property
    def _row_root(self) -> PivotedRoot:
        return full_root(np.asfortranarray(self._columns[:, self.rows]))

    def pivot_columns(self) -> Iterator[tuple[slice, FloatArray]]:
        """See `GaussianPrior`.

        Yields
        ------
        tuple of slice and ndarray of shape (r, m)
        """
        pivots = self._row_root.pivots
        for columns in linalg.split_entries(self.size, len(pivots)):
            yield columns, self._columns[:, columns][pivots]

    @cached_property
    def root(self) -> PivotedRoot:
        """``R = K[:, P] R_P'^-1`` for the pivots P among the rows I."""
        row_root = self._row_root
        # A product with the inverse is faster than a triangular solve.
        inverse = linalg.lower_inverse(row_root.triangle)
        factor = np.empty((self.size, row_root.rank), order="F")
        for columns, K in self.pivot_columns():
            factor[columns] = linalg.lower_product(inverse, np.asfortranarray(K)).T
        factor[self.rows] = row_root.factor
        return PivotedRoot(factor, self.rows[row_root.pivots])


def bind_rows(covariance: Covariance, rows: IntArray) -> tuple[Covariance, CrossCovariance]:
    """Return covariances bound to some of the training rows, and to these and all of them."""
    training = covariance.of_training
    of_rows = training.of_inputs(rows)
    return of_rows, of_rows.at_new(training.X)


@dataclass(frozen=True, eq=False)
class NystromGP(LatentGP):
    """A model with the Nystrom approximation of its prior by some of the rows.

    Attributes
    ----------
    rows : ndarray of shape (m,)
        Positions of these rows.
    """

    rows: IntArray

    def __getstate__(self) -> dict[str, Any]:
        # The state stays O(n): matrices are quicker to compute again than to send.
        return {name: value for name, value in vars(self).items() if name != "_blocks"}

    @cached_property
    def _blocks(self) -> tuple[Covariance, CrossCovariance]:
        """See `bind_rows`."""
        return bind_rows(self.covariance, self.rows)

    def prior_at(self, theta: FloatArray) -> NystromPrior:
        """p(f | theta), of low rank."""
        return NystromPrior(self.covariance, theta, rows=self.rows, blocks=self._blocks)


@dataclass(frozen=True, eq=False)
class BoundedRankPrior(LowRankPrior):
    """K^ = R R' with the first columns of the root of K, of which there are at most `most`."""

    most: int = field(kw_only=True)

    @cached_property
    def root(self) -> PivotedRoot:
        """The first columns."""
        return leading_root(MatrixOfInputs(self.covariance, self.kernel_theta), self.most)

    def pivot_columns(self) -> Iterator[tuple[slice, FloatArray]]:
        """See `GaussianPrior`.

        Yields
        ------
        tuple of slice and ndarray of shape (r, m)
        """
        return MatrixOfInputs(self.covariance, self.kernel_theta).blocks(self.root.pivots)


@dataclass(frozen=True, eq=False)
class BoundedRankGP(LatentGP):
    """A model for proposals, whose prior costs little also where K has a far larger rank.

    Attributes
    ----------
    most : int
        Largest rank.
    """

    most: int

    def prior_at(self, theta: FloatArray) -> BoundedRankPrior:
        """p(f | theta), of low rank."""
        return BoundedRankPrior(self.covariance, theta, most=self.most)


def bound_rank(model: LatentGP, theta: FloatArray) -> LatentGP:
    """Return a model that is as good as this one near theta, and cheap far away, for proposals.

    With many inputs whose K has a low rank at theta, the rank is bounded by twice that. Elsewhere,
    for instance at far shorter length-scales, K may have nearly full rank, and take hundreds of
    times as long. Any other model is returned unchanged.
    """
    if type(model) is not LatentGP:
        return model
    rank = GaussianPrior(model.covariance, theta).find_small_rank()
    if rank is None:
        return model
    return BoundedRankGP(model.covariance, model.observations, model.hyperprior, 2 * rank)


@dataclass(frozen=True, eq=False)
class EigenPrior(LowRankPrior):
    """K^ from the largest eigenvalues of K and their eigenvectors, the best one of its rank.

    Its root has no pivots: f at some rows does not determine f at the others.

    Attributes
    ----------
    n_kept : int
        Number of eigenvalues.

    References
    ----------
    Wang & Neal (2013), section 5.2, (33)-(37).
    """

    n_kept: int = field(kw_only=True)

    @cached_property
    def _full_K(self) -> FloatArray:
        """K; (n, n)."""
        return self.covariance.matrix(self.kernel_theta)

    @cached_property
    def _kept(self) -> tuple[FloatArray, FloatArray]:
        """The largest eigenvalues, ascending, and their eigenvectors; (m,) and (n, m)."""
        values, vectors = linalg.eigenpairs(self._full_K, self.n_kept)
        return np.maximum(values, np.finfo(float).tiny), vectors

    @cached_property
    def root(self) -> PivotedRoot:
        """``R = V D^1/2`` for the eigenvalues D and the eigenvectors V."""
        values, vectors = self._kept
        nowhere = np.full(self.n_kept, -1)
        return PivotedRoot(np.asfortranarray(vectors * np.sqrt(values)), nowhere)

    def contract_root(self, A: FloatArray, B: FloatArray, S: FloatArray) -> FloatArray:
        """See `GaussianPrior`.

        K^ is a function of K that keeps the largest eigenvalues and sets the others to zero. Its
        derivative multiplies the entries of V'dK V by difference quotients of this function
        (Daleckii & Krein, 1965): 1 if both eigenvalues are kept, d_i / (d_i - d_j) if only d_i is.
        """
        kept, V_kept = self._kept
        values, V = linalg.eigenpairs(self._full_K, self.size)
        lost = values[: -self.n_kept]
        quotient = np.ones((self.n_kept, self.size))
        # The factor 2 accounts for the entries that are the mirror images of these columns.
        quotient[:, : len(lost)] = 2.0 * kept[:, None] / (kept[:, None] - lost)
        inner = quotient * linalg.product(A / np.sqrt(kept)[:, None], linalg.product(B, V))
        of_K = np.asfortranarray(linalg.product(V_kept, linalg.product(inner, V.T)))
        return self.covariance.contract(self.kernel_theta, of_K, K=self._full_K)


@dataclass(frozen=True, eq=False)
class EigenGP(LatentGP):
    """A model with only the largest eigenvalues of K.

    Attributes
    ----------
    rank : int
        Number of eigenvalues.
    """

    rank: int

    def prior_at(self, theta: FloatArray) -> EigenPrior:
        """p(f | theta), of low rank."""
        return EigenPrior(self.covariance, theta, n_kept=self.rank)
