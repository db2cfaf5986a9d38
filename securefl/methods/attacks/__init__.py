"""Attacks as pure functions: updates sent instead of the trained ones.

All vectors are f64 updates (trained minus received parameters) before clip and weight. ``known`` are the
updates that the attacker knows: f64 ``(k, d)``, k >= 1, honestly trained, one row a party. Each docstring
states the attacker's knowledge. The papers attack a server that sees every update. Under secure sums it sees
means of clusters with an attacker among several members, which dilutes updates tuned to pass as one party's
or to win a selection.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
