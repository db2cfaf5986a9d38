"""``securefl dealer``: the dealer of validated sums as a process."""

from __future__ import annotations

from securefl.base.ids import DEALER
from securefl.cli import run_end
from securefl.cli.kit_options import from_kit
from securefl.cli.member_options import MemberOptions
from securefl.cli.options import spread
from securefl.runtime.launch import ended_by_signals, process


@from_kit("dealer")
@spread
def dealer(options: MemberOptions) -> None:
    """Run the dealer of validated sums, on a machine of its own; it needs no data.

    Exit codes: 0 the run has ended; 2 refused; 3 aborted; 5 a person must decide.
    """
    with ended_by_signals():
        run_end.finish(process.dealer(options.settings(DEALER), run_end.plain_news(DEALER)))
