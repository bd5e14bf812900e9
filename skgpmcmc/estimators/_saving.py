"""Files of estimators: what they hold, which can be read, and small ones for predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from .._version import __version__
from ._warm_start import NotContinuable

#: Of what estimators write of themselves. It grows when files of before can no longer be read.
FORMAT = 3
#: Where that stands in a file, beside the version of the package.
_STAMP = "_saved_by"
#: What is made again of the rest when it is asked for.
_DERIVED = "latent_samples_"
#: Attributes that predictions do without.
_OF_DRAWS = (
    *("theta_samples_", _DERIVED, "marked_samples_"),
    *("_draws", "_evidence_parts", "_reference", "_sampling"),
)


class Versioned:
    """Writes the version of its format into files, and reads no others."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """Have the version looked at before anything else is read."""
        state = self.__getstate__()
        return _blank, (type(self), *state[_STAMP]), state

    def __getstate__(self) -> dict[str, Any]:
        state = {**super().__getstate__(), _STAMP: (FORMAT, __version__)}
        state.pop(_DERIVED, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        _check_format(type(self), *state.pop(_STAMP, (None, "unknown")))
        super().__setstate__(state)


def _blank(kind: type, found: Any, version: str) -> Any:
    """Return an estimator that its state is put into next."""
    _check_format(kind, found, version)
    return kind.__new__(kind)


def _check_format(kind: type, found: Any, version: str) -> None:
    """Refuse what was written in another format."""
    if found != FORMAT:
        raise ValueError(
            f"This {kind.__name__} was saved by version {version} of skgpmcmc, in format {found}, "
            f"and version {__version__} reads format {FORMAT}: read it with the version that has "
            "saved it, or fit the estimator again."
        )


class ForPrediction(Versioned):
    """Gives copies of itself that can predict, and no more."""

    def for_prediction(self) -> Self:
        """Return a fitted copy that holds only what predictions need.

        Its predictions, scores, densities and new draws (`sample_y`, `sample_latent`) are those of
        the full estimator. It does not contain the posterior draws and the chains, so that a saved
        file is many times smaller. `theta_samples_`, `latent_samples_`, `loo`, `log_evidence` and
        continuing with ``warm_start=True`` need the full estimator.

        Returns
        -------
        estimator
            Estimator of the same class, with the same parameters. It shares memory with this one.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.

        Examples
        --------
        >>> import pickle
        >>> from sklearn.datasets import make_moons
        >>> from skgpmcmc import BayesianGPClassifier
        >>> X, y = make_moons(40, noise=0.3, random_state=0)
        >>> clf = BayesianGPClassifier(random_state=0).fit(X, y)
        >>> small = clf.for_prediction()
        >>> bool((small.predict_proba(X) == clf.predict_proba(X)).all())
        True
        >>> len(pickle.dumps(small)) < len(pickle.dumps(clf)) / 4
        True
        """
        check_is_fitted(self)
        copy = type(self).__new__(type(self))
        fitted = {name: value for name, value in vars(self).items() if name not in _OF_DRAWS}
        if "estimators_" in fitted:
            fitted["estimators_"] = [own.for_prediction() for own in self.estimators_]
        vars(copy).update(fitted)
        vars(copy).update(_sampling=NotContinuable(), _only_predicts=True)
        return copy

    def _require_draws(self, method: str) -> None:
        """Raise a ValueError where predictions are all that is left."""
        if "_only_predicts" in vars(self):
            raise ValueError(
                f"{method} needs the posterior draws, which a copy made by for_prediction() does "
                "not hold: call it on the full estimator, which the copy was made from."
            )

    def __getattr__(self, name: str) -> Any:
        # Only called where normal look-up fails.
        if name in _OF_DRAWS and "_only_predicts" in vars(self):
            raise AttributeError(
                f"{name} is not in a copy made by for_prediction(), which holds only what "
                "predictions need: ask the full estimator, which the copy was made from."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
