"""Set-ups of chains: all work before the burn-in of the frozen transition."""

from .request import PreparedChains, Request

__all__ = ["PreparedChains", "Request"]
