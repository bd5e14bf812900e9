"""Set-ups of chains: all work before the first kept draw."""

from .request import PreparedChains, Request

__all__ = ["PreparedChains", "Request"]
