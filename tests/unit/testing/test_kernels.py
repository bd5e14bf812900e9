"""The check of kernels passes right kernels, and finds planted mistakes."""

import re

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    RationalQuadratic,
    WhiteKernel,
)

from skgpmcmc.model import Covariance, covariance
from skgpmcmc.testing import check_kernel

X = np.random.default_rng(0).standard_normal((10, 2))


class NegatedGradient(RBF):
    def __call__(self, X, Y=None, eval_gradient=False):
        found = super().__call__(X, Y, eval_gradient)
        return (found[0], -found[1]) if eval_gradient else found


class FlatGradient(RBF):
    """Its gradient lacks the axis of the hyper-parameters."""

    def __call__(self, X, Y=None, eval_gradient=False):
        found = super().__call__(X, Y, eval_gradient)
        return (found[0], found[1][:, :, 0]) if eval_gradient else found


class InLengthScale(RBF):
    """Its gradient is the one in the length-scale, and not in the log of the length-scale."""

    def __call__(self, X, Y=None, eval_gradient=False):
        found = super().__call__(X, Y, eval_gradient)
        return (found[0], found[1] / self.length_scale) if eval_gradient else found


class WithoutGradient(RBF):
    def __call__(self, X, Y=None):
        return super().__call__(X, Y)


class Transposed(RBF):
    def __call__(self, X, Y=None, eval_gradient=False):
        found = super().__call__(X, Y, eval_gradient)
        return found if Y is None else found.T


class RelativeToTheMean(DotProduct):
    """Its value for two rows depends on the other rows."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(X - X.mean(axis=0), Y, eval_gradient)

    def diag(self, X):
        return super().diag(X - X.mean(axis=0))


class WrongDiagonal(RBF):
    def diag(self, X):
        return 2.0 * super().diag(X)


class NotSymmetric(RBF):
    def __call__(self, X, Y=None, eval_gradient=False):
        found = super().__call__(X, Y, eval_gradient)
        if eval_gradient:
            return found[0] + 0.01 * np.tri(len(X), k=-1), found[1]
        return found if Y is not None else found + 0.01 * np.tri(len(X), k=-1)


class NotPositive(RBF):
    """One minus the distance, which is no covariance in two dimensions."""

    def __call__(self, X, Y=None, eval_gradient=False):
        r = np.sqrt(-2.0 * np.log(super().__call__(X, Y)))
        return (1.0 - r**2, 2.0 * r[:, :, None] ** 2) if eval_gradient else 1.0 - r**2


class SlightlyIndefinite(RBF):
    """A fit would accept it."""

    def __call__(self, X, Y=None, eval_gradient=False):
        found = super().__call__(X, Y, eval_gradient)
        K = found[0] if eval_gradient else found
        K = K - 1e-6 * (K == 1.0)
        return (K, found[1]) if eval_gradient else K

    def diag(self, X):
        return super().diag(X) - 1e-6


class ForgetsPower(RBF):
    """Its `get_params` has no power, so that copies have the default one."""

    def __init__(self, length_scale=1.0, length_scale_bounds=(1e-5, 1e5)):
        super().__init__(length_scale, length_scale_bounds)
        self.power = 1

    def __call__(self, X, Y=None, eval_gradient=False):
        K = super().__call__(X, Y) ** self.power
        if not eval_gradient:
            return K
        return K, self.power * super().__call__(X, eval_gradient=True)[1]


class ChangesItsArgument(RBF):
    def __init__(self, length_scale=1.0, length_scale_bounds=(1e-5, 1e5)):
        super().__init__(2.0 * length_scale, length_scale_bounds)


def with_power(power):
    kernel = ForgetsPower()
    kernel.power = power
    return kernel


@pytest.mark.parametrize(
    ("kernel", "complaint"),
    [
        (NegatedGradient(), "in the log of length_scale (number 0)"),
        (ConstantKernel(2.0) * NegatedGradient(), "in the log of k2__length_scale (number 1)"),
        (InLengthScale(2.0), "in the log of length_scale (number 0)"),
        (FlatGradient(), "the gradient of FlatGradient(length_scale=1) has the shape (10, 10)"),
        (WithoutGradient(), "has no gradient (TypeError"),
        (Transposed(), "has the shape (7, 3) for 3 and 7 rows"),
        (RelativeToTheMean(), "k(X, Y) of"),
        (WrongDiagonal(), "diag of"),
        (NotSymmetric(), "transpose of the matrix"),
        (NotPositive(), "has the eigenvalue"),
        (SlightlyIndefinite(3.0), "has the eigenvalue"),
        (with_power(3), "matrix of a copy"),
        (ChangesItsArgument(), "__init__ must store every argument"),
        (RBF, "pass an object, RBF()"),
        ("rbf", "kernel must be a scalar-valued covariance"),
        (RBF([1.0, 2.0, 3.0]), "has 3 elements"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_check_kernel_finds_each_planted_mistake(kernel, complaint):
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        check_kernel(kernel, X)


@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel(2.0) * RBF([0.7, 2.0]) + WhiteKernel(0.3),
        ConstantKernel(3.0, "fixed") * RationalQuadratic(0.5, 1.5),
        DotProduct(0.5) ** 2,
        RBF(1.0, "fixed"),
        ExpSineSquared(0.7, 1.3) * ConstantKernel(),
    ],
    ids=str,
)
def test_check_kernel_passes_kernels_of_scikit_learn(kernel):
    check_kernel(kernel, X[:, :1] if "ExpSine" in str(kernel) else X)


def test_check_kernel_asks_for_inputs_that_it_can_divide():
    with pytest.raises(AssertionError, match=r"shape \(n, d\); got \(10,\)"):
        check_kernel(RBF(), X[:, 0])
    with pytest.raises(AssertionError, match="at least 3 rows; got 2"):
        check_kernel(RBF(), X[:2])


@pytest.mark.parametrize("method", ["matrix", "cross", "diagonal", "contract"])
def test_check_kernel_finds_a_wrong_covariance_of_a_right_kernel(method, monkeypatch):
    # Defining the class registers it.
    monkeypatch.setattr(covariance, "_FAST_COVARIANCES", list(covariance._FAST_COVARIANCES))

    class Wrong(Covariance):
        pass

    def doubled(self, *arguments):
        return 2.0 * getattr(Covariance, method)(self, *arguments)

    setattr(Wrong, method, doubled)
    monkeypatch.setattr("skgpmcmc.testing.kernels.make_covariance", Wrong)
    with pytest.raises(AssertionError, match=f"{method} of Wrong"):
        check_kernel(RBF(), X)
