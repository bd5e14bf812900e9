"""Tables of the study of classifiers: what is incomplete, and which fits have not converged."""

import pytest


@pytest.fixture
def shown(extension):
    """Text of a part of the tables of some results."""
    classifiers = extension("study_tables").classifiers
    return lambda part, *rows: "\n".join(classifiers([{"results": list(rows)}], part))


def row(n, method, repeats, **more):
    scores = {"log_loss": 0.5, "log_loss_difference": 0.0, "log_loss_interval": 0.1}
    return {"data": "a", "n": n, "method": method, "repeats": repeats, **scores, **more}


def test_list_of_incomplete_runs_names_method_data_and_count(shown):
    rows = row(20, "RBF", 40), row(50, "RBF", 40), row(20, "ARD", 40), row(50, "ARD", 31)
    assert shown("incomplete", *rows).strip() == "* ARD: a, 50 rows (31 of 40)."
    assert shown("incomplete", *rows[:3]).strip() == "* ARD: a, 50 rows (0 of 40)."
    assert shown("incomplete", *rows[:2], row(20, "SVM", 40), row(50, "SVM", 40)).strip() == "None."


def test_table_never_marks_a_method_with_missing_training_sets_as_best(shown):
    rows = (
        row(20, "RBF", 40),
        row(20, "EP ML", 40, log_loss=0.4),
        row(20, "ARD", 3, log_loss=0.1),
    )
    assert shown("log_loss", *rows).count("**") == 2
    assert "**0.400**" in shown("log_loss", *rows)


def test_convergence_table_shows_the_worst_r_hat_and_ess(shown):
    good = row(20, "RBF", 40, r_hat=1.005, ess=400.0, poor=0)
    bad = row(50, "RBF", 30, r_hat=1.2, ess=12.0, poor=2)
    text = shown("convergence", good, bad, row(20, "SVM", 40))
    words = ("70", "1.200 (a, 50 rows)", "- 12", "SVM")
    assert [text.count(word) for word in words] == [1, 1, 1, 0]


def test_a_score_has_a_table_of_its_main_methods_and_one_of_the_others(shown):
    rows = row(20, "RBF", 40), row(20, "SVM", 40), row(20, "boosting", 40, log_loss=0.4)
    main, others = shown("log_loss", *rows), shown("log_loss_others", *rows)
    assert [main.count(word) for word in ("RBF", "SVM", "boosting")] == [1, 1, 0]
    assert [others.count(word) for word in ("RBF", "SVM", "boosting")] == [1, 0, 1]
