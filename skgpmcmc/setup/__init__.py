"""Set-ups: all work before the first kept draw."""

from .request import Prepared, Request

__all__ = ["Prepared", "Request"]
