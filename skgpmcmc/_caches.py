"""What a copy of an object, or its pickle, leaves out."""

from __future__ import annotations

from functools import cached_property
from typing import Any


class ForgetsCaches:
    """Leaves cached properties out of pickles and deep copies.

    They are matrices, most of them, which are quicker to compute again than to send or store.
    """

    def __getstate__(self) -> dict[str, Any]:
        kind = type(self)
        return {
            name: value
            for name, value in vars(self).items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }
