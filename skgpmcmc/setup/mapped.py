"""Set-up of mapped samplers: the sizes of the cheap posteriors, and the moves on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._typing import FloatArray
from ..chain.executor import Executor
from ..chain.segment import start
from ..chain.time_limit import OutOfTimeError, check_time, time_is_over
from ..hyperposterior.cheap import CheapApproximation, CheapPosterior
from ..hyperposterior.posterior import HyperPosterior
from ..model.joint import LatentGP
from ..transitions.base import Transition
from ..transitions.compose import Mixture, Sweep
from ..transitions.mapping import CheapUpdate, DiscretizingMap, Layer
from ..transitions.metropolis import MetropolisHastings, RandomWalk
from ..transitions.operator import Operator
from ..transitions.particles import ParticleRefresh, RetainedParticle
from ..transitions.pseudo_marginal import PseudoMarginalMetropolis
from .emulator.cheap import Emulated
from .random_walk import set_up_sweep
from .request import PreparedChains, Request

#: Function that makes the move of theta from its layers; it can be pickled for workers.
MakeMove = Callable[[Sequence[Layer]], "DiscretizingMap[Any] | MetropolisHastings[Any]"]

#: Pilot chains for each size: enough to average autocorrelations.
_N_PILOT_CHAINS = 4
#: Tuning iterations of a pilot chain, for R.
_N_TUNING = 40
#: Iterations of a pilot chain after tuning: as few as tell sizes apart.
_N_PILOT = 40
#: Last iterations that measure the autocorrelation: the first ones are burn-in.
_N_JUDGED = 30
#: Largest autocorrelation at lag one: short runs cannot tell more from a chain that is stuck.
_MOST_CORRELATED = 0.99
#: Probabilities of the mapped move, of a random walk on the target itself, and of new particles.
_MOVE_PROBABILITIES = (0.93, 0.05, 0.02)


class MappedSettings(NamedTuple):
    """Settings of a mapped sampler."""

    cheap: Sequence[CheapApproximation]  # one per layer, the first is nearest to the target
    operators: Sequence[Operator]  # R of each layer, which is tuned
    n_updates: Sequence[int]  # updates by R in each layer
    make: MakeMove  # makes the move of theta from layers
    cost: float  # floating-point operations of an evaluation of the target
    whole: bool = False  # whether slices of all coordinates are mapped at once

    def move(self, layers: Sequence[Layer], dim: int) -> Transition[Any]:
        """Return the move of theta."""
        return self.make(layers) if self.whole else by_coordinate(self.make, layers, dim)


def set_up_mapped(request: Request, wanted: MappedSettings, workers: Executor) -> PreparedChains:
    """Choose the size of the first cheap posterior, tune R on all of them, and freeze them.

    Parameters
    ----------
    request : Request
        Arguments of the set-up. The approximation evaluates the target, or is the importance
        density of the estimate.
    wanted : Mapped
        Settings: the cheap posteriors, and the moves on them.
    workers : Executor
        Executor of the work.

    Returns
    -------
    PreparedChains
        The frozen transition. Chains start at the last theta of the chains that tuned R.
    """
    wanted, n_evaluations = _choose_size(request, wanted, workers)
    layers, walk, prepared = _tune_layers(request, wanted, workers)
    move = wanted.move(layers, len(request.model.start))
    evaluates = _find_exact(move)
    return prepared._replace(
        transition=_add_moves(move, walk),
        reference=request.approximation,
        estimator=evaluates if isinstance(evaluates, PseudoMarginalMetropolis) else None,
        n_evaluations=n_evaluations,
        states=None,
    )


def by_coordinate(make: MakeMove, layers: Sequence[Layer], dim: int) -> Transition[Any]:
    """Return a move of theta with a separate mapping for each coordinate, for slices.

    A sweep over all coordinates under pi* would rarely be accepted by a narrower target, the less
    the more coordinates there are. Moves of one coordinate are often accepted, and need only one
    evaluation of the target, while slices on the target itself need several.
    """
    parts = zip(*(layer.by_coordinate(dim) for layer in layers), strict=True)
    moves = [make(part) for part in parts]
    return moves[0] if len(moves) == 1 else Sweep(moves, (1,) * len(moves))


def _find_exact(move: Transition[Any]) -> MetropolisHastings[Any]:
    """Find the part of a move that evaluates the target."""
    first = move.moves[0] if isinstance(move, Sweep) else move
    return first.exact if isinstance(first, DiscretizingMap) else first  # type: ignore[return-value]


def _add_moves(move: Transition[Any], walk: Operator) -> Mixture[Any]:
    """Add a random walk that does not depend on pi*, and moves of particles.

    The mapped move never reaches a region in which pi* is far too small, even if the posterior has
    much mass there: chains would agree with one another, and be wrong. The random walk reaches such
    a region, and R-hat then shows that one chain stays there. Moves of particles prevent that a
    chain stays at an estimate that is too large by chance.
    """
    evaluates = _find_exact(move)
    walking = replace(evaluates, proposal=walk, name=walk.name)  # type: ignore[type-var]
    if not isinstance(evaluates, PseudoMarginalMetropolis):
        return Mixture((move, walking), _MOVE_PROBABILITIES[:2])
    defensive = evaluates.defensive
    moves = (move, walking, ParticleRefresh(defensive))
    return Mixture(moves, _MOVE_PROBABILITIES, RetainedParticle(defensive))


def _tune_layers(
    request: Request, wanted: MappedSettings, workers: Executor
) -> tuple[list[Layer], Operator, PreparedChains]:
    """Tune R and a random walk on every cheap posterior, from the cheapest to the first.

    Returns the layers, the random walk tuned on the first layer, and the chains at their ends.
    """
    layers: list[Layer] = []
    parts = list(zip(wanted.cheap, wanted.operators, wanted.n_updates, strict=True))
    for cheap, operator, n_updates in reversed(parts):
        target: CheapPosterior
        if isinstance(cheap, Emulated):
            target = cheap.learn(request.model, request.rng, workers)
        else:
            target = cheap.posterior(request.model, request.rng)
        if isinstance(target, HyperPosterior):
            target = replace(target, with_gradient=operator.follows_gradient)
        sweep = Sweep((CheapUpdate(target, operator), CheapUpdate(target, RandomWalk())), (1, 1))
        prepared = set_up_sweep(request, sweep, workers, learns_shape=True)
        tuned, walking = prepared.transition.moves  # type: ignore[attr-defined]
        layers.insert(0, Layer(target, tuned.operator, n_updates))
        request = request._replace(starts=prepared.thetas, rngs=prepared.rngs)
    return layers, walking.operator, prepared


# --- choice of the size of the cheap posterior ----------------------------------------------------


class PilotResult(NamedTuple):
    """Result of a pilot run."""

    log_target: FloatArray  # (n_steps,), log density of the target after each step
    theta: FloatArray  # (p,), last theta
    n_evaluations: float  # evaluations of the target per step
    n_cheap: list[float]  # evaluations of each cheap posterior per step


@dataclass(eq=False)
class _CountingPosterior:
    """A cheap posterior that counts its evaluations."""

    target: CheapPosterior
    cost: float = 0.0
    count: int = 0

    def at(self, position: FloatArray) -> Any:
        """Return the point at a position, and count the evaluation."""
        self.count += 1
        return self.target.at(position)


def run_pilot(
    model: LatentGP,
    wanted: MappedSettings,
    layers: Sequence[Layer],
    theta: FloatArray,
    rng: np.random.Generator,
) -> PilotResult:
    """Run the mapped move for some steps, fewer if the time is over, and count evaluations."""
    counted = [_CountingPosterior(layer.target) for layer in layers]
    watched = [replace(layer, target=own) for layer, own in zip(layers, counted, strict=True)]
    move = wanted.move(watched, len(theta))
    log_target_of = _find_exact(move).log_target
    state = start(model, move, theta, rng).state
    log_target = []
    n_evaluations = 0.0
    for _ in range(_N_PILOT):
        if time_is_over():
            break
        state, info = move.step(model, state, rng)
        n_evaluations += info.n_evaluations
        log_target.append(log_target_of(state))
    n_cheap = [own.count / _N_PILOT for own in counted]
    return PilotResult(np.array(log_target), state.theta, n_evaluations / _N_PILOT, n_cheap)


def _choose_size(
    request: Request, wanted: MappedSettings, workers: Executor
) -> tuple[MappedSettings, int]:
    """Choose the size of the first cheap posterior among its candidates, if there are several.

    The best candidate has the smallest product of cost and autocorrelation time of the log
    posterior. Both come from formulas and counts, so that no draw depends on a clock. Slices are
    tried by coordinate and as whole sweeps, which are better if pi* is close to the target. Pilot
    runs have random streams of their own. The dearest candidate is tried first, and every other
    candidate begins at the ends of the one before: a chain that still moves from a poor pi* to the
    target would seem to mix well. If the time is over before the first trial, the cheapest
    candidate is chosen.
    """
    candidates = [
        wanted._replace(cheap=(candidate, *wanted.cheap[1:]))
        for candidate in wanted.cheap[0].candidates(request.model.n_inputs)
    ]
    if len(candidates) == 1:
        return candidates[0], 0
    dim = len(request.model.start)
    splits = len(wanted.operators[0].by_coordinate(dim)) > 1
    starts = [request.starts[i % len(request.starts)] for i in range(_N_PILOT_CHAINS)]
    ends: Sequence[FloatArray] = ()
    tried = []
    costs = []
    runs = []
    n_evaluations = 0.0
    with suppress(OutOfTimeError):
        for number, own in enumerate(reversed(candidates), 1):
            rngs = request.rng.spawn(_N_PILOT_CHAINS)
            small = request._replace(starts=starts, rngs=rngs, n_warmup=_N_TUNING)
            layers, _, prepared = _tune_layers(small, own, workers)
            check_time()
            stage = f"pilot runs: cheap posterior {number} of {len(candidates)}"
            for whole in (False, True) if splits else (False,):
                trial = own._replace(whole=whole)
                places = zip(
                    ends or prepared.thetas, request.rng.spawn(_N_PILOT_CHAINS), strict=True
                )
                arguments = [(request.model, trial, layers, *place) for place in places]
                pilots: Sequence[PilotResult] = workers.map(
                    run_pilot, arguments, stage, iterations=_N_PILOT
                )
                check_time()
                tried.append(trial)
                ends = [run.theta for run in pilots]
                costs.append(_cost_per_step(pilots, layers, wanted.cost))
                runs.append(np.array([run.log_target[-_N_JUDGED:] for run in pilots]))
                n_evaluations += _N_PILOT * sum(run.n_evaluations for run in pilots)
    if not tried:
        return candidates[0], 0
    best = int(np.argmin(np.array(costs) * autocorrelation_times(np.array(runs))))
    return tried[best], int(n_evaluations)


def _cost_per_step(pilots: Sequence[PilotResult], layers: Sequence[Layer], cost: float) -> float:
    """Floating-point operations of one step of the mapped move."""
    n_cheap = np.mean([own.n_cheap for own in pilots], axis=0)
    of_cheap = float(n_cheap @ [layer.target.cost for layer in layers])
    return of_cheap + cost * float(np.mean([own.n_evaluations for own in pilots]))


def autocorrelation_times(runs: FloatArray) -> FloatArray:
    """Return autocorrelation times of a quantity in short runs of some chains; (k,).

    Parameters
    ----------
    runs : ndarray of shape (k, n_pilots, n_steps)
        Values; the k chains have the same target, and so the same variance.

    Returns
    -------
    ndarray of shape (k,)
        (1 + r) / (1 - r), where r is the autocorrelation at lag one; short runs do not allow
        estimates at other lags.
    """
    variance = max(float(runs.var()), np.finfo(float).tiny)
    half = 0.5 * np.mean(np.diff(runs, axis=2) ** 2, axis=(1, 2)) / variance
    r = np.clip(1.0 - half, 0.0, _MOST_CORRELATED)
    return np.asarray((1.0 + r) / (1.0 - r))
