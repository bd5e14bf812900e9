"""Annealed importance sampling of p(y | theta)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import joblib
import numpy as np

from .._params import Configuration, check_choice, check_integer
from .._typing import FloatArray
from ..approximations.base import GaussianApproximation, Sites
from ..approximations.ep import EP
from ..approximations.laplace import Laplace
from ..approximations.whitened import gaussian_family
from ..importance.annealed import (
    AnnealedEstimate,
    EllipticalKernel,
    PathKernel,
    TemperatureSchedule,
    annealed_evidence,
    find_schedule,
    geometric_temperatures,
    linear_temperatures,
)
from ..importance.density import Density
from ..importance.gaussian import importance_gaussian
from ..model.joint import LatentGP
from ..parallel.threads import one_thread
from ..parallel.workers import make_pool
from ..transitions.annealed import RiemannianKernel, TrajectoryKernel
from ..transitions.hmc import Trajectory
from ..transitions.riemannian import RiemannianTrajectory

#: Draws that are moved together; also the number of pilot draws that find the temperatures.
_DRAWS_TOGETHER = 64
#: Number of pilot draws where the temperatures are given, and only the step scale is tuned.
_N_PILOT_WITH_TEMPERATURES = 16
#: Tolerance of EP for the Gaussian q, which needs no more digits: any q gives an unbiased estimate.
_EP_TOLERANCE = 1e-4


@dataclass(eq=False)
class AnnealedImportance(Configuration):
    """Annealed importance sampling of p(y | theta).

    Draws of f start from a Gaussian q and are moved through intermediate distributions to
    p(f | y, theta). Their importance weights estimate p(y | theta) without bias.

    Parameters
    ----------
    kernel : {"elliptical_slice", "hmc", "rmhmc"}, default="elliptical_slice"
        MCMC moves at each temperature: elliptical slice sampling around q, Hamiltonian Monte Carlo
        (HMC) with the precision of q as the mass matrix, or Riemannian HMC, whose metric depends on
        f.
    start : {"ep", "laplace", "prior"} or None, default=None
        Starting distribution q; None is EP's Gaussian, or for a softmax a Gaussian with averaged
        sites.
    temperatures : {"adaptive", "geometric", "linear"}, default="adaptive"
        Spacing of the temperatures: "adaptive" loses the same effective sample size at every
        step, "geometric" has equal ratios from 1e-4, and "linear" equal distances.
    n_temperatures : int, default=100
        Number of temperatures, for "geometric" and "linear".
    n_particles : int, default=512
        Number of independent draws.
    n_moves : int, default=5
        Number of moves of each draw at every temperature.
    max_leapfrog : int, default=10
        Number of leapfrog steps of a trajectory; with "rmhmc" the maximum.

    References
    ----------
    Neal (2001), *Annealed importance sampling*; Paquet & Fraccaro.
    """

    kernel: str = "elliptical_slice"
    start: str | None = None
    temperatures: str = "adaptive"
    n_temperatures: int = 100
    n_particles: int = 512
    n_moves: int = 5
    max_leapfrog: int = 10

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        check_choice("kernel", self.kernel, _KERNELS)
        if self.start is not None:
            check_choice("start", self.start, _STARTS)
        check_choice("temperatures", self.temperatures, ("adaptive", *_TEMPERATURES))
        for name in ("n_temperatures", "n_moves", "max_leapfrog"):
            check_integer(name, getattr(self, name), 1)
        check_integer("n_particles", self.n_particles, 2)

    def estimate(
        self,
        model: LatentGP,
        theta: FloatArray,
        rng: np.random.Generator,
        n_jobs: int | None = None,
    ) -> AnnealedEstimate:
        """Estimate p(y | theta), without bias.

        Parameters
        ----------
        model : LatentGP
            The model. A softmax needs ``kernel="elliptical_slice"``, and as `start` None or
            "laplace".
        theta : ndarray of shape (p,)
            Natural logs.
        rng : numpy.random.Generator
            Random numbers of all draws, and of a pilot run for the temperatures and step scale.
        n_jobs : int, optional
            Workers of joblib; the result does not depend on it.

        Returns
        -------
        AnnealedEstimate
            The log estimate with its standard error, and the effective sample size of the weights.

        Raises
        ------
        ValueError
            If a parameter is invalid, or the likelihood is a softmax and `kernel` or `start` do not
            support it.
        """
        with one_thread():
            q, schedule = self.prepare_schedule(model, theta, rng)
        run = partial(
            annealed_evidence, model, q, schedule, kernel=self.moves, n_moves=self.n_moves
        )
        # The tasks do not depend on the number of workers, so that neither do the random numbers.
        n_tasks = -(-self.n_particles // _DRAWS_TOGETHER)
        sizes = [len(part) for part in np.array_split(np.arange(self.n_particles), n_tasks)]
        parts = make_pool(n_jobs)(
            joblib.delayed(_run_on_one_thread)(run, size, own)
            for size, own in zip(sizes, rng.spawn(n_tasks), strict=True)
        )
        return AnnealedEstimate.pool(parts)

    def prepare_schedule(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> tuple[GaussianApproximation, TemperatureSchedule]:
        """Return the starting distribution, and the temperatures that a pilot run chooses."""
        self.check()
        if self.kernel != "elliptical_slice" or self.start in ("ep", "prior"):
            who = f"AnnealedImportance(kernel={self.kernel!r}, start={self.start!r})"
            model.likelihood.check_single(who, 'kernel="elliptical_slice" and start=None')
        start = approximate_posterior if self.start is None else _STARTS[self.start]
        q = start(model, theta).q
        make_temperatures = _TEMPERATURES.get(self.temperatures)  # None if adaptive
        given = None if make_temperatures is None else make_temperatures(self.n_temperatures)
        n_pilot = _DRAWS_TOGETHER if given is None else _N_PILOT_WITH_TEMPERATURES
        schedule = find_schedule(
            model, q, given, rng, kernel=self.moves, n_pilot=n_pilot, n_moves=self.n_moves
        )
        return q, schedule

    @property
    def moves(self) -> PathKernel:
        """The MCMC moves at each temperature."""
        return _KERNELS[self.kernel](self.max_leapfrog)


def _run_on_one_thread(run: Callable[..., AnnealedEstimate], *arguments: Any) -> AnnealedEstimate:
    with one_thread():
        return run(*arguments)


def approximate_posterior(model: LatentGP, theta: FloatArray) -> Density:
    """Return a Gaussian near p(f | y, theta): EP's, or for a softmax one with averaged sites."""
    if model.likelihood.n_functions > 1:
        return importance_gaussian(_start_at_laplace(model, theta), model)
    return _start_at_ep(model, theta)


def _start_at_ep(model: LatentGP, theta: FloatArray) -> GaussianApproximation:
    return EP().with_tolerance(_EP_TOLERANCE).fit(model, theta).q


def _start_at_laplace(model: LatentGP, theta: FloatArray) -> GaussianApproximation:
    return Laplace().fit(model, theta).q


def _start_at_prior(model: LatentGP, theta: FloatArray) -> GaussianApproximation:
    prior = model.prior_at(theta)
    no_site = np.zeros(model.n_inputs)
    return gaussian_family(prior, True)(prior, Sites(no_site, no_site))


#: Constructors of the moves, given the number of leapfrog steps, by the values of `kernel`.
_KERNELS: dict[str, Callable[[int], PathKernel]] = {
    "elliptical_slice": lambda max_leapfrog: EllipticalKernel(),
    "hmc": lambda max_leapfrog: TrajectoryKernel(Trajectory(max_steps=max_leapfrog)),
    "rmhmc": lambda max_leapfrog: RiemannianKernel(RiemannianTrajectory(max_steps=max_leapfrog)),
}
#: Functions of a model and theta that return q, by the values of `start`.
_STARTS: dict[str, Callable[[LatentGP, FloatArray], GaussianApproximation]] = {
    "ep": _start_at_ep,
    "laplace": _start_at_laplace,
    "prior": _start_at_prior,
}
#: Functions of the number of temperatures, by the values of `temperatures`.
_TEMPERATURES: dict[str, Callable[[int], FloatArray]] = {
    "geometric": geometric_temperatures,
    "linear": linear_temperatures,
}
