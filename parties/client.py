"""One party as a process; the same as ``securefl party``."""

from securefl.cli.party import party
from securefl.cli.program import run_program

if __name__ == "__main__":
    run_program(party)
