"""Attacks as pure functions: updates sent instead of the trained one, one family of attacks a module.

All vectors are f64 updates (trained minus received parameters) before clip and weight. ``known`` are the
updates of which the attacker knows: f64 ``(k, d)``, k >= 1, honestly trained, one row a party. Each docstring
says what the attacker has to know. The papers attack a server that sees every update. Under secure sums it
sees means of clusters, in which an attacker is one of several members: what is tuned to pass for one party's
update, or to win a selection among them, is diluted there.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
