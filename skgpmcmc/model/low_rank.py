"""Models whose prior is replaced by one of lower rank, at a lower cost: K^ = R R'."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .._typing import FloatArray, IntArray
from ..numerics import linalg
from ..numerics.roots import PivotedRoot, full_root
from .covariance import Covariance, CrossCovariance
from .cross import cross_matrix
from .joint import LatentGP
from .prior import GaussianPrior


class LowRankPrior(GaussianPrior):
    """p(f | theta) = N(f; 0, R R') for an R of few columns, whatever the rank of K."""

    low_rank = True

    @cached_property
    def K(self) -> FloatArray:
        """``R R'``; (n, n). It is large, and no method uses it."""
        return np.asfortranarray(self.root.factor @ self.root.factor.T)

    def contract(self, A: FloatArray) -> FloatArray:
        """``sum_ij A_ij dK^_ij / dtheta_r`` for A of shape (n, n)."""
        half = self.apply_transpose(0.5 * (A + A.T))
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
    some : Covariance
        Covariance of the rows I.
    to_all : CrossCovariance
        Covariance of the rows I with all rows.

    References
    ----------
    Wang & Neal (2013), section 5.2, (38)-(41); without the eigenvectors.
    """

    rows: IntArray = field(kw_only=True)
    some: Covariance = field(kw_only=True)
    to_all: CrossCovariance = field(kw_only=True)

    @cached_property
    def _columns(self) -> FloatArray:
        """``K[I, :]``; (m, n)."""
        columns = cross_matrix(self.some, self.kernel_theta, self.to_all)
        columns[:, self.rows] = self.some.matrix(self.kernel_theta)
        return columns

    @cached_property
    def _root_of_some(self) -> PivotedRoot:
        return full_root(np.asfortranarray(self._columns[:, self.rows]))

    @property
    def pivot_columns(self) -> FloatArray:
        """See `GaussianPrior`."""
        return self._columns[self._root_of_some.pivots]

    @cached_property
    def root(self) -> PivotedRoot:
        """``R = K[:, P] R_P'^-1`` for the pivots P among the rows I."""
        some = self._root_of_some
        # To multiply by an inverse is faster than to solve.
        transposed = linalg.lower_product(
            linalg.lower_inverse(some.triangle), np.asfortranarray(self.pivot_columns)
        )
        transposed[:, self.rows] = some.factor.T
        return PivotedRoot(transposed.T.copy(order="F"), self.rows[some.pivots])


@dataclass(frozen=True, eq=False)
class NystromGP(LatentGP):
    """A model with the Nystrom approximation of its prior, by some of the rows.

    Attributes
    ----------
    rows : ndarray of shape (m,)
        Numbers of these rows.
    """

    rows: IntArray

    def __getstate__(self) -> dict[str, Any]:
        # Of order n: what is known of pairs of rows is quicker to make again than to send.
        return {name: value for name, value in vars(self).items() if name != "_blocks"}

    @classmethod
    def of(cls, model: LatentGP, rows: IntArray) -> NystromGP:
        """Return the model approximated by some of the rows."""
        return cls(model.covariance, model.observations, model.hyperprior, rows)

    @cached_property
    def _blocks(self) -> tuple[Covariance, CrossCovariance]:
        """Covariance of these rows, and of these with all rows."""
        some = self.covariance.of_inputs(self.rows)
        return some, some.at_new(self.covariance.X)

    def prior_at(self, theta: FloatArray) -> NystromPrior:
        """p(f | theta), of low rank."""
        some, to_all = self._blocks
        return NystromPrior(self.covariance, theta, rows=self.rows, some=some, to_all=to_all)


@dataclass(frozen=True, eq=False)
class EigenPrior(LowRankPrior):
    """The largest eigenvalues of K and their eigenvectors: the best K^ of its rank.

    Its root has no pivots, so that f at some rows does not say what it is elsewhere.

    Attributes
    ----------
    n_kept : int

    References
    ----------
    Wang & Neal (2013), section 5.2, (33)-(37).
    """

    n_kept: int = field(kw_only=True)

    @cached_property
    def _whole(self) -> FloatArray:
        """K; (n, n)."""
        return self.covariance.matrix(self.kernel_theta)

    @cached_property
    def _kept(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues that are kept, ascending, and their eigenvectors; (m,) and (n, m)."""
        values, vectors = linalg.eigenpairs(self._whole, self.n_kept)
        return np.maximum(values, np.finfo(float).tiny), vectors

    @cached_property
    def root(self) -> PivotedRoot:
        """``R = V D^1/2`` for the eigenvalues D and the eigenvectors V."""
        values, vectors = self._kept
        nowhere = np.full(self.n_kept, -1)
        return PivotedRoot(np.asfortranarray(vectors * np.sqrt(values)), nowhere)

    def contract_root(self, A: FloatArray, B: FloatArray, S: FloatArray) -> FloatArray:
        """See `GaussianPrior`.

        K^ is the function of K that keeps eigenvalues or makes them zero. Its derivative multiplies
        the entries of V'dK V by the difference quotients of that function (Daleckii & Krein, 1965):
        one where both eigenvalues are kept, d_i / (d_i - d_j) where d_i alone is.
        """
        kept, V_kept = self._kept
        values, V = linalg.eigenpairs(self._whole, self.size)
        lost = values[: -self.n_kept]
        quotient = np.ones((self.n_kept, self.size))
        # Every entry of these columns stands for its mirror image too.
        quotient[:, : len(lost)] = 2.0 * kept[:, None] / (kept[:, None] - lost)
        inner = quotient * linalg.product(A / np.sqrt(kept)[:, None], linalg.product(B, V))
        of_K = np.asfortranarray(linalg.product(V_kept, linalg.product(inner, V.T)))
        return self.covariance.contract(self.kernel_theta, of_K, K=self._whole)


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
