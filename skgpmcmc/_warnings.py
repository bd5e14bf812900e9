"""The one way in which this package warns: at the line of the user, and not at one of its own.

How many calls lie between that line and the warning depends on the way there: `fit` may be called
alone, in a pipeline or in a cross-validation. So the calls are looked at, and not counted.
"""

from __future__ import annotations

import sys
import warnings

#: Packages whose lines say nothing to a user, by the first part of the names of their modules.
_PASSED_OVER = frozenset({__name__.partition(".")[0], "sklearn", "joblib"})


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is neither of this package nor of one that called it.

    `warnings.warn` can pass over files itself (``skip_file_prefixes``) from Python 3.12 on.

    Parameters
    ----------
    message : str
        What is said.
    category : type of Warning, default=UserWarning
        Its kind.
    """
    frame = sys._getframe()
    level = 1
    while frame.f_back is not None and _is_passed_over(frame.f_globals.get("__name__")):
        frame = frame.f_back
        level = level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_passed_over(module: object) -> bool:
    return str(module).partition(".")[0] in _PASSED_OVER
