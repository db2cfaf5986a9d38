"""``python -m tools.cuda.measures NAME --device D --out DIR``: one measure, its results as JSON lines."""

from __future__ import annotations

import argparse
import sys

from tools.cuda.measures.measure import measures
from tools.cuda.unit import add_arguments, run_unit, task_of


def main() -> int:
    """Run the measure that the arguments name; return the exit code of the unit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(measures()))
    add_arguments(parser)
    given = parser.parse_args()
    return run_unit(measures()[given.name].main, task_of(given))


if __name__ == "__main__":
    sys.exit(main())
