"""alibaba/FederatedScope#123. A site with fewer rows than a batch, and drop_last."""

from __future__ import annotations

import securefl
from tests.cases.users.common import verdict
from tests.cases.users.play import MSE, linear, loader, sgd

site = securefl.TorchSite(linear(), loader(5, drop_last=True), MSE, sgd(0.05))
try:
    site.fit(site.parameters(), securefl.RoundContext(0, 1, 7))
    message = ""
except Exception as error:  # whatever it is, its text is looked at
    message = str(error)
verdict(
    ok="than one," not in message,
    got=message,
    right="'... fewer samples than one batch holds, and drop_last'",
)
