"""Check of the chains in a checkpoint file: convergence, what is wrong, and what to try.

``python -m skgpmcmc check-chains FILE`` prints the findings and saves plots. Code in the file
is never executed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ._typing import FloatArray
from .chain.counts import ChainCounts, sum_counts
from .run.advice import convergence_message, draws_wanted
from .run.checkpoint import read_checkpoint
from .run.convergence import ConvergenceGoal
from .run.diagnostics import Diagnostics, table_fields
from .storage.archive import from_arrays

#: Share of its draws that a chain may stay at one place before it is reported as stuck.
_LONGEST_STAY = 0.1
#: Draws that any chain may stay at one place, however short it is.
_SHORTEST_REPORTED_STAY = 10
#: Distance of the mean of a chain from those of the others that is reported, in standard deviations
#: within chains.
_DISTANCE_REPORTED = 1.0
#: Distance between the means of the halves of all chains that is reported, in the same unit.
_DRIFT_REPORTED = 0.7
#: Acceptance rate below which a move is said to fail.
_LOW_ACCEPTANCE = 0.05
#: Times that a chain must have made a move before its acceptance rate is reported.
_FEWEST_MOVES = 30
#: Latent values that take the place of hyper-parameters where there are none.
_N_LATENT_SHOWN = 5
#: Bars of a histogram of ranks.
_N_RANK_BARS = 20
#: Standard deviation within a chain that stands for none, relative to the size of the draws.
_CHAIN_SD_ROUNDING = 1e-12


class StoredChains(NamedTuple):
    """The chains of one model, as a checkpoint file contains them."""

    samples: FloatArray  # (n_chains, n_draws, p), natural logs where the names say so
    names: list[str]  # of the p components
    counts: list[ChainCounts]  # one per chain
    n_inputs: int  # distinct training inputs
    sampler: str = "pm"


def chains_in(content: Mapping[str, Any]) -> list[StoredChains]:
    """Return the chains of every model in the content of a checkpoint; none before the first draws.

    Where a model has no hyper-parameters, a few latent values take their place.
    """
    shown = content["shown"]
    tapes = content["tapes"]
    n_chains = int(shown["n_chains"])
    chains = [[from_arrays(segment) for segment in tape["segments"]] for tape in tapes]
    found = []
    for m in range(0, len(chains), n_chains):
        own = chains[m : m + n_chains]
        if not all(own):
            continue
        samples = _stack_draws(own, "theta")
        pairs = zip(shown["names"], shown["positive"], strict=True)
        names = [f"log {name}" if positive else str(name) for name, positive in pairs]
        if not names:
            f = _stack_draws(own, "f")
            rows = np.unique(np.linspace(0, f.shape[2] - 1, _N_LATENT_SHOWN).astype(int))
            samples = f[:, :, rows]
            names = [f"f[{row}]" for row in rows]
        counts = [sum_counts(segment.counts for segment in chain) for chain in own]
        found.append(StoredChains(samples, names, counts, shown["n_inputs"], shown["sampler"]))
    return found


def _stack_draws(chains: Sequence[Sequence[Any]], name: str) -> FloatArray:
    """Stack draws of chains, cut to the length of the shortest; (n_chains, n_draws, k)."""
    whole = [np.concatenate([getattr(s, name) for s in chain]) for chain in chains]
    least = min(map(len, whole))
    return np.stack([chain[:least] for chain in whole])


def diagnose_stored(chains: StoredChains) -> Diagnostics:
    """Return the table of diagnostics; what the file does not contain is NaN or empty."""
    return Diagnostics(
        names=chains.names,
        classes=None,
        **table_fields([chains.samples], chains.counts, ChainCounts(), chains.n_inputs),
        log_likelihood_sd=np.array([np.nan]),
        emulators=[],
        seconds_warmup=np.nan,
        seconds_sampling=np.nan,
    )


def findings(chains: StoredChains, goal: ConvergenceGoal) -> list[str]:
    """Describe what is wrong with some chains and what to try; empty if nothing is wrong.

    Parameters
    ----------
    chains : StoredChains
        Chains of one model.
    goal : ConvergenceGoal
        What the chains have to reach.
    """
    table = diagnose_stored(chains)
    message = convergence_message(table, goal)
    if message is None:
        return []
    found = [
        message,
        *_find_stuck_chains(chains),
        *_find_distant_chains(chains),
        *_find_drifts(chains),
        *_find_rejected_moves(chains),
    ]
    if len(found) == 1:
        wanted = draws_wanted(table, chains.samples.shape[1], goal)
        found.append(
            "No single chain stands out: they agree as far as they go, and need more draws. "
            f"{'Increase n_draws' if wanted is None else f'Set n_draws={wanted}'}; the file is "
            "continued."
        )
    return found


def _find_stuck_chains(chains: StoredChains) -> list[str]:
    """Describe the chains that stay at one place."""
    remedy = (
        "The estimate of the likelihood is too noisy there: increase n_importance."
        if "pm" in chains.sampler or "PseudoMarginal" in chains.sampler
        else 'Try sampler="pm".'
    )
    found = []
    for c, chain in enumerate(chains.samples):
        ends = np.flatnonzero(np.r_[(chain[1:] != chain[:-1]).any(axis=1), True])
        longest = int(np.diff(np.r_[-1, ends]).max())
        if longest > max(_LONGEST_STAY * len(chain), _SHORTEST_REPORTED_STAY):
            found.append(
                f"Chain {c + 1} sticks: it does not move for {longest} of {len(chain)} draws. "
                + remedy
            )
    return found


def _find_distant_chains(chains: StoredChains) -> list[str]:
    """Describe the chains whose mean is far from those of the others."""
    if len(chains.samples) < 2:
        return []
    means = chains.samples.mean(axis=1)
    sd = _sd_within_chains(chains.samples)
    found = []
    for c, mean in enumerate(means):
        others = np.median(np.delete(means, c, axis=0), axis=0)
        distance = np.abs(mean - others) / sd
        j = int(distance.argmax())
        if distance[j] > _DISTANCE_REPORTED:
            found.append(
                f"Chain {c + 1} is elsewhere in {chains.names[j]}: its mean is {mean[j]:.3g}, and "
                f"that of the others {others[j]:.3g}. Either it has not arrived (increase n_warmup "
                "and n_draws), or the posterior has several modes (give this hyper-parameter a "
                'prior that says more, or try sampler="tempered").'
            )
    return found


def _find_drifts(chains: StoredChains) -> list[str]:
    """Describe the hyper-parameters whose mean has changed between the halves of the draws."""
    half = chains.samples.shape[1] // 2
    if half < 2:
        return []
    first, second = (
        part.mean(axis=(0, 1)) for part in np.split(chains.samples[:, -2 * half :], 2, 1)
    )
    drift = np.abs(second - first) / _sd_within_chains(chains.samples)
    return [
        f"{chains.names[j]} drifts: its mean is {first[j]:.3g} in the first half of the draws and "
        f"{second[j]:.3g} in the second. Increase n_warmup, and n_draws."
        for j in np.flatnonzero(drift > _DRIFT_REPORTED)
    ]


def _sd_within_chains(samples: FloatArray) -> FloatArray:
    """Return the median over chains of the standard deviation within a chain; (p,), positive."""
    sd = np.median(samples.std(axis=1), axis=0)
    rounding = _CHAIN_SD_ROUNDING * (1.0 + np.abs(samples).max(axis=(0, 1)))
    return np.asarray(np.maximum(sd, rounding))


def _find_rejected_moves(chains: StoredChains) -> list[str]:
    """Describe the moves that are often proposed and hardly ever accepted."""
    found = []
    for move in sum_counts(chains.counts).n_steps:
        low = [
            c + 1
            for c, own in enumerate(chains.counts)
            if own.n_steps[move] >= _FEWEST_MOVES
            and own.n_accepted[move] < _LOW_ACCEPTANCE * own.n_steps[move]
        ]
        if low:
            found.append(
                f"The move {move!r} is accepted in fewer than {100 * _LOW_ACCEPTANCE:.0f} of 100 "
                f"iterations of chains {low}. Give features one scale (StandardScaler), increase "
                "n_importance, or try another sampler."
            )
    return found


def write_report(path: Path) -> str:
    """Return the report on a checkpoint, as text.

    Raises
    ------
    ValueError
        If the file cannot be used.
    """
    content = read_checkpoint(path)
    shown = content["shown"]
    lines = [f"{path}: {shown['estimator']}, made with {content['versions']}"]
    goal = ConvergenceGoal(shown["max_rhat"], shown["target_ess"])
    every = chains_in(content)
    if not every:
        n = len(content["batches"])
        lines.append(f"There are no draws yet: {n} batches of the set-up are done. Fit again.")
    for m, chains in enumerate(every):
        n_chains, n_draws, _ = chains.samples.shape
        of = f"class {m + 1} of {len(every)}: " if len(every) > 1 else ""
        lines += [
            "",
            f"{of}{n_chains} chains of {n_draws} draws",
            *str(diagnose_stored(chains)).split("\n")[:-1],
        ]
        found = findings(chains, goal)
        lines += [f"* {one}" for one in found] or ["* Nothing is wrong: the chains have converged."]
    return "\n".join(lines)


def save_plots(path: Path, prefix: str) -> list[Path]:
    """Save plots of traces, ranks and autocorrelations as PNG files, and return their paths.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    from .displays._drawing import import_matplotlib
    from .displays.autocorrelation import AutocorrelationDisplay
    from .displays.traces import TraceDisplay

    plt, _ = import_matplotlib()
    saved = []
    every = chains_in(read_checkpoint(path))
    for m, chains in enumerate(every):
        own = f"{prefix}_{m + 1}" if len(every) > 1 else prefix
        figures = {
            "trace": TraceDisplay.from_samples(chains.samples, chains.names).figure_,
            "ranks": _draw_rank_histograms(plt, chains),
            "autocorrelation": AutocorrelationDisplay.from_samples(
                chains.samples, chains.names
            ).figure_,
        }
        for kind, figure in figures.items():
            saved.append(Path(f"{own}_{kind}.png"))
            figure.savefig(saved[-1], bbox_inches="tight")
            plt.close(figure)
    return saved


def _draw_rank_histograms(plt: Any, chains: StoredChains) -> Any:
    """Draw a histogram of the ranks of each chain among all draws: alike where chains agree."""
    from .displays._drawing import make_panels

    n_chains, n_draws, _ = chains.samples.shape
    panels = make_panels(plt, None, len(chains.names))
    for j, (panel, name) in enumerate(zip(panels, chains.names, strict=True)):
        ranks = stats.rankdata(chains.samples[:, :, j]).reshape(n_chains, n_draws)
        edges = np.linspace(0.5, ranks.size + 0.5, _N_RANK_BARS + 1)
        for own in ranks:
            panel.stairs(np.histogram(own, edges)[0], edges)
        panel.axhline(n_draws / _N_RANK_BARS, linestyle="--", linewidth=0.8, color="gray")
        panel.set_ylabel(name)
    panels[-1].set_xlabel("Rank among the draws of all chains")
    return panels[0].figure
