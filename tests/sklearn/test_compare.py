"""The command line: the user's own data, two and more classes, and its error messages."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.__main__ import main
from skgpmcmc.baselines import svm
from skgpmcmc.compare.data import DataSet, bundled_data, split_data
from skgpmcmc.compare.methods import (
    PLAIN_NAMES,
    SCORES,
    SVM_GRIDS,
    Comparison,
    MethodOutcome,
    Settings,
    make_methods,
    score,
)
from skgpmcmc.compare.picture import reliability, save_plot
from skgpmcmc.compare.table import conclusion, loss_differences, score_table

from ..helpers import REPOSITORY

FAST = ["--n-warmup", "10", "--n-draws", "10", "--n-jobs", "1"]
METHODS = set(PLAIN_NAMES.values())


def write_csv(path, X, y, header=None):
    header = header or [f"x{j}" for j in range(X.shape[1])] + ["kind"]
    rows = [
        ",".join([*(repr(float(v)) for v in row), str(label)])
        for row, label in zip(X, y, strict=True)
    ]
    path.write_text("\n".join([",".join(header), *rows]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def iris_rows():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture
def small_grid(monkeypatch):
    """Two support vector machines in place of twenty."""
    monkeypatch.setitem(SVM_GRIDS, "small", {"C": (1.0,), "gamma": (0.1, 1.0)})


def run(arguments, capsys):
    status = main(["compare", *arguments])
    return status, capsys.readouterr()


def with_settings(monkeypatch, **changes):
    """The Bayesian classifiers that are compared have these settings."""
    monkeypatch.setattr(
        "skgpmcmc.compare.methods.BayesianGPClassifier",
        lambda **settings: BayesianGPClassifier(**{**settings, **changes}),
    )


def test_compare_runs_on_a_file_with_two_classes(
    tmp_path, capsys, monkeypatch, iris_rows, small_grid
):
    with_settings(monkeypatch, n_chains=2)
    X, y = iris_rows
    path = write_csv(tmp_path / "flowers.csv", X[50::5, 2:], y[50::5])
    prefix = str(tmp_path / "out")
    arguments = ["--data", str(path), "--target", "kind", "--output", prefix, *FAST]
    status, printed = run(arguments, capsys)
    assert status == 0
    assert "flowers: 14 training and 6 test rows" in printed.out
    assert "R-hat" in printed.out
    assert "large is good" in printed.out
    assert "Log loss minus that of Bayesian GP (this package), paired over 6 test" in printed.out
    assert "One split is too few to say which method is best" in printed.out
    assert "--svm-grid full tries 110" in printed.out
    assert "k1__constant_value  variance" in printed.out
    assert (tmp_path / "out.png").stat().st_size > 10_000
    runs = json.loads((tmp_path / "out.json").read_text("utf-8"))["runs"]
    assert {run["method"] for run in runs} == METHODS
    for name in ("capacity_accuracy", "selective_accuracy"):
        assert all(0 <= run["scores"][name] <= 1 for run in runs)
    assert not any(run["failure"] for run in runs)
    # Ten draws do not converge, and the user is told.
    assert "NOT CONVERGED" in printed.out
    assert "note (Bayesian GP (this package), split 1): Chains " in printed.out


def test_compare_runs_on_a_file_with_three_classes(
    tmp_path, capsys, monkeypatch, iris_rows, small_grid
):
    # The default samplers are shown with two classes; with three they take three times as long.
    with_settings(monkeypatch, n_chains=2, sampler="asis")
    X, y = iris_rows
    path = write_csv(tmp_path / "iris.csv", X[::5], y[::5])
    prefix = str(tmp_path / "out")
    arguments = ["--data", str(path), "--target", "kind", "--output", prefix, "--train-size", "15"]
    status, printed = run([*arguments, *FAST], capsys)
    assert status == 0
    assert "(class setosa)" in printed.out
    assert "no plot: abstention curves are for two classes, and 'iris' has 3" in printed.out
    runs = json.loads((tmp_path / "out.json").read_text("utf-8"))["runs"]
    assert {run["method"] for run in runs} == METHODS
    # Capacity scores and selective accuracy are for two classes.
    assert all(run["scores"]["selective_accuracy"] is None for run in runs)
    assert all(run["scores"]["capacity_auc"] is None for run in runs)
    assert all(run["scores"]["accuracy"] > 0.7 for run in runs)


def test_bundled_splits_are_balanced_and_standardized():
    for data in bundled_data():
        split = split_data(data, random_state=0)
        assert np.unique(split.y_train, return_counts=True)[1].tolist() == [50, 50]
        assert len(split.y_test) == len(data.y) - 100
        varying = split.X_train.std(axis=0) > 0
        np.testing.assert_allclose(split.X_train.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(split.X_train.std(axis=0)[varying], 1.0)


def test_splits_are_reproduced_by_their_seed():
    data = DataSet("toy", np.arange(40.0).reshape(20, 2), np.arange(20) % 2, 10, True)
    first, again = split_data(data, 3), split_data(data, 3)
    np.testing.assert_array_equal(first.X_train, again.X_train)
    assert not np.array_equal(first.X_train, split_data(data, 4).X_train)


def test_scores_agree_with_scikit_learn():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 30)
    y = np.where(rng.uniform(size=30) < p, "yes", "no")
    values = score(y, np.column_stack([1 - p, p]), np.array(["no", "yes"]))
    assert values["brier"] == pytest.approx(brier_score_loss(y, p, pos_label="yes"))
    assert values["log_loss"] == pytest.approx(log_loss(y, p, labels=["no", "yes"]))


def test_table_shows_mean_and_standard_error():
    names = [name for name in SCORES if name != "selective_accuracy"]  # as in an older file
    outcomes = [
        MethodOutcome("m", r, {**dict.fromkeys(names, value), "auc": np.nan}, np.empty(0))
        for r, value in enumerate((0.5, 0.7))
    ]
    header, row = score_table(outcomes).splitlines()
    arrows = ["↓" if name in ("log_loss", "brier", "seconds") else "↑" for name in SCORES]
    heads = [f"{name} {arrow}" for name, arrow in zip(SCORES, arrows, strict=True)]
    assert header.split() == " ".join(heads).replace("_", " ").split()
    assert row.split() == [
        "m",
        *3 * ["0.600", "±", "0.100"],
        "-",
        "-",
        *3 * ["0.600", "±", "0.100"],
    ]


def test_table_marks_the_best_by_the_digits_that_it_shows():
    scores = {
        "a": {"accuracy": 0.9, "log_loss": 0.3, "auc": 0.8},
        "b": {"accuracy": 0.9001, "log_loss": 0.2, "auc": 0.8},
        "c": {"accuracy": 0.8, "log_loss": 0.4, "auc": 0.8},
        "d": {"accuracy": 0.95, "log_loss": 0.1, "auc": 0.8},
    }
    outcomes = [
        MethodOutcome(name, r, s, np.empty(0)) for name, s in scores.items() for r in range(5)
    ]
    # It fails where the others do not, and its mean over the other splits is not compared.
    outcomes[-1] = MethodOutcome("d", 4, {}, None, failure="it did not fit")
    _, *rows = score_table(outcomes).splitlines()
    marked = [[cell for cell in row.split() if cell.endswith("*")] for row in rows]
    assert marked == [["0.000*"], ["0.000*", "0.000*"], [], []]  # all areas are alike
    assert rows[0].split()[1:4] == ["0.900", "±", "0.000*"]
    assert rows[1].split()[4:7] == ["0.200", "±", "0.000*"]
    assert rows[3].startswith("d (4 of 5 splits)")
    few = [outcome for outcome in outcomes if outcome.split < 4]
    assert "*" not in score_table(few)  # four splits rank no methods


def outcomes_with(losses):
    """Outcomes with these log losses, (n_splits,) for each method."""
    return [
        MethodOutcome(name, r, {"log_loss": loss}, np.empty(0))
        for name, values in losses.items()
        for r, loss in enumerate(values)
    ]


def test_conclusion_compares_log_losses_split_by_split():
    easy_and_hard = np.array([0.1, 0.5, 0.9])
    steps = np.array([0.01, 0.02, 0.03])
    losses = {"best": easy_and_hard, "behind": easy_and_hard + steps}
    few = outcomes_with(losses)
    assert loss_differences(few) == (
        "Log loss minus that of best, paired over 3 splits:\n  behind  +0.020 ± 0.006"
    )
    assert conclusion(few).startswith("3 splits are too few to say which method is best")
    sentence = "By log loss best is best, and no other method is within one standard error of it"
    many = {name: np.tile(values, 2) for name, values in losses.items()}
    assert conclusion(outcomes_with(many)) == f"{sentence} (paired over 6 splits)."
    many |= {"near": many["best"] + np.tile(steps * [1, -1, 1], 2), "even": many["best"] + 0.0}
    assert "near and even are within one" in conclusion(outcomes_with(many))


def test_error_of_a_single_split_comes_from_its_rows():
    y = np.tile(["no", "yes"], 50)
    right = np.tile([[0.9, 0.1], [0.1, 0.9]], (50, 1))
    unsure = np.full((100, 2), 0.5)
    unsure[0] = [0.9, 0.1]
    proba = {"sure": right, "unsure": unsure}
    outcomes = [MethodOutcome(name, 0, {}, p, y_test=y) for name, p in proba.items()]
    head, line = loss_differences(outcomes).splitlines()
    assert head == "Log loss minus that of sure, paired over 100 test rows of one split:"
    # Ninety-nine rows have a difference of log 1.8, and one has none.
    assert line == f"  unsure  {0.99 * np.log(1.8):+.3f} ± {np.log(1.8) / 100:.3f}"
    assert conclusion(outcomes).startswith("One split is too few")


def test_conclusion_leaves_out_what_failed_and_says_nothing_of_one_method():
    splits = np.arange(5) / 10
    outcomes = outcomes_with({"best": splits, "other": splits + 0.2, "failed": splits[:4]})
    outcomes.append(MethodOutcome("failed", 4, {}, None, failure="it did not fit"))
    assert conclusion(outcomes).startswith("By log loss best is best, and no other")
    for nothing in ([], [o for o in outcomes if o.method != "other"]):
        assert conclusion(nothing) == loss_differences(nothing) == ""


def predicted(p, y, rows, split=0, name="m"):
    proba = np.column_stack([1 - p, p])
    return MethodOutcome(name, split, {}, proba, y_test=y, test_rows=rows)


def test_reliability_is_the_frequency_in_each_bin_and_its_binomial_error():
    p = np.repeat([0.1, 0.5, 0.9], [10, 16, 9])
    y = np.r_[np.zeros(9), 1, np.tile([0, 1, 1, 1], 4), np.ones(9)]
    at, frequency, error = reliability([predicted(p, y, np.arange(35))])
    np.testing.assert_allclose(at, [0.1, 0.5])  # nine rows are too few
    np.testing.assert_allclose(frequency, [0.1, 0.75])
    np.testing.assert_allclose(error, [np.sqrt(0.09 / 10), np.sqrt(0.1875 / 16)])


def test_reliability_counts_a_row_of_several_splits_once():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    splits = [predicted(rng.uniform(0.41, 0.59, 40), y, np.arange(40), r) for r in range(5)]
    once, again = reliability(splits[:1]), reliability(splits)
    np.testing.assert_allclose(again[2], once[2])
    others = [predicted(o.proba[:, 1], y, 40 * r + np.arange(40), r) for r, o in enumerate(splits)]
    np.testing.assert_allclose(reliability(others)[2], once[2] / np.sqrt(5))


def test_picture_has_a_band_over_splits_and_axes_wider_than_a_row(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    data = DataSet("toy", rng.normal(size=(60, 2)), np.arange(60) % 2, 20, True)
    results = Comparison(data, split_data(data, 0))
    for r in range(3):
        split = split_data(data, r)
        p = np.clip(split.y_test + rng.normal(0, 0.02, len(split.y_test)), 0.0, 1.0)
        results.outcomes += [predicted(p, split.y_test, split.test_rows, r)]
    drawn = []
    monkeypatch.setattr(
        "matplotlib.figure.Figure.savefig", lambda figure, *_, **__: drawn.append(figure)
    )
    save_plot(tmp_path / "out.png", [results])
    curves, frequencies = drawn[0].axes
    assert len(curves.collections) == 1
    assert "3 splits" in curves.get_title(loc="left")
    low, _ = curves.get_ylim()
    assert low == pytest.approx(0.5)  # twenty of the forty test rows, though all are right
    assert frequencies.get_xlabel() == "Predicted probability of class 1"
    results.outcomes = results.outcomes[:1]
    save_plot(tmp_path / "out.png", [results])
    assert not drawn[1].axes[0].collections


@pytest.mark.parametrize(
    ("given", "n_splits", "names"),
    [
        ([], 3, ["breast cancer"]),
        (["--repeats", "10", "--datasets", "digits", "breast-cancer"], 10, ["digits 3 vs 5"]),
    ],
)
def test_compare_chooses_bundled_data_and_number_of_splits(
    monkeypatch, tmp_path, given, n_splits, names
):
    made = []

    def run(data_sets, settings, repeats, random_state):
        made.append((repeats, [data.name for data in data_sets][: len(names)]))
        return [], False

    monkeypatch.setattr("skgpmcmc.__main__._compare_all", run)
    main(["compare", *given, "--output", str(tmp_path / "out")])
    assert made == [(n_splits, names)]


def test_full_grid_equals_that_of_the_svm_baseline():
    for grid, n_pairs in {"small": 20, "full": 110}.items():
        settings = Settings(svm_grid=grid)
        machine = make_methods(settings, 2, 2, 0)[PLAIN_NAMES["SVM + Platt"]]()
        tried = [svm._C_GRID if machine.C is None else machine.C]
        tried.append(svm._GAMMA_GRID if machine.gamma is None else machine.gamma)
        assert len(tried[0]) * len(tried[1]) == n_pairs


def test_methods_have_the_translated_names_of_committed_results():
    path = REPOSITORY / "benchmarks" / "results" / "compare_r10.json"
    runs = json.loads(path.read_text("utf-8"))["runs"]
    assert {run["method"] for run in runs} == set(PLAIN_NAMES)
    assert list(make_methods(Settings(), 2, 2, 0)) == list(PLAIN_NAMES.values())


def test_compare_handles_text_missing_values_and_rare_classes_by_options(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(
        "skgpmcmc.compare.methods.make_methods", lambda *_: {"only": LogisticRegression}
    )
    rows = [f"{k % 7},{'red' if k % 2 else 'blue'},{'ab'[k % 3 > 0]}" for k in range(30)]
    rows += ["NA,red,a", "1,,b", "1,red,", "1,red,c", "2,red,c"]
    path = tmp_path / "own.csv"
    path.write_text("\n".join(["x,color,kind", *rows]))
    prefix = str(tmp_path / "out")
    arguments = ["--data", str(path), "--target", "kind", "--output", prefix]
    status, printed = run(arguments, capsys)
    assert status == 2
    options = ["--encode", "--drop-missing", "--drop-rare"]
    assert f"These options mend all of them: {' '.join(options)}" in printed.err
    status, printed = run([*arguments, *options], capsys)
    assert status == 0
    notes = [
        "3 rows with missing values are left out",
        "column 'color' is encoded as 1 column of zeros and ones",
        "rows of rare classes are left out: 'c' (2 rows)",
    ]
    assert "\n".join(f"{note}." for note in notes) in printed.out
    assert "== own: 21 training and 9 test rows, 2 features, 1 random split ==" in printed.out
    document = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert document["data_notes"] == {"own": notes}


def test_call_without_a_command_shows_help(capsys):
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert all(command in printed for command in ("usage:", "compare", "check-chains"))
