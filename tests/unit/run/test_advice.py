"""What the warning about convergence says: what failed and only that, and how bad it is."""

import re

import numpy as np

from skgpmcmc.numerics.linalg import OperationCount
from skgpmcmc.run import ConvergenceGoal, Diagnostics, draws_wanted, remedy
from skgpmcmc.run.advice import (
    USABLE_ESS,
    USABLE_RHAT,
    USELESS_ESS,
    USELESS_RHAT,
    convergence_message,
)
from skgpmcmc.run.diagnostics import plain_name

from ...helpers import in_one_test

GOAL = ConvergenceGoal(1.01, 400.0)


def diagnostics(r_hat, bulk, tail, classes=None, in_use=None):
    r_hat = np.atleast_1d(np.asarray(r_hat, dtype=float))
    n = len(r_hat)
    return Diagnostics(
        names=["k1__constant_value", "k2__length_scale"][:n],
        classes=classes,
        r_hat=r_hat,
        ess_bulk=np.broadcast_to(np.asarray(bulk, dtype=float), n),
        ess_tail=np.broadcast_to(np.asarray(tail, dtype=float), n),
        mcse_mean=np.full(n, 0.1),
        acceptance_rate={},
        log_likelihood_sd=np.zeros(1),
        emulators=[],
        operations=OperationCount(),
        sampling_operations=OperationCount(),
        n_likelihood_evaluations=0.0,
        n_sampling_evaluations=0.0,
        n_failed=0,
        seconds_warmup=0.0,
        seconds_sampling=0.0,
        in_use=in_use or {},
    )


def message(r_hat, bulk, tail, max_rhat=1.01, target_ess=None, **kwargs):
    goal = ConvergenceGoal(max_rhat, target_ess)
    return convergence_message(diagnostics(r_hat, bulk, tail, **kwargs), goal)


@in_one_test(
    ("numbers", "named"),
    [
        ((1.5, 400, 400), ["R-hat"]),
        ((0.995, 97, 400), ["bulk effective sample size"]),
        ((0.995, 400, 97), ["tail effective sample size"]),
        ((1.02, 97, 400), ["R-hat", "bulk effective sample size"]),
        ((1.02, 20, 30), ["R-hat", "bulk effective sample size", "tail effective sample size"]),
    ],
)
def test_convergence_message_names_only_failed_measures(numbers, named):
    found = re.findall(r"([\w -]+?) [\d.]+ \(wanted", message(*numbers))
    assert [part.strip(" ,:") for part in found] == named


def test_convergence_message_is_none_for_converged_chains():
    assert message(1.01, 100, 100) is None
    assert message([1.0, 1.0], [100, 300], [100, 300]) is None


def test_convergence_message_names_the_worst_row_of_each_measure():
    text = message([1.3, 1.0], [150, 60], [200, 200])
    assert "R-hat 1.300 (wanted: at most 1.01) of 'k1__constant_value'" in text
    assert "bulk effective sample size 60 (wanted: at least 100) of 'k2__length_scale'" in text
    assert "for ['k1__constant_value', 'k2__length_scale']" in text
    assert "['k2__length_scale']" in message([1.0, 1.0], [150, 60], [200, 200])
    assert "of 'k1__constant_value (class spam)'" in message(1.3, 150, 200, classes=["spam"])


@in_one_test(
    ("numbers", "bounds", "shown"),
    [
        ((1.0, 99.97, 400), {}, "99.97 (wanted: at least 100)"),
        ((1.0, 99.4, 400), {}, "99 (wanted: at least 100)"),
        ((1.01003, 400, 400), {}, "1.01003 (wanted: at most 1.01)"),
        ((1.0112, 400, 400), {}, "1.011 (wanted: at most 1.01)"),
        ((np.inf, 0, 0), {}, "R-hat inf (wanted: at most 1.01)"),
        # 251 would be above the bound, and 250.6 is the bound.
        ((1.0, 250.57, 400), {"target_ess": 250.6}, "size 250.57 (wanted: at least 250.6)"),
        ((1.0, 57, 400), {"target_ess": 1e6}, "57 (wanted: at least 1000000)"),
    ],
)
def test_convergence_message_shows_enough_digits_to_differ_from_the_bound(numbers, bounds, shown):
    assert shown in message(*numbers, **bounds)


SLIGHT = (
    "Chains are slightly short of the target",
    "usable: posterior means are known to about 0.05 posterior standard deviations",
)
POOR = ("Chains have not converged for", "Predictions may be unreliable.")
USELESS = ("Chains are far from convergence", "Do not use these draws.")


@in_one_test(
    ("numbers", "words"),
    [
        ((1.012, 400, 400), SLIGHT),
        ((USABLE_RHAT, 400, 400), SLIGHT),
        ((USABLE_RHAT + 1e-6, 400, 400), POOR),
        ((USELESS_RHAT, 400, 400), POOR),
        ((USELESS_RHAT + 1e-6, 400, 400), USELESS),
        ((1.0, 400, USABLE_ESS), SLIGHT),
        ((1.0, USABLE_ESS, 400), SLIGHT[:1]),
        ((1.0, 400, USABLE_ESS - 1), POOR),
        ((1.0, USABLE_ESS - 1, 400), POOR),
        ((1.0, 400, USELESS_ESS), POOR),
        ((1.0, USELESS_ESS, 400), POOR),
        ((1.0, 400, USELESS_ESS - 1), USELESS),
        ((1.0, USELESS_ESS - 1, 400), USELESS),
    ],
)
def test_words_of_the_convergence_message_follow_the_worst_number(numbers, words):
    text = message(*numbers)
    assert text.startswith(words[0])
    assert all(part in text for part in words)


@in_one_test(
    ("numbers", "n_draws", "wanted"),
    [
        ((1.0, 200, 300), 1000, 2300),  # half of the 400 that are wanted, and a tenth more
        ((1.0, 300, 100), 1000, 4500),
        ((1.0, 399, 400), 120, 140),  # more than there are
        ((1.03, 400, 400), 1000, 3400),  # R-hat - 1 falls as one over the number
        ((1.03, 100, 400), 1000, 4500),
        ((1.0, 380, 400), 7, 9),
        ((1.5, 400, 400), 1000, None),  # chains that disagree say nothing of their rate
        ((1.0, 5, 400), 1000, None),
        ((np.inf, 0, 0), 1000, None),
    ],
)
def test_draws_wanted_follow_from_the_rate_so_far(numbers, n_draws, wanted):
    assert draws_wanted(diagnostics(*numbers), n_draws, GOAL) == wanted


def test_advised_number_of_draws_is_enough():
    """Chains of that length have converged, if they go on at the same rate."""
    n = draws_wanted(diagnostics(1.03, 120, 150), 700, GOAL)
    later = diagnostics(1.0 + 0.03 * 700 / n, 120 * n / 700, 150 * n / 700)
    assert convergence_message(later, GOAL) is None
    unreachable = ConvergenceGoal(1.0, 400.0)
    assert draws_wanted(diagnostics(1.03, 120, 150), 700, unreachable) is None


def test_remedy_fits_the_failed_measure():
    def advice(*numbers, **kwargs):
        return remedy(diagnostics(*numbers), 1000, GOAL, **kwargs)

    assert "set n_draws=2300 (warm_start=True" in advice(1.0, 200, 300)
    assert "sampler=" not in advice(1.0, 200, 300)
    assert "sampler='pm'" in advice(1.0, 200, 300, faster="pm")
    # Chains at R-hat 3 need no more of the same.
    assert advice(3.0, 5, 12, faster="pm") == (
        "To do better, use sampler='pm', which needs far fewer draws. See diagnostics_."
    )
    alone = advice(3.0, 5, 12)
    assert "increase n_draws" in alone
    assert "TraceDisplay" in alone
    assert "n_draws=" not in alone


def test_remedy_names_the_noise_of_estimates():
    noisy = diagnostics(1.0, 200, 300)
    vars(noisy).update(log_likelihood_sd=np.array([0.3, 2.5, np.nan]))
    said = remedy(noisy, 1000, GOAL)
    assert "Increase n_importance: the log-likelihood noise is 2.5" in said
    assert "n_importance" not in remedy(diagnostics(1.0, 200, 300), 1000, GOAL)


def test_diagnostics_table_ends_with_the_settings_in_use():
    used = {"sampler": "pm", "approximation": "ep", "n_importance": "auto"}
    lines = str(diagnostics(1.0, 400, 400, in_use=used)).splitlines()
    assert lines[-1] == "in use: sampler pm, approximation ep, n_importance auto"


def test_diagnostics_table_explains_names_of_kernels_in_words():
    head, variance, length_scale, *_ = str(diagnostics([1.0, 1.0], 400, 400)).splitlines()
    assert head.startswith("hyper-parameter ")
    assert variance.split()[:3] == ["k1__constant_value", "variance", "1.000"]
    assert length_scale.split()[:3] == ["k2__length_scale", "length-scale", "1.000"]
    assert len({line.index("1.000") for line in (variance, length_scale)}) == 1


@in_one_test(
    ("name", "words"),
    [
        ("length_scale", "length-scale"),
        ("k1__k2__length_scale[3]", "length-scale"),
        ("k2__noise_level", "noise variance"),
        ("shape", ""),
    ],
)
def test_plain_names_of_hyperparameters_are_words(name, words):
    assert plain_name(name) == words
