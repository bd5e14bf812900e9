"""What the check says of chains whose illness is known, and of files."""

import warnings
from collections import Counter

import numpy as np
import pytest
from sklearn.datasets import make_moons

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.__main__ import main
from skgpmcmc.chain.counts import ChainCounts
from skgpmcmc.check_chains import StoredChains, findings
from skgpmcmc.run import ConvergenceGoal
from skgpmcmc.samplers import PseudoMarginal

N_DRAWS = 500
NAMES = ["log k1__constant_value", "log k2__length_scale"]


def healthy():
    return np.random.default_rng(0).standard_normal((4, N_DRAWS, 2))


def counts(accepted=400, move="surrogate"):
    return ChainCounts(n_steps=Counter({move: N_DRAWS}), n_accepted=Counter({move: accepted}))


def said(samples, sampler="pm", **rates):
    chains = StoredChains(samples, NAMES, [counts(**rates)] * len(samples), 20, sampler)
    return " | ".join(findings(chains, ConvergenceGoal(1.01, 400.0)))


def test_check_of_converged_chains_is_silent():
    assert said(healthy()) == ""
    assert said(healthy(), accepted=1) == ""  # whatever their moves do


def stuck(samples):
    samples[2, 100:300] = samples[2, 100]


def elsewhere(samples):
    samples[1, :, 1] += 4.0


def drifting(samples):
    samples[:, :, 0] += np.linspace(0.0, 4.0, N_DRAWS)


WORDS = {
    stuck: "Chain 3 sticks: it does not move for 200 of 500 draws. The estimate of the likelihood",
    elsewhere: "Chain 2 is elsewhere in log k2__length_scale: its mean is ",
    drifting: "log k1__constant_value drifts: its mean is ",
}


@pytest.mark.parametrize("illness", WORDS)
def test_check_names_the_defect_with_the_chain_or_hyperparameter(illness):
    samples = healthy()
    illness(samples)
    text = said(samples)
    assert WORDS[illness] in text
    others = [words.split(":")[0] for other, words in WORDS.items() if other is not illness]
    assert not any(words in text for words in others)
    assert "No single chain stands out" not in text


def test_check_suggests_remedies_for_the_sampler_and_its_moves():
    samples = healthy()
    stuck(samples)
    refused = "The move 'walk' is accepted in fewer than 5 of 100"
    assert refused in said(samples, accepted=3, move="walk")
    assert "increase n_importance" in said(samples)
    assert 'Try sampler="pm"' in said(samples, sampler="sa")


def test_check_of_short_chains_says_no_chain_stands_out():
    assert "No single chain stands out" in said(healthy()[:, :40])


def fitted(path, **changes):
    settings = {"n_chains": 2, "n_draws": 20, "n_warmup": 5, "random_state": 0, "checkpoint": path}
    settings |= {"sampler": PseudoMarginal(moves="random_walk"), "approximation": "laplace"}
    model = BayesianGPClassifier(**{**settings, **changes})
    X, y = make_moons(20, noise=0.2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


@pytest.mark.parametrize("fixed", [False, True])
def test_check_chains_command_prints_and_plots(fixed, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    from sklearn.gaussian_process.kernels import RBF

    path = tmp_path / "run"
    model = fitted(path, kernel=RBF(1.0, "fixed") if fixed else None)
    plots = path if fixed else tmp_path / "plot"
    assert main(["check-chains", str(path), *([] if fixed else ["--output", str(plots)])]) == 0
    text = capsys.readouterr().out
    assert "BayesianGPClassifier, made with Python" in text
    assert f"2 chains of {model.theta_samples_.shape[1]} draws" in text
    assert ("f[0]" if fixed else "log k1__k2__length_scale") in text
    assert "\n* " in text
    for r_hat in model.diagnostics_.r_hat:  # the table is that of the fit
        assert f"{r_hat:6.3f}" in text
    for kind in ("trace", "ranks", "autocorrelation"):
        assert f"saved {plots}_{kind}.png" in text
        assert (tmp_path / f"{plots.name}_{kind}.png").read_bytes().startswith(b"\x89PNG")


def test_check_chains_command_says_if_a_file_has_no_draws(tmp_path, capsys):
    from .test_checkpoint import CutError, cut_at

    with cut_at(3), pytest.raises(CutError):
        fitted(tmp_path / "run")
    assert main(["check-chains", str(tmp_path / "run")]) == 0
    assert "no draws yet: 3 batches of the set-up are done" in capsys.readouterr().out


def test_check_chains_command_refuses_other_files(tmp_path, capsys):
    (tmp_path / "other").write_text("something else")
    for name in ("other", "not there"):
        assert main(["check-chains", str(tmp_path / name)]) == 2
        assert "cannot be used" in capsys.readouterr().err


def test_earlier_command_name_works_with_a_warning(tmp_path, capsys):
    assert main(["doctor", str(tmp_path / "not there")]) == 2
    warning, problem = capsys.readouterr().err.splitlines()
    assert warning.startswith("FutureWarning: the command 'doctor' is called 'check-chains' now")
    assert problem.startswith("skgpmcmc check-chains: ")
