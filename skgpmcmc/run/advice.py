"""What a fit says of chains that have not converged: how bad that is, and what to do."""

from __future__ import annotations

import numpy as np

from .convergence import least_ess, times_as_many
from .diagnostics import Diagnostics

#: Chains that fall short of what is wanted are usable up to this R-hat.
USABLE_RHAT = 1.05
#: They are usable from this effective sample size: the Monte Carlo error of a posterior mean is
#: then at most a seventh of the posterior standard deviation.
USABLE_ESS = 50.0
#: Beyond this R-hat the chains have not found the posterior, and their draws say little about it.
USELESS_RHAT = 1.2
#: So it is below this effective sample size.
USELESS_ESS = 10.0
#: Standard deviation of the log-likelihood estimate above which chains reject nearly everything.
_NOISY = 2.0
#: Share of draws that is added to what their number so far lets expect, which is a rough estimate.
_DRAWS_MARGIN = 0.1


def convergence_message(
    diagnostics: Diagnostics, max_rhat: float, target_ess: float | None = None
) -> str | None:
    """Return the text of the convergence warning, or None if the chains have converged.

    It names only the criteria that failed (R-hat, bulk or tail effective sample size), each with
    its worst row, and says how serious that is.
    """
    rows = diagnostics.not_converged(max_rhat, target_ess)
    if not rows:
        return None
    least = least_ess(target_ess)
    r_hat, bulk, tail = (
        values[rows] for values in (diagnostics.r_hat, diagnostics.ess_bulk, diagnostics.ess_tail)
    )
    measures = [
        ("R-hat", r_hat, max_rhat, 1.0, 3),
        ("bulk effective sample size", bulk, least, -1.0, 0),
        ("tail effective sample size", tail, least, -1.0, 0),
    ]
    failed = []
    for name, values, bound, sign, digits in measures:
        at = int(np.argmax(sign * values))
        if sign * values[at] > sign * bound:
            shown = _beyond(float(values[at]), bound, sign, digits)
            bounds = f"wanted: at {'most' if sign > 0 else 'least'} {bound:.12g}"
            failed.append(f"{name} {shown} ({bounds}) of {diagnostics.row_label(rows[at])!r}")
    grade, advice = _grade(float(r_hat.max()), float(bulk.min()), float(tail.min()))
    return (
        f"{grade} for {[diagnostics.row_label(row) for row in rows]}: {', '.join(failed)}. {advice}"
    )


def draws_wanted(
    diagnostics: Diagnostics, n_draws: int, max_rhat: float, target_ess: float | None = None
) -> int | None:
    """Return how many draws per chain are likely to be enough, to two digits.

    Parameters
    ----------
    diagnostics : Diagnostics
        Of chains that have not converged.
    n_draws : int
        Draws of each chain so far.
    max_rhat : float
        Largest R-hat that is wanted.
    target_ess : float, optional
        Least effective sample size that is wanted; see `enough`.

    Returns
    -------
    int or None
        None if the chains are so far from convergence that their effective draws per draw say
        nothing.
    """
    rows = diagnostics.not_converged(max_rhat, target_ess)
    r_hat = float(diagnostics.r_hat[rows].max())
    ess = float(np.minimum(diagnostics.ess_bulk, diagnostics.ess_tail)[rows].min())
    wanted = n_draws * times_as_many(r_hat, ess, max_rhat, target_ess)
    if r_hat > USELESS_RHAT or ess < USELESS_ESS or not np.isfinite(wanted):
        return None
    unit = 10 ** max(int(np.log10(wanted)) - 1, 0)
    return unit * (int(wanted * (1.0 + _DRAWS_MARGIN)) // unit + 1)


def remedy(
    diagnostics: Diagnostics,
    n_draws: int,
    max_rhat: float,
    target_ess: float | None = None,
    faster: str | None = None,
) -> str:
    """Say what to do about chains that have not converged.

    Parameters
    ----------
    diagnostics : Diagnostics
        Of these chains.
    n_draws : int
        Draws of each chain so far.
    max_rhat : float
        Largest R-hat that is wanted.
    target_ess : float, optional
        Least effective sample size that is wanted; see `enough`.
    faster : str, optional
        A sampler whose chains need far fewer draws than these, if there is one.
    """
    wanted = draws_wanted(diagnostics, n_draws, max_rhat, target_ess)
    noise = float(np.nanmax([*diagnostics.log_likelihood_sd, 0.0]))
    other = f"use sampler={faster!r}, which needs far fewer draws"
    if wanted is not None:
        said = (
            f"set n_draws={wanted} (warm_start=True continues these chains): at the rate of their "
            f"{n_draws} draws, that is enough"
        )
        said += f". Or {other}" if faster else ""
    elif faster:
        said = other
    else:
        said = (
            "increase n_draws (warm_start=True continues these chains). Draws that disagree so "
            "much do not tell how many are enough: if R-hat does not fall, look at the chains with "
            "skgpmcmc.displays.TraceDisplay, and give more informative priors"
        )
    if noise > _NOISY:
        said += f". Increase n_importance: the log-likelihood noise is {noise:.1f}"
    return f"To do better, {said}. See diagnostics_."


def _grade(r_hat: float, bulk: float, tail: float) -> tuple[str, str]:
    """How bad it is, and what that means."""
    ess = min(bulk, tail)
    if r_hat <= USABLE_RHAT and ess >= USABLE_ESS:
        return "Chains are slightly short of the target", (
            "Their draws are usable: posterior means are known to about "
            f"{bulk**-0.5:.2f} posterior standard deviations."
        )
    if r_hat <= USELESS_RHAT and ess >= USELESS_ESS:
        return "Chains have not converged", "Predictions may be unreliable."
    return "Chains are far from convergence", "Do not use these draws."


def _beyond(value: float, bound: float, sign: float, digits: int) -> str:
    """Show a value with as many digits as it takes to see that it is beyond the bound."""
    shown = f"{value:.{digits}f}"
    while sign * float(shown) <= sign * bound and digits < 17:
        digits += 1
        shown = f"{value:.{digits}f}"
    return shown
