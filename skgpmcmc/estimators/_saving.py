"""Pickles of estimators: the version of their format, and small copies for predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from .._version import __version__
from ._warm_start import NoContinuableRun

#: Version of the format of pickles. It grows when older pickles can no longer be read.
FORMAT = 3
#: Entry of a pickle that contains the versions of the format and of the package.
_VERSIONS_KEY = "_saved_by"
#: Attribute that is not saved, as it is computed from others when it is read.
_COMPUTED_ATTRIBUTE = "latent_samples_"
#: Attributes that predictions do not need.
_DRAW_ATTRIBUTES = (
    *("theta_samples_", _COMPUTED_ATTRIBUTE, "marked_samples_"),
    *("_draws", "_evidence_parts", "_reference", "_sampling"),
)


class Versioned:
    """Mixin that writes the version of its format into pickles, and reads no other version."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """Return a constructor that checks the version before the state is read."""
        state = self.__getstate__()
        return _blank, (type(self), *state[_VERSIONS_KEY]), state

    def __getstate__(self) -> dict[str, Any]:
        state = {**super().__getstate__(), _VERSIONS_KEY: (FORMAT, __version__)}
        state.pop(_COMPUTED_ATTRIBUTE, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        _check_format(type(self), *state.pop(_VERSIONS_KEY, (None, "unknown")))
        super().__setstate__(state)


def _blank(kind: type, found: Any, version: str) -> Any:
    """Return an estimator without attributes, which unpickling then adds.

    Pickles name this function: under another name, older ones would not get the message below.
    """
    _check_format(kind, found, version)
    return kind.__new__(kind)


def _check_format(kind: type, found: Any, version: str) -> None:
    """Raise an error for a pickle that was written in another format."""
    if found != FORMAT:
        raise ValueError(
            f"This {kind.__name__} was saved by version {version} of skgpmcmc, in format {found}, "
            f"and version {__version__} reads format {FORMAT}: read it with the version that has "
            "saved it, or fit the estimator again."
        )


class ForPrediction(Versioned):
    """Mixin with small copies of a fitted estimator that can predict, and nothing else."""

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
        fitted = {name: value for name, value in vars(self).items() if name not in _DRAW_ATTRIBUTES}
        if "estimators_" in fitted:
            fitted["estimators_"] = [own.for_prediction() for own in self.estimators_]
        vars(copy).update(fitted)
        vars(copy).update(_sampling=NoContinuableRun(), _only_predicts=True)
        return copy

    def _require_draws(self, method: str) -> None:
        """Raise a ValueError if this is a copy for predictions only."""
        if "_only_predicts" in vars(self):
            raise ValueError(
                f"{method} needs the posterior draws, which a copy made by for_prediction() does "
                "not hold: call it on the full estimator, which the copy was made from."
            )

    def __getattr__(self, name: str) -> Any:
        # Python calls this method only if normal look-up fails.
        if name in _DRAW_ATTRIBUTES and "_only_predicts" in vars(self):
            raise AttributeError(
                f"{name} is not in a copy made by for_prediction(), which holds only what "
                "predictions need: ask the full estimator, which the copy was made from."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
