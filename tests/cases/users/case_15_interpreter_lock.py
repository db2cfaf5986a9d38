"""dask/distributed#6324, flwrlabs/flower#775, #2515.

Training in a C library that keeps the interpreter lock (rpy2, ctypes.PyDLL) for 60 s, in one round, at one
of three sites; deadlines.training is 200 s.
"""

from __future__ import annotations

import numpy as np

from tests.cases.users.common import WORK, cli, scenario, verdict

(WORK / "north.py").write_text("""import ctypes, numpy as np
class Site:
    def __init__(self, name): self.samples, self.name = 10, name
    def parameters(self): return {"w": np.zeros(1, np.float32)}
    def fit(self, parameters, context):
        if self.name == "p00" and context.number == 0: ctypes.PyDLL(None).sleep(60)
        return {"w": parameters["w"] + 1}, 10, {}
""")
toml = scenario({"w": np.zeros(1, np.float32)}, 3, "[deadlines]\ntraining = 200\n")
code, text = cli("run", toml, "--site", "north:Site", "--out", "o", "--seed", 1)
lines = [
    line.strip() for line in text.splitlines() if line.startswith(("round", "exit", "p00", "refused", "site"))
]
rounds = [line for line in lines if line.startswith("round")]
verdict(
    ok=code == 0
    and all("3 of 3 counted" in line for line in rounds)
    and any("--site-python" in line for line in lines),
    got=f"exit {code}: " + " | ".join(lines)[:900],
    right="the site has its 200 s and counts in round 0; a line says so and names --site-python",
)
