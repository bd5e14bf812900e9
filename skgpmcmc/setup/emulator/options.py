"""All tuning constants of the set-up of the default sampler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EmulatorOptions:
    """Tuning constants of a set-up that learns an emulator; none of them changes the target.

    Distances of theta are in standard deviations of the posterior, and log densities in nats. Each
    comment has the unit and the reason. The documentation shows what each constant gains, measured
    by `benchmarks/default.py`.
    """

    # The search for modes, and the scale
    tolerance: float = 1e-4  # relative, of searches and sites: less than the errors of an emulator
    fewest_rows: int = 400  # rows from which searches begin with a subset, which costs far less
    subset_divisor: int = 4  # of rows for first searches, values for length-scales, batches
    gradient_step: float = 0.25  # step between gradients for a scale: log density still quadratic

    # What is kept
    design_depth: float = 40.0  # nats, plus p, below the best: chains never go where it is lower
    negligible_depth: float = 12.0  # nats below the best that hardly matter: grids end there
    most_values: int = 2500  # values and derivatives that condition an emulator: bounds time
    least_precision: float = 0.2  # of a site, per Fisher information: its log is interpolated

    # The emulator
    height_span: float = 4.0  # nats: a valley is deeper, and values further down are compressed
    first_length_scale: float = 4.0  # in standard deviations, where the fit of length-scales begins
    stretch_factor: float = 1.4  # change of a length-scale, repeated while this is likelier
    n_stretches: int = 3  # most changes up and down: where the evidence is flat there is no optimum
    flat_distance: float = 0.005  # squared distance of rows, in length-scales, that hardly matters
    nugget: float = 1e-6  # relative variance of a value around the emulator: rounding, tolerance

    # Learning
    per_batch: float = 8.0  # points of a batch, and two more for each hyper-parameter
    tail_spread: float = 1.5  # wider tails: pi* to the power 1 / (1 + tail_spread / p)
    worthwhile_evaluations: float = 170.0  # a third of the evaluations of a run without rejections
    usable_acceptance: float = 0.25  # predicted rate below which trajectories cost less per draw
    most_rounds: int = 12  # most batches of points: bounds time
    n_pooled: int = 64  # chains that draw from pi*, candidates, periods tried: one call for all

    # Warm-up by trajectories
    target_acceptance: float = 0.9  # of trajectories: longer steps do not leave narrow regions
    n_windows: int = 3  # windows of trajectories after which the metric is learned anew
    rows_per_value: float = 3.0  # n / (p (p + 1)) below which trajectories cost less: as measured

    # Estimates
    n_draws: int = 512  # draws that describe pi*, and draws that measure the variance of a weight
    fewest_draws: int = 32  # of an estimate: so few cost little beside its factorizations
    most_draws: int = 4096  # of an estimate, unless there are more rows: bounds memory

    # Proposals
    lift: float = 0.18  # pi* to the power 1 / (1 + lift / p^(1/4)) bounds its ratio to the target
    step_factor: int = 2  # times as many steps if a trajectory ends with a costly estimate
    other_probability: float = 0.03  # of each move but the main one: a random walk, new particles
    surprise_probability: float = 0.01  # of so few acceptances, below which the set-up looks again

    def batch(self, dim: int) -> int:
        """Return the number of points in a batch, which is also the number compared for modes."""
        return int(self.per_batch) + 2 * dim

    def most_points(self, dim: int) -> int:
        """Return the largest number of points whose values and gradients condition an emulator."""
        return self.most_values // (dim + 1)

    def deepest(self, dim: int) -> float:
        """Return the largest distance below the best log density of a useful point, in nats."""
        return self.design_depth + dim

    def enough(self, dim: int) -> float:
        """Return the predicted acceptance rate that ends learning: a better one would not pay."""
        return 1.0 / (1.0 + self.batch(dim) / self.worthwhile_evaluations)

    def temperature(self, dim: int) -> float:
        """Return T, where points of wider tails are draws from pi* to the power 1 / T."""
        return 1.0 + self.tail_spread / dim

    def lifted_power(self, dim: int) -> float:
        """Return the power of pi* from which proposals come."""
        return 1.0 / (1.0 + self.lift / dim**0.25)

    def windows(self, dim: int, n_chains: int) -> list[int]:
        """Return the trajectories per chain in each window: a batch for all chains together.

        The last window follows the last change of the metric, and is as long as all before it.
        """
        size = -(-self.batch(dim) // n_chains)
        return [*(size for _ in range(self.n_windows)), self.n_windows * size]
