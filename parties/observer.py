"""An observer at the broker as a process; the same as ``securefl observer``."""

from securefl.cli.observer import observer
from securefl.cli.program import run_program

if __name__ == "__main__":
    run_program(observer)
