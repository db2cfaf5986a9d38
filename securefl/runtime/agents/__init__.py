"""Agents that stay at the machines of a federation, and the operator's side of them (docs/agents.md)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
