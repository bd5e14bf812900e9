"""What several test files share: small models, reference integrals, and the size of an error.

Statistical tests compare with z-scores, |z| < 4 (p = 6e-5 each), or with p-values above 1e-4. No
seed was chosen to pass. Where the reference is random too, its error is part of the z-score.
"""

import os
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc.covariance import Covariance, default_kernel, make_covariance
from skgpmcmc.hyperpriors import HyperPrior, default_prior
from skgpmcmc.likelihoods import BERNOULLI_LIKELIHOODS
from skgpmcmc.model import LatentGP

Z_LIMIT = 4.0
P_LIMIT = 1e-4

REPOSITORY = Path(__file__).resolve().parents[1]
DATA_VARIABLE = "SKGPMCMC_DATA"


def data_directory():
    """Where the papers' data sets are, or None."""
    named = os.environ.get(DATA_VARIABLE)
    directory = Path(named) if named else REPOSITORY.parent / "shared" / "data"
    return directory if directory.is_dir() else None


# --- models ---------------------------------------------------------------------------------------


def make_model(X, y, likelihood="probit", kernel=None, *, priors=None, jitter=1e-8):
    """Model on the inputs X, with a default kernel and default priors, as the estimators make it.

    `likelihood` is a name or an object; `priors` maps names to distributions, the rest defaults.
    """
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    n_features = X.shape[1]
    kernel = default_kernel(n_features) if kernel is None else kernel
    covariance = make_covariance(kernel, X, jitter)
    distributions = {name: default_prior(name, n_features) for name in covariance.names}
    distributions.update(priors or {})
    if isinstance(likelihood, str):
        likelihood = BERNOULLI_LIKELIHOODS[likelihood]()
    return LatentGP(covariance, likelihood, HyperPrior(covariance.names, distributions), y)


class GivenCovariance(Covariance):
    """A matrix given outright, without hyper-parameters: for tests that state K."""

    def __init__(self, K, jitter=0.0):
        self.K = np.array(K, dtype=float)
        fixed = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
        super().__init__(fixed, np.arange(len(self.K), dtype=float)[:, None], jitter)

    def with_jitter(self, jitter):
        return GivenCovariance(self.K, jitter)

    def _matrix(self, theta):
        return self.K.copy(order="F")

    def _contract(self, theta, A):
        return np.empty(0)

    def cross(self, theta, X_new):
        raise NotImplementedError("a given matrix knows the training inputs only")

    def diagonal(self, theta, X_new):
        return self.K.diagonal().copy()


NO_THETA = np.empty(0)


def given_model(K, y, likelihood="probit"):
    """Model whose covariance matrix is K exactly; its theta is `NO_THETA`."""
    if isinstance(likelihood, str):
        likelihood = BERNOULLI_LIKELIHOODS[likelihood]()
    return LatentGP(GivenCovariance(K), likelihood, HyperPrior((), {}), np.asarray(y, dtype=float))


def toy_classes(n, d, seed, scale=2.0):
    """Inputs in the unit cube and classes from a smooth function of them; y is -1.0 or +1.0."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    f = scale * np.sin(4.0 * X @ rng.uniform(0.5, 1.5, size=d) + rng.uniform(0.0, 6.0))
    return X, np.where(f + rng.standard_normal(n) > 0.0, 1.0, -1.0)


#: Three points for which p(y) is known in closed form, and the value of theta it goes with.
THREE_X = np.array([[0.1, 0.2], [0.5, 0.9], [0.6, 0.4]])
THREE_Y = np.array([1.0, -1.0, 1.0])
THREE_THETA = np.array([1.5, -0.8, -0.3])


def three_point_model(likelihood="probit", *, jitter=1e-8):
    """ARD model on the three points; its theta is `THREE_THETA`."""
    return make_model(THREE_X, THREE_Y, likelihood, default_kernel(2, ard=True), jitter=jitter)


# --- references -----------------------------------------------------------------------------------


def orthant_probability(K, y):
    """p(y) of a probit model with n = 1, 2 or 3 points, in closed form.

    y_i (f_i + e_i) > 0 for all i, e ~ N(0, I), is an orthant of N(0, K + I).
    """
    C = np.outer(y, y) * (np.asarray(K) + np.eye(len(y)))
    R = C / np.sqrt(np.outer(C.diagonal(), C.diagonal()))
    angles = np.arcsin(R[np.triu_indices(len(y), 1)]).sum()
    return 0.5 ** len(y) + angles / (2.0 ** (len(y) - 1) * np.pi)


def exact_posterior(K, y, likelihood, *, n_nodes=101, limit=10.0):
    """Log p(y), posterior mean and covariance of f, by a product rule in whitened coordinates.

    For n <= 3. The integrand is analytic and negligible at the limits, so that the trapezoidal
    rule converges geometrically: the error is below 1e-12 for the matrices of these tests.
    """
    nodes = np.linspace(-limit, limit, n_nodes)
    n = len(y)
    v = np.stack(np.meshgrid(*[nodes] * n, indexing="ij")).reshape(n, -1)
    f = np.linalg.cholesky(K) @ v
    log_height = likelihood.log_prob(np.asarray(y)[:, None], f).sum(axis=0) - 0.5 * (v**2).sum(0)
    top = log_height.max()
    weight = np.exp(log_height - top)
    total = weight.sum()
    log_z = top + np.log(total) + n * (np.log(nodes[1] - nodes[0]) - 0.5 * np.log(2.0 * np.pi))
    mean = f @ weight / total
    centered = f - mean[:, None]
    return log_z, mean, (centered * weight) @ centered.T / total


def finite_difference(function, theta, step=1e-3):
    """Gradient by central differences, extrapolated once: the error is of order step^4."""

    def central(h):
        return np.array(
            [
                (function(theta + h * e) - function(theta - h * e)) / (2.0 * h)
                for e in np.eye(len(theta))
            ]
        )

    return (4.0 * central(0.5 * step) - central(step)) / 3.0


def relative_error(value, reference):
    """Largest absolute error as a share of the largest reference."""
    return float(np.abs(value - reference).max() / np.abs(reference).max())


def z_score(sample, reference, reference_error=0.0):
    """Standard errors between the mean of independent values and a reference."""
    sample = np.asarray(sample)
    error = np.hypot(sample.std(ddof=1) / np.sqrt(len(sample)), reference_error)
    return float((sample.mean() - reference) / error)
