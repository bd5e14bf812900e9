"""Scores of classifiers that may abstain: accuracy on the rows with confident predictions.

A classifier that may abstain rejects the rows whose predictive probability is nearest to one half.
The abstention curve shows a score of the kept rows against the rejected fraction. Two summaries:

* The capacity scores of the papers: the area under this curve divided by its width. The width
  depends on how far the probabilities are from one half, so that these scores favor underconfident
  probabilities. Compare classifiers by them only if their probabilities have a similar spread.
* The selective accuracy: the area under the curve of accuracy against the kept fraction. It depends
  only on the order of the confidences.

References
----------
Filippone & Girolami (2014), Pseudo-marginal Bayesian inference for Gaussian processes, IEEE
Transactions on Pattern Analysis and Machine Intelligence 36(11), section 5.3.
"""

from functools import partial

import numpy as np
from sklearn.metrics import make_scorer

__all__ = [
    "abstention_curve",
    "capacity_accuracy_score",
    "capacity_accuracy_scorer",
    "capacity_auc_score",
    "capacity_auc_scorer",
    "selective_accuracy_score",
    "selective_accuracy_scorer",
]

#: Thresholds rho of the abstention curve. They are k / 100, and not a running sum of 0.01, so that
#: each is the double nearest to its decimal value.
_CAPACITY_THRESHOLDS = np.arange(51) / 100
#: Decimals of p - 0.5 in comparisons with the thresholds. Without rounding, the double 0.6 - 0.5 is
#: not equal to the double 0.1.
_DECIMALS = 12
#: Accepted excess of a probability over 1: averages of many probabilities have rounding errors.
_PROBABILITY_SLACK = 1e-9
#: Distance from 1 that is accepted for the sum of the probabilities of a row.
_ROW_SUM_SLACK = 1e-3
#: Difference of confidences max(p, 1 - p) that counts as a tie, such as that of p and 1 - p.
_CONFIDENCE_SLACK = 2 * np.finfo(float).eps


def abstention_curve(y_true, y_proba, *, score="accuracy", pos_label=None):
    r"""Score of the kept rows against the fraction of rejected rows.

    For each threshold rho = 0, 0.01, ..., 0.5 the rows with 0.5 - rho < p < 0.5 + rho (both strict)
    are rejected, where p is the predictive probability of the positive class, and the others are
    scored.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels, of at most two classes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predictive probabilities: of the positive class, or of both classes in sorted order, as
        returned by `predict_proba`.
    score : {"accuracy", "auc"}, default="accuracy"
        What to compute on the kept rows. A row is predicted positive when p > 0.5. Ties count one
        half in the area under the ROC curve.
    pos_label : label, default=None
        The positive class. None is the greater label; when `y_true` holds one class only, None is 1
        for the labels -1, 0 and 1, and an error for any other.

    Returns
    -------
    abstention : ndarray of shape (n_points,)
        Rejected fraction of the rows, nondecreasing, in [0, 1].
    score : ndarray of shape (n_points,)
        Score of the kept rows. Thresholds that keep no row ("auc": no row of one of the classes)
        have no score and are left out. So `n_points` is at most 51, and 0 for "auc" when `y_true`
        holds one class only.

    Raises
    ------
    ValueError
        If the shapes do not match, `y_true` holds more than two classes, `y_proba` holds anything
        but probabilities, or `pos_label` is missing or unknown.

    Notes
    -----
    Section 5.3 of [1]_, which does not say what to do without a score. The condition is
    evaluated after rounding p - 0.5 to 12 decimals, so that p = 0.6 is kept at rho = 0.1, and a
    probability within 5e-13 of 0 or 1 is never rejected. The cost is one sort of the rows.

    References
    ----------
    .. [1] Filippone & Girolami (2014), Pseudo-marginal Bayesian inference for Gaussian processes,
       IEEE Transactions on Pattern Analysis and Machine Intelligence 36(11), section 5.3.

    Examples
    --------
    >>> from skgpmcmc.metrics import abstention_curve
    >>> abstention, accuracy = abstention_curve([1, 1, 0, 0], [0.9, 0.6, 0.55, 0.2])
    >>> print(abstention[[0, 10, 20, 40]], accuracy[[0, 10, 20, 40]])
    [0.   0.25 0.5  0.75] [0.75 1.   1.   1.  ]
    """
    if score not in ("accuracy", "auc"):
        raise ValueError(f'score={score!r} is not known: pass "accuracy" or "auc".')
    is_positive, proba = _check_predictions(y_true, y_proba, pos_label)
    order = np.argsort(proba)
    is_positive = is_positive[order]
    proba = proba[order]
    # The rows rejected at threshold k are proba[n_low[k]:start_high[k]].
    from_half = np.round(proba - 0.5, _DECIMALS)
    n_low = np.searchsorted(from_half, -_CAPACITY_THRESHOLDS, side="right")
    start_high = np.searchsorted(from_half, _CAPACITY_THRESHOLDS, side="left")
    # At rho = 0 a row with p = 0.5 belongs to both tails, and must be kept once.
    start_high = np.maximum(n_low, start_high)
    score_of_kept = _accuracy_of_kept if score == "accuracy" else _auc_of_kept
    score_values = score_of_kept(is_positive, proba, n_low, start_high)
    # Kept sets are nested, so the thresholds without a score are the last ones.
    n_points = score_values.size
    abstention = (start_high - n_low)[:n_points] / proba.size
    return abstention, score_values


def capacity_accuracy_score(y_true, y_proba, *, pos_label=None):
    """Compute the normalized area under accuracy against the degree of abstention.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels, of at most two classes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predictive probabilities: of the positive class, or of both classes in sorted order.
    pos_label : label, default=None
        The positive class, as in `abstention_curve`.

    Returns
    -------
    float
        Area by the trapezoidal rule, divided by the largest degree of abstention that leaves a row
        to score; in [0, 1], and 1 is best. The plain accuracy when no threshold that leaves a row
        rejects any.

    See Also
    --------
    abstention_curve : The curve, and what each argument may be.
    capacity_auc_score : The same with the area under the ROC curve in place of accuracy.
    selective_accuracy_score : Depends on the order of the confidences alone.

    Notes
    -----
    "Capacity accuracy" of Filippone & Girolami (2014), section 5.3.

    It favors underconfident probabilities. The last threshold still keeps the rows with p <= 0.01
    or p >= 0.99, so that the curve of a confident classifier ends at a small degree of abstention.
    Moving all probabilities towards one half, in the same order, does not change this part of the
    curve, but extends it to the few most confident rows, which are mostly right: the mean over the
    larger width increases. Two classifiers may differ in the width alone.

    Examples
    --------
    >>> from skgpmcmc.metrics import capacity_accuracy_score
    >>> round(capacity_accuracy_score([1, 1, 0, 0], [0.9, 0.6, 0.55, 0.2]), 4)
    0.9583
    """
    return _capacity(*abstention_curve(y_true, y_proba, score="accuracy", pos_label=pos_label))


def capacity_auc_score(y_true, y_proba, *, pos_label=None):
    """Compute the normalized area under AUC against the degree of abstention.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels, of at most two classes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predictive probabilities: of the positive class, or of both classes in sorted order.
    pos_label : label, default=None
        The positive class, as in `abstention_curve`.

    Returns
    -------
    float
        Area by the trapezoidal rule, divided by the largest degree of abstention that leaves rows
        of both classes; in [0, 1], and 1 is best. The plain AUC when no threshold that leaves both
        classes rejects a row, and nan when `y_true` holds one class only.

    Notes
    -----
    "Capacity AUC" of Filippone & Girolami (2014), section 5.3. As `capacity_accuracy_score` does,
    and for the same reason, it changes when all probabilities are moved towards one half.
    """
    return _capacity(*abstention_curve(y_true, y_proba, score="auc", pos_label=pos_label))


def selective_accuracy_score(y_true, y_proba, *, pos_label=None):
    r"""Compute the area under accuracy against coverage, rows in the order of their confidence.

    The confidence of a row is max(p, 1 - p), where p is the predictive probability of the positive
    class; the row is predicted positive when p > 0.5. With A(k) the accuracy on the k most
    confident rows, the score is

    .. math:: \frac{1}{n} \sum_{k=1}^{n} A(k).

    Where confidences are equal, A(k) is its mean over all orders of the tied rows.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels, of at most two classes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predictive probabilities: of the positive class, or of both classes in sorted order.
    pos_label : label, default=None
        The positive class, as in `abstention_curve`.

    Returns
    -------
    float
        In [0, 1], and 1 is best. The plain accuracy when all confidences are equal.

    Raises
    ------
    ValueError
        As `abstention_curve` does, which also says what each argument may be.

    See Also
    --------
    capacity_accuracy_score : The score of the papers, which favors underconfident probabilities.

    Notes
    -----
    One minus the area under the risk-coverage curve [1]_ [2]_ for the zero-one loss, with coverages
    1/n, 2/n, ..., 1 [3]_. It is high if errors are few and have low confidence. As it depends only
    on the order of the confidences, a strictly increasing transformation of them, such as scaling
    the logits, does not change it: it does not measure calibration, for which see the log loss.
    Confidences that differ by rounding (at most 4.4e-16) are tied, such as those of p and 1 - p.

    References
    ----------
    .. [1] El-Yaniv & Wiener (2010), On the foundations of noise-free selective classification,
       Journal of Machine Learning Research 11, 1605-1641.
    .. [2] Geifman & El-Yaniv (2017), Selective classification for deep neural networks, Advances in
       Neural Information Processing Systems 30.
    .. [3] Geifman, Uziel & El-Yaniv (2019), Bias-reduced uncertainty estimation for deep neural
       classifiers, International Conference on Learning Representations.

    Examples
    --------
    >>> from skgpmcmc.metrics import selective_accuracy_score
    >>> selective_accuracy_score([1, 1, 0, 0], [0.9, 0.6, 0.55, 0.2])  # 1, 1, 1 and 3/4
    0.9375
    """
    is_positive, proba = _check_predictions(y_true, y_proba, pos_label)
    proba = np.clip(proba, 0.0, 1.0)  # a rounding error above 1 is no confidence
    is_right = (proba > 0.5) == is_positive
    confidence = np.maximum(proba, 1 - proba)
    order = np.argsort(-confidence)
    is_lower = -np.diff(confidence[order]) > _CONFIDENCE_SLACK
    tie = np.concatenate([[0], np.cumsum(is_lower)])
    # On average over all orders of tied rows, each place among them has their mean accuracy.
    right_in_place = (np.bincount(tie, weights=is_right[order]) / np.bincount(tie))[tie]
    return float(np.mean(np.cumsum(right_in_place) / np.arange(1, proba.size + 1)))


def _capacity(abstention, score_values):
    """Return the area under an abstention curve, divided by its width; nan for an empty curve."""
    if abstention.size == 0:
        return float("nan")
    if abstention[-1] == 0.0:
        return float(score_values[0])
    mean = np.trapezoid(score_values, abstention) / abstention[-1]
    # The mean lies in the range of the scores, up to a rounding error.
    return float(np.clip(mean, score_values.min(), score_values.max()))


def _sum_kept(values, n_low, start_high):
    """Sum `values`, one per sorted row, over the rows kept at each threshold."""
    running = np.concatenate([[0], np.cumsum(values)])
    return running[n_low] + running[-1] - running[start_high]


def _accuracy_of_kept(is_positive, proba, n_low, start_high):
    """Return the accuracy at each threshold that keeps a row."""
    is_right = (proba > 0.5) == is_positive
    n_right = _sum_kept(is_right, n_low, start_high)
    n_kept = n_low + proba.size - start_high
    defined = n_kept > 0
    return n_right[defined] / n_kept[defined]


def _auc_of_kept(is_positive, proba, n_low, start_high):
    """Return the area under the ROC curve at each threshold that keeps rows of both classes."""
    negatives = proba[~is_positive]
    n_below = np.searchsorted(negatives, proba, side="left")
    n_not_above = np.searchsorted(negatives, proba, side="right")
    wins = np.where(is_positive, (n_below + n_not_above) / 2, 0.0)  # a tie is half a win
    kept_wins = _sum_kept(wins, n_low, start_high)
    # A kept positive above the rejected band has also won against the rejected negatives.
    n_negative = _sum_kept(~is_positive, n_low, start_high)
    n_positive_above = _sum_kept(is_positive, np.zeros_like(n_low), start_high)
    kept_wins = kept_wins - n_positive_above * (negatives.size - n_negative)
    n_pairs = _sum_kept(is_positive, n_low, start_high) * n_negative
    defined = n_pairs > 0
    return kept_wins[defined] / n_pairs[defined]


def _check_predictions(y_true, y_proba, pos_label):
    """Return whether each row is positive, and its probability of that; each of shape (n,)."""
    y_true = _check_labels(y_true)
    y_proba = _check_probabilities(y_proba)
    if y_true.shape[0] != y_proba.shape[0]:
        raise ValueError(
            f"y_true has {y_true.shape[0]} rows and y_proba has {y_proba.shape[0]}: pass labels "
            "and probabilities of the same rows."
        )
    pos_label, column = _choose_positive_class(np.unique(y_true).tolist(), pos_label)
    if y_proba.ndim == 2:
        if column is None:
            raise ValueError(
                f"y_true holds only {pos_label!r}, which does not tell the column of y_proba that "
                "belongs to it: pass that column alone, of shape (n,)."
            )
        y_proba = y_proba[:, column]
    return y_true == pos_label, y_proba


def _check_labels(y_true):
    """Return `y_true` as an ndarray of shape (n,), n > 0, of sortable labels without NaN."""
    y_true = np.asarray(y_true)
    if y_true.ndim != 1 or y_true.size == 0:
        raise ValueError(
            f"y_true has shape {y_true.shape}: pass one label per row, shape (n,) with n > 0."
        )
    try:
        missing = np.flatnonzero(y_true != y_true)  # true of NaN and other missing values only
        n_labels = np.unique(y_true).size
    except TypeError as error:
        raise ValueError(
            f"y_true holds labels that cannot be sorted ({error}): pass labels of one type, "
            "without missing values."
        ) from error
    if missing.size:
        raise ValueError(
            f"y_true[{missing[0]}] is {y_true[missing[0]]}: drop the rows without a label."
        )
    if n_labels > 2:
        raise ValueError(
            f"y_true holds {n_labels} classes, and this score is defined for two: score one "
            "class against the rest, with y_true == label and that class's probabilities."
        )
    return y_true


def _check_probabilities(y_proba):
    """Return `y_proba` as a float ndarray of shape (n,) or (n, 2) with entries in [0, 1]."""
    try:
        y_proba = np.asarray(y_proba, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y_proba is not an array of numbers ({error}): pass predictive probabilities."
        ) from error
    if not (y_proba.ndim == 1 or (y_proba.ndim == 2 and y_proba.shape[1] == 2)):
        raise ValueError(
            f"y_proba has shape {y_proba.shape}: pass the probabilities of the positive class, "
            "shape (n,), or of the two classes in sorted order, shape (n, 2)."
        )
    in_range = (y_proba >= -_PROBABILITY_SLACK) & (y_proba <= 1 + _PROBABILITY_SLACK)
    if not in_range.all():  # NaN is not in range either
        index = tuple(np.argwhere(~in_range)[0].tolist())
        raise ValueError(
            f"y_proba[{', '.join(map(str, index))}] is {y_proba[index]}, which is not a "
            "probability in [0, 1]: pass the output of predict_proba."
        )
    if y_proba.ndim == 2:
        totals = y_proba.sum(axis=1)
        wrong = np.flatnonzero(np.abs(totals - 1) > _ROW_SUM_SLACK)
        if wrong.size:
            raise ValueError(
                f"y_proba[{wrong[0]}] sums to {totals[wrong[0]]}, not to 1: pass the probabilities "
                "of the two classes, or those of the positive class alone, of shape (n,)."
            )
    return y_proba


def _choose_positive_class(labels, pos_label):
    """Return the positive label and its column in sorted class order, None if it is not known.

    `labels` are the one or two labels seen, sorted.
    """
    unknown = ValueError(
        f"pos_label={pos_label!r} is not among the labels of y_true, {labels}: pass one of them."
    )
    if len(labels) == 2:
        if pos_label is None:
            pos_label = labels[1]
        if pos_label not in labels:
            raise unknown
        return pos_label, labels.index(pos_label)
    (label,) = labels
    is_usual = label in (-1, 0, 1)  # from {0, 1} or {-1, 1}, where 1 is the positive class
    if pos_label is None:
        if not is_usual:
            raise ValueError(
                f"y_true holds only {label!r}, which does not tell the positive class: pass "
                "pos_label."
            )
        pos_label = 1
    if pos_label != label:
        try:
            return pos_label, int(label < pos_label)
        except TypeError:
            raise unknown from None
    if is_usual:
        return pos_label, int(label == 1)
    return pos_label, None


def _score_fold(y_true, y_proba, *, score):
    """Score test rows by the probabilities of the greater class; raise an error for a single class.

    Rows of one class do not tell whether it is the greater: if the classes are 1 and 2, ones alone
    would be taken for the positive class.
    """
    labels = np.unique(_check_labels(y_true)).tolist()
    if len(labels) == 1:
        raise ValueError(
            f"the scored rows hold only the class {labels[0]!r}: use stratified folds, or "
            f'make_scorer({score.__name__}, response_method="predict_proba", pos_label=...).'
        )
    return score(y_true, y_proba)


_make_fold_scorer = partial(make_scorer, _score_fold, response_method="predict_proba")
capacity_accuracy_scorer = _make_fold_scorer(score=capacity_accuracy_score)
capacity_auc_scorer = _make_fold_scorer(score=capacity_auc_score)
selective_accuracy_scorer = _make_fold_scorer(score=selective_accuracy_score)
