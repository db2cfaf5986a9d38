"""``securefl observer``: an observer at the broker as a process."""

from __future__ import annotations

from securefl.cli.kit_options import from_kit
from securefl.cli.member_options import JoinOptions
from securefl.cli.options import LabOption, spread
from securefl.cli.run_end import plain_news
from securefl.runtime import launch


@from_kit("observer")
@spread
def observer(options: JoinOptions, *, lab: LabOption = False) -> None:
    """Record metadata and hash of each message of a run, and report what an eavesdropper learns.

    A kit of securefl provision has all options but --run: securefl observer kit.toml --run ID

    Exit codes: 0 the run has ended; 2 refused; 3 aborted.
    """
    settings = launch.ObserverSettings(
        run=options.run_id,
        broker=options.brokers,
        broker_patience=options.broker_patience,
        roster_file=options.roster,
        out=options.out,
        lab=lab,
    )
    launch.watch(settings, plain_news(settings.name))
