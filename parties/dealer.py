"""The dealer of validated sums as a process; the same as ``securefl dealer``."""

from securefl.cli.dealer import dealer
from securefl.cli.program import run_program

if __name__ == "__main__":
    run_program(dealer)
