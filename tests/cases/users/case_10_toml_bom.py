"""python/cpython#157201, hukkin/tomli#304.

A scenario saved by Notepad or PowerShell begins with a byte order mark.
"""

from __future__ import annotations

import numpy as np

import securefl
from tests.cases.users.common import scenario, verdict

toml = scenario({"w": np.zeros(1, np.float32)})
toml.write_bytes(b"\xef\xbb\xbf" + toml.read_bytes())
try:
    securefl.load(toml)
    message = "read"
except securefl.ConfigError as error:
    message = str(error)
verdict(
    ok=message == "read" or "mark" in message.lower() or "BOM" in message,
    got=message,
    right="read as if it were not there (CSV files are), or an error that names the byte order mark",
)
