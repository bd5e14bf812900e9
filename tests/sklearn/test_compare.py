"""The command line: the user's own data, two and more classes, and its error messages."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import brier_score_loss, log_loss

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.__main__ import main
from skgpmcmc.baselines import svm
from skgpmcmc.compare import (
    SCORES,
    DataSet,
    Outcome,
    bundled_data,
    conclusion,
    csv_data,
    score,
    score_table,
    split_data,
)

FAST = ["--n-warmup", "10", "--n-draws", "10", "--n-jobs", "1"]
METHODS = {"Bayesian GP (PM)", "MCMC EP", "EP ML", "SVM + Platt", "sklearn GPC"}


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
    """Two support vector machines in place of a hundred."""
    monkeypatch.setattr(svm, "_C_GRID", (1.0,))
    monkeypatch.setattr(svm, "_GAMMA_GRID", (0.1, 1.0))


def run(arguments, capsys):
    status = main(["compare", *arguments])
    return status, capsys.readouterr()


def test_own_file_with_two_classes(tmp_path, capsys, iris_rows, small_grid):
    X, y = iris_rows
    path = write_csv(tmp_path / "flowers.csv", X[50::5], y[50::5])
    prefix = str(tmp_path / "out")
    arguments = ["--data", str(path), "--target", "kind", "--output", prefix, *FAST]
    status, printed = run(arguments, capsys)
    assert status == 0
    assert "flowers: 14 training and 6 test rows" in printed.out
    assert "R-hat" in printed.out
    assert (tmp_path / "out.png").stat().st_size > 10_000
    runs = json.loads((tmp_path / "out.json").read_text("utf-8"))["runs"]
    assert {run["method"] for run in runs} == METHODS
    for name in ("capacity_accuracy", "selective_accuracy"):
        assert all(0 <= run["scores"][name] <= 1 for run in runs)
    assert not any(run["failure"] for run in runs)
    # Ten draws do not converge, and the user is told.
    assert "NOT CONVERGED" in printed.out
    assert "note (Bayesian GP (PM), split 1): Chains " in printed.out


def test_own_file_with_three_classes(tmp_path, capsys, monkeypatch, iris_rows, small_grid):
    # The default sampler is shown with two classes; with three it takes three times as long.
    monkeypatch.setattr(
        "skgpmcmc.compare.methods.BayesianGPClassifier",
        lambda **settings: BayesianGPClassifier(**{"sampler": "marginal", **settings}),
    )
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "nothing"], "'nothing' is not a column"),
        (["--target", "x0", "--train-size", "5"], "'a' is not a finite number"),
        (["--target", "kind", "--train-size", "4"], "--train-size must lie between"),
    ],
)
def test_bad_files_and_arguments(tmp_path, capsys, arguments, message):
    path = write_csv(tmp_path / "tiny.csv", np.arange(8.0).reshape(4, 2), ["a", "b", "a", "b"])
    status, printed = run(["--data", str(path), *arguments], capsys)
    assert status == 2
    assert message in printed.err


def test_missing_file_and_missing_target(tmp_path, capsys):
    status, printed = run(["--data", str(tmp_path / "no.csv"), "--target", "y"], capsys)
    assert status == 2
    assert "no.csv" in printed.err
    with pytest.raises(SystemExit):
        main(["compare", "--data", "x.csv"])
    assert "--data and --target go together" in capsys.readouterr().err


def test_ragged_and_empty_files(tmp_path):
    ragged = tmp_path / "ragged.csv"
    ragged.write_text("a,b,y\n1,2,0\n1,1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 3 has 2 cells"):
        csv_data(ragged, "y")
    empty = tmp_path / "empty.csv"
    empty.write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="no header row"):
        csv_data(empty, "y")


def test_bundled_splits_are_balanced_and_standardized():
    for data in bundled_data():
        split = split_data(data, random_state=0)
        assert np.unique(split.y_train, return_counts=True)[1].tolist() == [50, 50]
        assert len(split.y_test) == len(data.y) - 100
        varying = split.X_train.std(axis=0) > 0
        np.testing.assert_allclose(split.X_train.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(split.X_train.std(axis=0)[varying], 1.0)


def test_same_seed_same_split():
    data = DataSet("toy", np.arange(40.0).reshape(20, 2), np.arange(20) % 2, 10, True)
    first, again = split_data(data, 3), split_data(data, 3)
    np.testing.assert_array_equal(first.X_train, again.X_train)
    assert not np.array_equal(first.X_train, split_data(data, 4).X_train)


def test_scores_are_scikit_learns():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 30)
    y = np.where(rng.uniform(size=30) < p, "yes", "no")
    values = score(y, np.column_stack([1 - p, p]), np.array(["no", "yes"]))
    assert values["brier"] == pytest.approx(brier_score_loss(y, p, pos_label="yes"))
    assert values["log_loss"] == pytest.approx(log_loss(y, p, labels=["no", "yes"]))


def test_table_shows_mean_and_standard_error():
    names = [name for name in SCORES if name != "selective_accuracy"]  # as in an older file
    outcomes = [
        Outcome("m", r, {**dict.fromkeys(names, value), "auc": np.nan}, np.empty(0))
        for r, value in enumerate((0.5, 0.7))
    ]
    header, row = score_table(outcomes).splitlines()
    small = ("log_loss", "brier", "seconds")
    heads = [f"{name.replace('_', ' ')} {'↓' if name in small else '↑'}" for name in SCORES]
    assert header.split() == " ".join(heads).split()
    assert row.split() == [
        "m",
        *3 * ["0.600", "±", "0.100"],
        "-",
        "-",
        *3 * ["0.600", "±", "0.100"],
    ]


def outcomes_of(losses_by_method):
    return [
        Outcome(method, split, {**dict.fromkeys(SCORES, 0.5), "log_loss": loss}, np.empty(0))
        for method, losses in losses_by_method.items()
        for split, loss in enumerate(losses)
    ]


def test_table_marks_the_best_of_several():
    _, good, bad = score_table(outcomes_of({"good": [0.1, 0.2], "bad": [0.3, 0.4]})).splitlines()
    assert "0.150 ± 0.050*" in good
    assert "0.350 ± 0.050*" not in bad
    assert bad.count("*") == len(SCORES) - 1  # equal ones are all marked


@pytest.mark.parametrize(
    ("losses", "sentence"),
    [
        ({"a": [0.1], "b": [0.2]}, "on one split"),
        ({"a": [0.1, 0.2], "b": [0.3, 0.41]}, "all others are worse"),
        ({"a": [0.1, 0.2], "b": [0.3, 0.05]}, "within two standard errors of it: b."),
    ],
)
def test_conclusion(losses, sentence):
    found = conclusion(outcomes_of(losses))
    assert found.startswith("The lowest log loss has a (")
    assert sentence in found
