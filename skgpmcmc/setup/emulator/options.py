"""All numbers that the set-up of the default sampler depends on."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class EmulatorOptions:
    """Numbers of a set-up that learns an emulator; none of them changes what is sampled.

    Distances of theta are in standard deviations of the posterior, densities in natural logs. What
    each number brings is shown in the documentation, by `benchmarks/default.py`.
    """

    # The search for modes, and the scale
    tolerance: float = 1e-4  # relative: of the density where a search ends, and of sites
    fewest_rows: int = 400  # from which a search begins at the modes of a part of the rows
    part: int = 4  # one in so many: rows of a first search, values that tell length-scales
    step: float = 0.25  # of the gradients whose difference gives a first scale
    n_periods: int = 64  # that are tried: gaps of six percent, as wide as a mode
    shift: float = 0.05  # of the far end of the data by a step of a period, in periods

    # What is kept
    depth: float = 40.0  # points lower than the best by more than this plus p are of no use
    floor: float = 12.0  # what is lower than this hardly matters: grids end, and pi* is no lower
    most_values: int = 2500  # values and derivatives that an emulator is conditioned on
    n_compared: int = 16  # points that may be modes, and places on the way between two
    trust: float = 2.0  # error of emulated heights: valleys are deeper, peaks rise by less
    least_precision: float = 0.05  # of an interpolated site, in units of the Fisher information

    # The emulator
    span: float = 4.0  # log evidences are compressed below the largest by more than this plus p
    length_scale: float = 4.0  # of the emulator, to begin with
    stretch: float = 1.4  # factor by which its length-scales change while that is likelier
    n_stretches: int = 3  # at most, up and down: where the evidence is flat there is no end
    flat: float = 0.005  # squared difference of rows, in length-scales, that hardly matters
    nugget: float = 1e-6  # relative variance of a value around the emulator: rounding, tolerance

    # Learning
    per_batch: float = 8.0  # points of a batch, and two more for every hyper-parameter
    spread: float = 1.5  # wider tails are those of pi* to the power 1 / (1 + spread / p)
    worth: float = 170.0  # a third of the evaluations of a run whose proposals are all accepted
    usable: float = 0.5  # acceptance rate from which an emulator may lead chains
    hopeless: float = 0.25  # acceptance, after a batch and trajectories, below which no batch helps
    most_rounds: int = 12  # batches of points
    n_pooled: int = 64  # chains that draw from pi*, and candidates of a proposal

    # Warm-up by trajectories
    target_acceptance: float = 0.9  # of trajectories; longer steps do not leave narrow places
    n_windows: int = 3  # after which the metric is learned
    rows_per_value: float = 10.0  # n / (p (p + 1)) below which trajectories cost less

    # Estimates
    n_draws: int = 512  # by which pi* is described, and the variance of a weight
    fewest_draws: int = 32  # of an estimate: they take little beside its factorizations
    error: float = 0.5  # of the log variance that a probe finds
    gap_error: float = 0.05  # of the quadratic in the log of exact over approximate evidence
    gap_term: float = 0.1  # standard deviation of a coefficient of it

    # Proposals
    lift: float = 0.21  # pi* to the power 1 / (1 + lift / sqrt(p)) bounds its ratio to the target
    longer: int = 2  # times as many steps has a trajectory that ends with an estimate
    others: float = 0.03  # probability of each move but the main one: a random walk, new particles
    surprise: float = 0.01  # probability of so few acceptances from which there is a second look

    def batch(self, dim: int) -> int:
        """Return the points of a batch, half of them typical and half from wider tails."""
        return int(self.per_batch) + 2 * dim

    def deepest(self, dim: int) -> float:
        """Return how much lower than the best a point may be that is of use."""
        return self.depth + dim

    def enough(self, dim: int) -> float:
        """Return the acceptance to be learned: perfection would save less than three batches."""
        return 1.0 / (1.0 + self.batch(dim) / self.worth)

    def temperature(self, dim: int) -> float:
        """Return T: points of wider tails come from pi* to the power 1 / T."""
        return 1.0 + self.spread / dim

    def lifted_power(self, dim: int) -> float:
        """Return the power of pi* from which proposals come."""
        return 1.0 / (1.0 + self.lift / math.sqrt(dim))

    def windows(self, dim: int, n_chains: int) -> list[int]:
        """Return the trajectories of each chain in the windows of a warm-up, a batch together.

        The last window, after the metric has been learned, is twice as long.
        """
        size = -(-self.batch(dim) // n_chains)
        return [*(size for _ in range(self.n_windows)), 2 * size]
