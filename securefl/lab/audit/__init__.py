"""Audits of recorded runs: pure functions on what a run left behind, and their report (docs/audit.md)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
