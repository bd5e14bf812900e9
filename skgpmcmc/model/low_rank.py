"""Priors of low rank, which approximate the full prior at a lower cost.

With K^ = R'R for an R of shape (m, n), an approximation only needs matrices with m rows. As f = R'v
with v ~ N(0, I), R' takes the place of the Cholesky factor L.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .._typing import FloatArray, IntArray
from ..numerics import linalg
from .covariance import Covariance, CrossCovariance
from .cross import contract_cross, cross_matrix
from .joint import LatentGP
from .prior import GaussianPrior


@dataclass(frozen=True, eq=False)
class LowRankPrior(GaussianPrior, ABC):
    """p(f | theta) = N(f; 0, R'R): those methods of `GaussianPrior` that do not need K^-1."""

    @property
    @abstractmethod
    def root(self) -> FloatArray:
        """R; (m, n), Fortran order."""

    @abstractmethod
    def contract_root(self, A: FloatArray, B: FloatArray, S: FloatArray) -> FloatArray:
        """``sum_ij G_ij dK^_ij / dtheta_r`` for a symmetric G with R G = A B, and S = R G R'."""

    @cached_property
    def K(self) -> FloatArray:
        """``R'R``; (n, n). It is large, and no method uses it."""
        return np.asfortranarray(self.root.T @ self.root)

    @cached_property
    def variance(self) -> FloatArray:
        """Variances of f, none of them zero; (n,)."""
        squares = np.einsum("ij,ij->j", self.root, self.root)
        return np.maximum(squares, np.finfo(float).eps * squares.mean())

    def times(self, g: FloatArray) -> FloatArray:
        """``K^ g``, of the shape of g: (n,) or (n, m)."""
        return self.unwhiten(self.pull(g))

    def pull(self, x: FloatArray) -> FloatArray:
        """``R x`` for x of shape (n,) or (n, k)."""
        return np.asarray(self.root @ x)

    def unwhiten(self, v: FloatArray) -> FloatArray:
        """``f = R'v`` for v of shape (m,) or (m, k)."""
        return np.asarray(self.root.T @ v)

    def sample(self, rng: np.random.Generator, size: int | None = None) -> FloatArray:
        """Draw f: (n,) without `size`, else one draw per column, (n, size)."""
        m = len(self.root)
        return self.unwhiten(rng.standard_normal(m if size is None else (size, m)).T)

    def gram(self, weight: FloatArray) -> FloatArray:
        """``R W R'`` for a diagonal W of any sign; (m, m)."""
        return np.asarray((self.root * weight) @ self.root.T)

    def whitened_factor(self, root_precision: FloatArray) -> FloatArray:
        """Lower Cholesky factor of I + R W R', the precision of v given sites W."""
        gram = linalg.wide_gram(self.root * root_precision)
        return linalg.cholesky(linalg.add_to_diagonal(gram, 1.0), overwrite=True)

    def solve_added(self, precision: FloatArray, g: FloatArray) -> FloatArray:
        """``(I + W K^)^-1 g`` for a diagonal W of any sign and g of shape (n,)."""
        inner = linalg.add_to_diagonal(self.gram(precision), 1.0)
        solved = np.asarray(np.linalg.solve(inner, self.pull(g)), dtype=float)
        return np.asarray(g - precision * self.unwhiten(solved))

    def contract(self, A: FloatArray) -> FloatArray:
        """``sum_ij A_ij dK^_ij / dtheta_r`` for A of shape (n, n)."""
        G = np.asfortranarray(0.5 * (A + A.T))
        return self.contract_root(self.root, G, self.pull(G) @ self.root.T)


@dataclass(frozen=True, eq=False)
class NystromPrior(LowRankPrior):
    """K^ = K[:, I] K[I, I]^-1 K[I, :], where the rows I are the first m.

    K includes its jitter: with all rows in I, K^ is K.

    Attributes
    ----------
    first : Covariance
        Covariance of the rows I.
    others : CrossCovariance
        Covariance of the rows I with all others.

    References
    ----------
    Wang & Neal (2013), section 5.2, (38)-(41); without the eigenvectors.
    """

    first: Covariance = field(kw_only=True)
    others: CrossCovariance = field(kw_only=True)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "first": self.first, "others": self.others}

    @cached_property
    def _square(self) -> FloatArray:
        """``K[I, I]``, jitter included; (m, m)."""
        return self.first.matrix(self.kernel_theta)

    @cached_property
    def _factor(self) -> FloatArray:
        """Lower Cholesky factor of K[I, I]."""
        return linalg.cholesky(self._square)

    @cached_property
    def _inverse_factor(self) -> FloatArray:
        """L^-1, by which to multiply is faster than to solve."""
        return linalg.lower_inverse(self._factor)

    @cached_property
    def _cross(self) -> FloatArray:
        """``K[I, others]``; (m, n - m)."""
        return cross_matrix(self.first, self.kernel_theta, self.others)

    @cached_property
    def root(self) -> FloatArray:
        """``R = L^-1 K[I, :]`` for the factor L of K[I, I], hence L' in the first columns."""
        m = len(self._factor)
        root = np.empty((m, self.size), order="F")
        root[:, :m] = self._factor.T
        root[:, m:] = linalg.lower_product(self._inverse_factor, self._cross)
        return root

    def contract_root(self, A: FloatArray, B: FloatArray, S: FloatArray) -> FloatArray:
        """See `LowRankPrior`.

        With P = L'^-1 R = K[I, I]^-1 K[I, :], dK^ = dK[:, I] P + P'dK[I, :] - P'dK[I, I] P. The sum
        is ``2 tr(P G dK[:, I]) - tr(P G P' dK[I, I])``, and P G = L'^-1 A B, P G P' = L'^-1 S L^-1.
        """
        inverse, m = self._inverse_factor, len(S)
        PG = linalg.wide_product(linalg.transposed_lower_product(inverse, A), B)
        PGP = linalg.transposed_lower_product(inverse, linalg.product(S, inverse))
        of_square = np.asfortranarray(2.0 * PG[:, :m] - PGP)
        theta = self.kernel_theta
        total = self.first.contract(theta, of_square, K=self._square, overwrite=True)
        if m < self.size:
            cross = contract_cross(self.first, theta, self.others, PG[:, m:], self._cross)
            total = total + 2.0 * cross
        return total


@dataclass(frozen=True, eq=False)
class NystromGP(LatentGP):
    """A model with the Nystrom approximation of its prior, by the first rows.

    Attributes
    ----------
    n_first : int
        Number of these rows.
    """

    n_first: int

    def __getstate__(self) -> dict[str, Any]:
        # Of order n: what is known of pairs of rows is quicker to make again than to send.
        return {name: value for name, value in vars(self).items() if name != "_blocks"}

    @classmethod
    def of(cls, model: LatentGP, rows: IntArray) -> NystromGP:
        """Return the model approximated by some of the rows, which are moved to the front."""
        others = np.delete(np.arange(len(model.y)), rows)
        own = model.of_rows(np.concatenate([rows, others]))
        return cls(own.covariance, own.observations, own.hyperprior, len(rows))

    @cached_property
    def _blocks(self) -> tuple[Covariance, CrossCovariance]:
        """Covariance of the first rows, and of these with the others."""
        first = self.covariance.of_rows(np.arange(self.n_first))
        return first, first.at_new(self.covariance.X[self.n_first :])

    def prior_at(self, theta: FloatArray) -> NystromPrior:
        """p(f | theta), of low rank."""
        first, others = self._blocks
        return NystromPrior(self.covariance, theta, first=first, others=others)


@dataclass(frozen=True, eq=False)
class EigenPrior(LowRankPrior):
    """The largest eigenvalues of K and their eigenvectors: the best K^ of its rank.

    Attributes
    ----------
    rank : int

    References
    ----------
    Wang & Neal (2013), section 5.2, (33)-(37).
    """

    rank: int = field(kw_only=True)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "rank": self.rank}

    @cached_property
    def _whole(self) -> FloatArray:
        """K; (n, n)."""
        return self.covariance.matrix(self.kernel_theta)

    @cached_property
    def _kept(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues that are kept, ascending, and their eigenvectors; (m,) and (n, m)."""
        values, vectors = linalg.eigenpairs(self._whole, self.rank)
        return np.maximum(values, np.finfo(float).tiny), vectors

    @cached_property
    def root(self) -> FloatArray:
        """``R = D^1/2 V'`` for the eigenvalues D and the eigenvectors V."""
        values, vectors = self._kept
        return np.asfortranarray((vectors * np.sqrt(values)).T)

    def contract_root(self, A: FloatArray, B: FloatArray, S: FloatArray) -> FloatArray:
        """See `LowRankPrior`.

        K^ is the function of K that keeps eigenvalues or makes them zero. Its derivative multiplies
        the entries of V'dK V by the difference quotients of that function (Daleckii & Krein, 1965):
        one where both eigenvalues are kept, d_i / (d_i - d_j) where d_i alone is.
        """
        kept, V_kept = self._kept
        values, V = linalg.eigenpairs(self._whole, self.size)
        lost = values[: -self.rank]
        quotient = np.ones((self.rank, self.size))
        # Every entry of these columns stands for its mirror image too.
        quotient[:, : len(lost)] = 2.0 * kept[:, None] / (kept[:, None] - lost)
        inner = quotient * linalg.wide_product(A / np.sqrt(kept)[:, None], linalg.product(B, V))
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
        return EigenPrior(self.covariance, theta, rank=self.rank)
