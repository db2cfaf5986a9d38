"""Attacks as pure functions: updates sent instead of the trained ones.

All vectors are f64 updates (trained minus received parameters) before clip and weight. ``known`` are the
honestly trained updates that the attacker knows: f64 ``(k, d)``, k >= 1, one row a party. "Knows" is the
attacker's knowledge. The papers attack a server that sees every update; means of clusters dilute such
updates.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
