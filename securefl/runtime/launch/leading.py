"""Leading a run of a deployment."""

import math
import time
from contextlib import suppress
from typing import Final

from securefl.base import sums
from securefl.base.errors import SecureflError
from securefl.base.ids import SERVER
from securefl.methods import attacks
from securefl.methods.privacy import need_dp_accounting
from securefl.protocol import kernel
from securefl.protocol.round import RunPlan
from securefl.runtime import monitoring, process, report
from securefl.runtime.launch import conclusion, following
from securefl.runtime.launch.process import server

_SHOWN: Final = 12


class Leading:
    """Recorder of the run that this process leads. Methods raise RunAbortedError if a write fails."""

    def __init__(self, settings: process.ProcessSettings, progress: report.Progress) -> None:
        self._settings = settings
        self._progress = progress
        self._started = time.monotonic()
        self._directory = report.RunDirectory(settings.out)
        self._resumes = False
        self._before = 0.0
        """Seconds of earlier servers' rounds."""
        self._rows: report.MetricsFile | None = None
        self._metrics: report.RunMetrics | None = None
        self._early: list[report.Remark] = []
        self._following: following.Following | None = None
        self.summary: report.Summary | None = None
        self._monitor = monitoring.RunMonitor(settings.run, settings.scenario)

    @property
    def monitor(self) -> monitoring.RunMonitor:
        """See :class:`securefl.runtime.launch.process.Leader`."""
        return self._monitor

    def check(self) -> None:
        """See :class:`securefl.runtime.launch.process.Leader`."""
        self._resumes = (self._settings.out / process.CHECKPOINT).exists()
        self._directory.check_free(self._settings.scenario, resumes=self._resumes)

    def begin(self, plan: RunPlan) -> None:
        """See :class:`securefl.runtime.launch.process.Leader`."""
        settings, scenario = self._settings, plan.scenario
        seeded = settings.insecure_seed is not None
        parties = tuple(sorted(plan.roster.parties))
        self._directory.keep_scenario(scenario)
        self._directory.keep_first_model(scenario)
        self._rows = self._open_rows()
        self._before = math.fsum(record.seconds["total"] for record in self._directory.each_record())
        metrics = report.RunMetrics(
            scenario,
            self._rows.append,
            dishonest=attacks.behaviours_of(scenario, settings.seed).keys(),
            earlier=self._directory.each_record(),
            parties=parties,
            reread=self._directory.each_record,
        )
        metrics.on_round = self._monitor.take_round
        following.account_for(plan, metrics, settings.seed, seeded=seeded)
        keys = "", f"each process has its own key; roster: {report.list_of(parties, _SHOWN)}"
        start = report.on_start(
            settings.seed, seeded=seeded, lab=settings.lab, keys=keys, files=self._directory.path
        )
        done = sums.exact_sum(1 for _ in self._directory.each_record())
        self._progress.start(
            report.header_of(settings.run, scenario, start, plan.mechanism, seeded=seeded, done=done)
        )
        self._metrics = metrics
        self._following = following.Following(metrics, self._progress, parties, alone=True)
        for remark in self._early:
            self._following.take(SERVER, remark)

    def _open_rows(self) -> report.MetricsFile:
        if self._resumes:
            self._directory.summary_file.unlink(missing_ok=True)
            if self._directory.metrics_file.exists():
                return self._directory.more_metrics()
        return self._directory.metrics()

    def tell(self, news: report.News) -> None:
        """Handle an item of the process."""
        if self._following is None:
            if isinstance(news, report.Remark):
                # Before the header, such as the address of the metrics.
                self._early.append(news)
            return
        self._following.take(SERVER, news)
        if isinstance(news, report.Ending):
            self.conclude(_end_of(news.outcome))

    def conclude(self, end: report.RunEnd) -> None:
        """Write the summary, if the run has begun and there is none yet."""
        if self._metrics is None or self._rows is None or self.summary is not None:
            return
        settings = self._settings
        self._progress.finish()
        self._rows.close()
        self.summary = conclusion.conclude(
            self._directory,
            self._metrics,
            end,
            options=settings,
            scenario=settings.scenario,
            seconds=self._before + time.monotonic() - self._started,
            files=self._directory.files(settings.scenario.groups.count),
        )


def _end_of(outcome: kernel.Finished | kernel.Aborted) -> report.RunEnd:
    # Stopping a server is not the abort that a scenario may expect.
    if isinstance(outcome, kernel.Aborted) and (outcome.resumable or process.was_stopped(outcome)):
        return conclusion.interrupted_end(outcome.reason, paused=outcome.resumable)
    return conclusion.end_of(outcome)


def lead(settings: process.ProcessSettings, progress: report.Progress) -> report.Summary:
    """Lead a run to its end; leave model, metrics, transcript and summary in ``settings.out``.

    A second signal does not prevent the summary, which is written while the process handles signals.

    Raises:
        ConfigError: refused; nothing was written.
        RunAbortedError: broker or disk failed; there is a summary if it could be written.
    """
    if settings.scenario.privacy.unit != "none" and settings.insecure_seed is None:
        need_dp_accounting()
    leading = Leading(settings, progress)
    try:
        outcome = server(settings, leading.tell, leading)
        if isinstance(outcome, kernel.Finished) or outcome.over:
            # Last: a process killed before resumes.
            (settings.out / process.CHECKPOINT).unlink(missing_ok=True)
    except (SecureflError, KeyboardInterrupt) as error:
        # The first error must be the one raised.
        with suppress(SecureflError):
            leading.conclude(
                report.RunEnd(reason=str(error), aborted=True)
                if isinstance(error, SecureflError)
                else conclusion.interrupted_by(error)
            )
        raise
    finally:
        progress.finish()
    if leading.summary is None:
        raise AssertionError(f"no news of the end: {outcome}")
    return leading.summary
