"""Warnings of this package, which show the line of the user and not a line of the package.

The number of calls between that line and the warning varies: `fit` may be called alone, in a
pipeline or in a cross-validation. So the stack is searched for the line of the user.
"""

from __future__ import annotations

import sys
import warnings

#: Packages whose lines a warning does not show, by the first part of the names of their modules.
_SKIPPED_PACKAGES = frozenset({__name__.partition(".")[0], "sklearn", "joblib"})


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside this package, scikit-learn and joblib.

    `warnings.warn` can skip files itself (``skip_file_prefixes``) from Python 3.12 on.

    Parameters
    ----------
    message : str
        Text of the warning.
    category : type of Warning, default=UserWarning
        Class of the warning.
    """
    frame = sys._getframe()
    level = 1
    while (
        frame.f_back is not None
        and str(frame.f_globals.get("__name__")).partition(".")[0] in _SKIPPED_PACKAGES
    ):
        frame = frame.f_back
        level = level + 1
    warnings.warn(message, category, stacklevel=level)
