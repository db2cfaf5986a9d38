"""NVFlare client script as a site: it runs in a thread, and this module answers ``nvflare.client`` (2.9)."""

from __future__ import annotations

import shlex
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

from .app_arrays import AppArrays
from .first import array_of
from .offer import Given, Refused, samples_of


class Changes:
    """Arrays to add to the parameters, in place of parameters."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.arrays = arrays


class ScriptSite:
    """Site that passes models to a script and returns its results.

    An error ends the script, which costs one round; the next one restarts it.

    Args:
        command: absolute path of the script, and its arguments.

    Raises:
        Refused: the script ended early, failed, or does not state its number of samples.
    """

    def __init__(self, command: str, party: str, given: Given) -> None:
        self._words = shlex.split(command)
        self._party = party
        self._arrays = AppArrays(given.file)
        self._context: Any = None
        self._reply: Any = None
        self._start()
        self.samples = samples_of(self._script.names, self._script.file_name, party)

    def parameters(self) -> dict[str, Any]:
        """Return names and shapes of the initial model's file."""
        return self._arrays.first

    def evaluate(self, parameters: Mapping[str, Any], context: Any) -> tuple[Any, dict[str, Any]]:
        """Return the metrics that the script sends, which are those of the received model."""
        sent = self._send_model(parameters, context)
        metrics = {
            name: getattr(one, "item", lambda v=one: v)() for name, one in (sent.metrics or {}).items()
        }
        numbers = {
            str(name): value
            for name, value in metrics.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        }
        return self.samples, numbers

    def fit(self, parameters: Mapping[str, Any], context: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Return the script's result for the parameters, FULL or DIFF."""
        if context.samples is not None and context.samples < self.samples:
            reason = "an NVFlare script cannot be told to train on its first samples only"
            raise Refused(reason, 'set weighting.use = "all"')
        sent, self._context = self._send_model(parameters, context), None
        if not isinstance(sent.params, Mapping):
            kind = type(sent.params).__name__
            raise Refused(f"{self._script.file_name} sent params of type {kind}, expected arrays by name")
        arrays = {str(name): array_of(value, str(name)) for name, value in sent.params.items()}
        # A member of an enumeration of strings.
        if sent.params_type == "DIFF":
            return Changes(self._arrays.add(arrays)), self.samples, {}
        return self._arrays.keep(arrays), self.samples, {}

    def _send_model(self, parameters: Mapping[str, Any], context: Any) -> Any:
        """Return the script's reply to this round's model; one reply has evaluation and training."""
        if self._context != context:
            if self._script.told_of_failure:
                self._start()
            self._reply = self._script.train(self._arrays.complete(parameters), context)
            self._context = context
        return self._reply

    def _start(self) -> None:
        self._script = Script(Path(self._words[0]), self._words[1:], self._party)
        self._script.begin()


class Script:
    """Running script, and the models exchanged with it, as an NVFlare client API engine.

    ``path`` is absolute; ``party`` is NVFlare's site name.
    """

    def __init__(self, path: Path, arguments: list[str], party: str) -> None:
        self.file_name = path.name
        self.names: dict[str, Any] = {}
        self.told_of_failure = False
        """True if an ended script has cost a round."""
        self._path, self._arguments, self._party = path, arguments, party
        self._change = threading.Condition()
        self._waits = self._ended = self._received = False
        self._error = ""
        self._model: Any = None
        self._sent: Any = None

    def begin(self) -> None:
        """Run the script until it first waits for a model.

        Raises:
            Refused: it ended before.
        """
        _stand_in(self)
        threading.Thread(target=self._run, name=self.file_name, daemon=True).start()
        with self._change:
            self._change.wait_for(lambda: self._waits or self._ended)
            self._refuse_end("before it received a model")

    def train(self, arrays: Mapping[str, Any], context: Any) -> Any:
        """Pass a model to the script; return the model that it sends.

        Raises:
            Refused: it ends without sending.
        """
        from nvflare.client import FLModel  # noqa: PLC0415 - begin() has looked for it

        if "torch" in sys.modules:
            import torch  # noqa: PLC0415 - of the script's environment

            arrays = {name: torch.from_numpy(array) for name, array in arrays.items()}
        with self._change:
            self._refuse_end("before this round")
            self._sent = None
            self._model = FLModel(params=arrays, current_round=context.number, total_rounds=context.planned)
            self._change.notify_all()
            self._change.wait_for(lambda: self._sent is not None or self._ended)
            if self._sent is None:
                self._model = None
                self._refuse_end("without sending a model")
            return self._sent

    def _refuse_end(self, when: str) -> None:
        if self._error:
            self.told_of_failure = True
            raise Refused(f"{self.file_name} failed: {self._error}")
        if self._ended:
            raise Refused(f"{self.file_name} ended {when}", "a script goes on while flare.is_running()")

    def _run(self) -> None:
        main = ModuleType("__main__")
        main.__file__ = str(self._path)
        self.names = vars(main)
        sys.argv = [str(self._path), *self._arguments]
        # There pickle finds the script's classes.
        sys.modules["__main__"] = main
        error = ""
        try:
            exec(compile(self._path.read_bytes(), str(self._path), "exec"), self.names)  # noqa: S102 - the user's own
        except SystemExit as left:
            error = f"exits with {left.code!r}" if left.code else ""
        except BaseException as raised:  # any exception of the script
            traceback.print_exc()
            error = f"{type(raised).__name__}: {raised}".splitlines()[0]
        with self._change:
            self._ended, self._error = True, error
            self._change.notify_all()

    # Methods that nvflare.client calls.

    def is_running(self) -> bool:
        """Wait for a model and return True; the process ends from outside."""
        self._wait_for_script(None)
        return True

    def receive(self, timeout: Optional[float] = None) -> Any:  # noqa: UP045 - Python 3.9
        """Return the model, the same one until the script sends; None after ``timeout`` seconds."""
        found = self._wait_for_script(timeout)
        self._received = found is not None
        return found

    def send(self, model: Any, clear_cache: bool = True) -> None:
        """Accept a model.

        Raises:
            RuntimeError: no model was received since the last one was sent.
        """
        del clear_cache
        with self._change:
            if not self._received:
                raise RuntimeError("sends a model without having received one: once for each flare.receive()")
            self._sent, self._model, self._received = model, None, False
            self._change.notify_all()

    def system_info(self) -> dict[str, str]:
        """Return the names of job and site."""
        return {"job_id": self.get_job_id(), "site_name": self._party}

    def get_config(self) -> dict[str, Any]:
        """Return a job's configuration."""
        exchange = {"train_with_eval": True, "transfer_type": "FULL", "train_task_name": "train"}
        return {**self.system_info(), "TASK_NAME": "train", "TASK_EXCHANGE": exchange}

    def get_job_id(self) -> str:
        """Return the job's name, the same for all parties."""
        return "securefl"

    def get_site_name(self) -> str:
        """Return the party's name."""
        return self._party

    def get_task_name(self) -> str:
        """Return the only task's name."""
        return "train"

    def is_train(self) -> bool:
        """Return True."""
        return True

    def is_evaluate(self) -> bool:
        """Return False: the script evaluates the received model before it trains."""
        return False

    def is_submit_model(self) -> bool:
        """Return False: local models stay at the site."""
        return False

    def log(self, key: str, value: Any, data_type: Any, **more: Any) -> bool:
        """Print a value; the site's own log keeps it."""
        del data_type
        step = more.get("global_step")
        print(f"{key}: {value}" if step is None else f"{key} at {step}: {value}", flush=True)
        return True

    def clear(self) -> None:
        """Forget the received model."""
        self._received = False

    def shutdown(self) -> None:
        """Do nothing: the process ends from outside."""

    def _wait_for_script(self, timeout: float | None) -> Any:
        with self._change:
            if self._model is None:
                self._waits = True
                self._change.notify_all()
                self._change.wait_for(lambda: self._model is not None, timeout)
            return self._model


def _stand_in(script: Script) -> None:
    """Make ``nvflare.client.init`` create a context of ``script``.

    Raises:
        Refused: nvflare is not installed.
    """
    try:
        from nvflare.client import api  # noqa: PLC0415 - of the site's environment
    except ImportError as error:
        remedy = "--site-python names the interpreter of an environment that has it"
        raise Refused(f"nvflare cannot be imported: {error}", remedy) from error

    class Context:
        def __init__(self, rank: Any = None, config_file: Any = None) -> None:
            del config_file
            self.rank, self.api = rank, script

        def __enter__(self) -> Context:
            return self

        def __exit__(self, *raised: object) -> None:
            pass

    api.APIContext = Context
    api.context_dict.clear()
    api.default_context = None
