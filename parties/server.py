"""The server as a process; the same as ``securefl server``."""

from securefl.cli.program import run_program
from securefl.cli.server import server

if __name__ == "__main__":
    run_program(server)
