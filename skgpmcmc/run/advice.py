"""The words about chains that have not converged: how bad that is, and what to do."""

from __future__ import annotations

import numpy as np

from .convergence import ConvergenceGoal
from .diagnostics import Diagnostics

#: Up to this R-hat the draws of chains that miss their goal can be used.
USABLE_RHAT = 1.05
#: From this effective sample size on they can be used: the Monte Carlo error of a posterior mean is
#: then at most a seventh of the posterior standard deviation.
USABLE_ESS = 50.0
#: Beyond this R-hat the chains have not found the posterior, and their draws say little about it.
USELESS_RHAT = 1.2
#: Below this effective sample size the draws say as little.
USELESS_ESS = 10.0
#: Standard deviation of the log-likelihood estimate above which chains reject nearly everything.
_NOISY_LOG_LIK_SD = 2.0
#: Share that is added to the number of draws, because an effective sample size is a rough estimate.
_DRAWS_MARGIN = 0.1
#: Digits of a double; no longer number shows a smaller difference.
_MOST_DIGITS = 17


def convergence_message(diagnostics: Diagnostics, goal: ConvergenceGoal) -> str | None:
    """Return the text of the convergence warning, or None if the chains have converged.

    The message says how serious the failure is. It names the criteria that failed (R-hat, bulk or
    tail effective sample size) and no others, each with its worst row.
    """
    rows = diagnostics.rows_short_of(goal)
    if not rows:
        return None
    r_hat = diagnostics.r_hat[rows]
    bulk = diagnostics.ess_bulk[rows]
    tail = diagnostics.ess_tail[rows]
    measures = [
        ("R-hat", r_hat, goal.max_rhat, 1.0, 3),
        ("bulk effective sample size", bulk, goal.min_ess, -1.0, 0),
        ("tail effective sample size", tail, goal.min_ess, -1.0, 0),
    ]
    failed = []
    for name, values, bound, sign, digits in measures:
        worst = int(np.argmax(sign * values))
        if sign * values[worst] > sign * bound:
            value = f"{values[worst]:.{digits}f}"
            while sign * float(value) <= sign * bound and digits < _MOST_DIGITS:
                digits += 1  # until the value is seen to be beyond the bound
                value = f"{values[worst]:.{digits}f}"
            wanted = f"wanted: at {'most' if sign > 0 else 'least'} {bound:.12g}"
            failed.append(f"{name} {value} ({wanted}) of {diagnostics.row_label(rows[worst])!r}")
    grade, advice = _grade_draws(float(r_hat.max()), float(bulk.min()), float(tail.min()))
    labels = [diagnostics.row_label(row) for row in rows]
    return f"{grade} for {labels}: {', '.join(failed)}. {advice}"


def draws_wanted(diagnostics: Diagnostics, n_draws: int, goal: ConvergenceGoal) -> int | None:
    """Return how many draws per chain are likely to be enough, to two digits.

    Parameters
    ----------
    diagnostics : Diagnostics
        Of chains that have not converged.
    n_draws : int
        Draws of each chain so far.
    goal : ConvergenceGoal
        What the chains have to reach.

    Returns
    -------
    int or None
        None if the chains are so far from convergence that their effective draws per draw say
        nothing.
    """
    rows = diagnostics.rows_short_of(goal)
    r_hat = float(diagnostics.r_hat[rows].max())
    ess = float(np.minimum(diagnostics.ess_bulk, diagnostics.ess_tail)[rows].min())
    wanted = n_draws * goal.growth_needed(r_hat, ess)
    if r_hat > USELESS_RHAT or ess < USELESS_ESS or not np.isfinite(wanted):
        return None
    unit = 10 ** max(int(np.log10(wanted)) - 1, 0)
    return unit * (int(wanted * (1.0 + _DRAWS_MARGIN)) // unit + 1)


def remedy(
    diagnostics: Diagnostics, n_draws: int, goal: ConvergenceGoal, faster: str | None = None
) -> str:
    """Say what to do about chains that have not converged.

    Parameters
    ----------
    diagnostics : Diagnostics
        Of these chains.
    n_draws : int
        Draws of each chain so far.
    goal : ConvergenceGoal
        What the chains have to reach.
    faster : str, optional
        A sampler whose chains need far fewer draws than these, if there is one.
    """
    wanted = draws_wanted(diagnostics, n_draws, goal)
    noise = float(np.nanmax([*diagnostics.log_likelihood_sd, 0.0]))
    other_sampler = f"use sampler={faster!r}, which needs far fewer draws"
    if wanted is not None:
        advice = (
            f"set n_draws={wanted} (warm_start=True continues these chains): at the rate of their "
            f"{n_draws} draws, that is enough"
        )
        advice += f". Or {other_sampler}" if faster else ""
    elif faster:
        advice = other_sampler
    else:
        advice = (
            "increase n_draws (warm_start=True continues these chains). Draws that disagree so "
            "much do not tell how many are enough: if R-hat does not fall, look at the chains with "
            "skgpmcmc.displays.TraceDisplay, and give more informative priors"
        )
    if noise > _NOISY_LOG_LIK_SD:
        advice += f". Increase n_importance: the log-likelihood noise is {noise:.1f}"
    return f"To do better, {advice}. See diagnostics_."


def _grade_draws(r_hat: float, bulk: float, tail: float) -> tuple[str, str]:
    """Return how far the chains are from convergence, and what their draws are good for."""
    ess = min(bulk, tail)
    if r_hat <= USABLE_RHAT and ess >= USABLE_ESS:
        return "Chains are slightly short of the target", (
            "Their draws are usable: posterior means are known to about "
            f"{bulk**-0.5:.2f} posterior standard deviations."
        )
    if r_hat <= USELESS_RHAT and ess >= USELESS_ESS:
        return "Chains have not converged", "Predictions may be unreliable."
    return "Chains are far from convergence", "Do not use these draws."
