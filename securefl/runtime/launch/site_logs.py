"""Logs of all sites of a simulation."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from securefl.base.ids import PartyId
from securefl.base.text import count
from securefl.protocol.round import NothingLearned
from securefl.runtime.report import Progress
from securefl.training import sites


class SiteLogs:
    """Logs of all sites. Failures are shown with the party's name: all sites are on this machine."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._logs: dict[PartyId, sites.SiteLog] = {}
        self._failures: Counter[PartyId] = Counter()
        self._last: dict[PartyId, tuple[int, str]] = {}
        self.columns: dict[str, sites.ColumnCounts] = {}
        """Missing values and values outside their range, of all sites, by column."""

    def of(self, party: PartyId) -> sites.SiteLog:
        """Return the log of one party's site."""

        def tell(round_: int, reason: str) -> None:
            self._failures[party] += 1
            self._last[party] = round_, reason
            self._progress.note(f"{party}: {NothingLearned(round_, 0, reason).line()}")

        shown: tuple[str, ...] = ()

        def note(round_: int, notes: Sequence[str]) -> None:
            # The same reasons in consecutive rounds make one line, as in a run.
            nonlocal shown
            if shown != tuple(notes):
                shown = tuple(notes)
                for one in notes:
                    self._progress.note(f"{party}: round {round_}: {one}")

        def count(counts: Mapping[str, sites.ColumnCounts]) -> None:
            for name, one in counts.items():
                self.columns[name] = self.columns.get(name, sites.ColumnCounts()).plus(one)
                if one.outside:
                    self._progress.note(f"{party}: column {name!r}: {one.text}")

        return self._logs.setdefault(party, sites.SiteLog(None, tell, note, count))

    def reasons(self, failed: Collection[PartyId], round_: int) -> dict[PartyId, str]:
        """Return the reasons of failed trainings in a round; built-in ones keep no log."""
        built_in = "its training raised an error, or ended in numbers that are not finite"
        found = {party: self._last.get(party, (-1, "")) for party in failed}
        return {party: reason if last == round_ else built_in for party, (last, reason) in found.items()}

    def go_to(self, folder: Path) -> None:
        """Write into this folder from now on."""
        for party, log in self._logs.items():
            log.path = folder / sites.SITE_LOG.format(party)

    def conclude(self) -> None:
        """Show each party that sent zeros, with the number of times."""
        for party, times in self._failures.items():
            self._progress.note(
                f"{party} sent zeros {count(times, 'time')}; {sites.SITE_LOG.format(party)} says why"
            )
