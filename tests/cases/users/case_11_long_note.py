"""cldf/csvw#69, 1Panel-dev/MaxKB#6756.

A column that is not asked for holds a doctor's letter of 200,000 characters.
"""

from __future__ import annotations

import securefl
from tests.cases.users.common import WORK, verdict

(WORK / "north.csv").write_text("age,letter\n20," + "x" * 200_000 + "\n21,short\n")
try:
    message = f"read, {securefl.read_table(WORK / 'north.csv', ['age']).samples} samples"
except securefl.ConfigError as error:
    message = str(error)
verdict(
    ok=message.startswith("read") or "quotes" not in message,
    got=message,
    right="read: the column is not looked at; at least no advice about quotes",
)
