"""Set-up of the collapsed sampler, which knows the evidence exactly: an emulator that proposes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from ..approximations.importance import Quadratic
from ..transitions import GaussianRandomWalk, MarginalMetropolis, Mixture
from .learner import LATER_ROUNDS, TRUSTED, Learner, begun
from .proposing import overdispersed_starts, probabilities, proposals_by_name
from .report import EmulatorReport
from .segments import no_density
from .trajectories import Trajectories, tuned_trajectories
from .work import Prepared, Request, SetUp, Task, require_factors

__all__ = ["set_up_collapsed"]


def set_up_collapsed(request: Request) -> SetUp:
    """Prepare chains on the marginal posterior of theta, f drawn with every theta.

    Parameters
    ----------
    request : Request
        Its approximation gives the evidence, exact for a Gaussian likelihood. A search for a mode
        begins at every start.

    Returns
    -------
    Prepared
        Frozen parts, and where chains begin.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    approximation, starts, rngs = request.approximation, list(request.starts), list(request.rngs)
    if len(starts[0]) == 0:
        walk = MarginalMetropolis(approximation, GaussianRandomWalk.isotropic(0, 1.0))
        return Prepared(walk, approximation, None, starts, rngs, 0, 0, 0, None)
    learner = yield from begun(request)
    report = yield from _examined(learner)
    if report.held_out_error >= TRUSTED:
        yield from learner.refine(LATER_ROUNDS, report.held_out_error)
        report = yield from _examined(learner)
    trajectories: Trajectories | None = None
    if report.held_out_error >= TRUSTED:
        flat = Quadratic.flat(learner.design.best.theta, learner.scale)
        trajectories = yield from tuned_trajectories(learner, None, flat)
    target, pool = learner.emulate(), learner.posterior_pool()
    moves = [
        MarginalMetropolis(approximation, proposal, name=name)
        for name, proposal in proposals_by_name(learner, target, pool, trajectories).items()
    ]
    shares = np.array(probabilities(trajectories)[: len(moves)])
    return Prepared(
        transition=Mixture(tuple(moves), tuple((shares / shares.sum()).tolist())),
        reference=approximation,
        estimator=None,
        thetas=overdispersed_starts(learner, target, trajectories, len(rngs)),
        rngs=rngs,
        n_settle=request.n_warmup,
        n_tuned=0,
        n_evaluations=learner.n_evaluations,
        report=report,
    )


def _examined(learner: Learner) -> Generator[Sequence[Task], Sequence[Any], EmulatorReport]:
    """Compare the emulator with the evidence at draws from pi*, which then join the design."""
    target = learner.emulate()
    draws = learner.posterior_pool().theta.reshape(-1, learner.dim)
    n_examined = min(12 + 4 * learner.dim, 60)
    thetas = draws[learner.rng.choice(len(draws), n_examined, replace=False)]
    answers = yield [*learner.tasks(thetas), *learner.factor_tasks(thetas)]
    require_factors(learner.model, answers[n_examined:])
    found = learner.add(answers[:n_examined])
    if not found:
        raise RuntimeError(no_density(learner.model, thetas[0]))
    emulated = target.emulator.value_and_gradient(np.array([p.theta for p in found]))[0]
    residual = np.array([point.log_evidence for point in found]) - emulated
    ratios = np.exp(np.minimum(residual[:, None] - residual, 0.0))
    error = float(residual.std())
    return EmulatorReport(
        n_design=len(learner.used()),
        held_out_error=error,
        probe_error=error,
        predicted_acceptance=float(ratios.mean()),
        n_sweeps=0,
        skewness=0.0,
        n_importance=(0, 0),
    )
