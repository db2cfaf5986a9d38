"""An NVFlare client script as a site: it runs in a thread, and ``nvflare.client`` is answered from here.

Written against nvflare 2.9. The package's own ``nvflare.client.init`` makes its context of the class that
stands in for ``APIContext``; all other functions go through that context.
"""

from __future__ import annotations

import shlex
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

from .first import array_of
from .kept import AppArrays
from .offer import Given, Refused, samples_of


class Changes:
    """What is to be added to the parameters, in place of parameters."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.arrays = arrays


class ScriptSite:
    """Hands models to a script and takes what it sends.

    The script runs until it first asks for a model. An error ends it: that costs one round, and the
    next one starts it anew.

    Args:
        command: path of the script, absolute, and its arguments.
        party: its name, NVFlare's site name.
        given: the first model.

    Raises:
        Refused: the script ended early, failed, or does not say how many samples there are.
    """

    def __init__(self, command: str, party: str, given: Given) -> None:
        self._words = shlex.split(command)
        self._party = party
        self._arrays = AppArrays(given.file)
        self._context: Any = None
        self._reply: Any = None
        self._start()
        self.samples = samples_of(self._script.names, self._script.said, party)

    def parameters(self) -> dict[str, Any]:
        """Names and shapes of the first model's file: a script has none of its own."""
        return self._arrays.first

    def evaluate(self, parameters: Mapping[str, Any], context: Any) -> tuple[Any, dict[str, Any]]:
        """The metrics that the script sends: by NVFlare's custom those of the model that it received."""
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
        """What the script sends for the parameters: its params, FULL or DIFF."""
        if context.samples is not None and context.samples < self.samples:
            reason = "an NVFlare script cannot be told to train on its first samples only"
            raise Refused(reason, 'set weighting.use = "all"')
        sent, self._context = self._send_model(parameters, context), None
        if not isinstance(sent.params, Mapping):
            kind = type(sent.params).__name__
            raise Refused(f"{self._script.said} sent params of type {kind}, expected arrays by name")
        arrays = {str(name): array_of(value, str(name)) for name, value in sent.params.items()}
        # A member of an enumeration of strings.
        if sent.params_type == "DIFF":
            return Changes(self._arrays.add(arrays)), self.samples, {}
        return self._arrays.keep(arrays), self.samples, {}

    def _send_model(self, parameters: Mapping[str, Any], context: Any) -> Any:
        """The script's reply to this round's model, asked for once: it evaluates and trains in one go."""
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
    """A running script, and the models that go to and fro.

    It offers what NVFlare's engines of the client API offer, for ``nvflare.client`` to call.

    Args:
        path: absolute.
        arguments: its own.
        party: NVFlare's site name.
    """

    def __init__(self, path: Path, arguments: list[str], party: str) -> None:
        self.said = path.name
        self.names: dict[str, Any] = {}
        self.told_of_failure = False
        """Whether an error ended it, and a round has failed for it."""
        self._path, self._arguments, self._party = path, arguments, party
        self._change = threading.Condition()
        self._waits = self._ended = self._received = False
        self._error = ""
        self._model: Any = None
        self._sent: Any = None

    def begin(self) -> None:
        """Run it up to where it first waits for a model.

        Raises:
            Refused: it ended before.
        """
        _stand_in(self)
        threading.Thread(target=self._run, name=self.said, daemon=True).start()
        with self._change:
            self._change.wait_for(lambda: self._waits or self._ended)
            self._refuse_end("before it received a model")

    def train(self, arrays: Mapping[str, Any], context: Any) -> Any:
        """Give it a model; what it sends.

        Raises:
            Refused: it has ended, or ends without sending.
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
            raise Refused(f"{self.said} failed: {self._error}")
        if self._ended:
            raise Refused(f"{self.said} ended {when}", "a script goes on while flare.is_running()")

    def _run(self) -> None:
        main = ModuleType("__main__")
        main.__file__ = str(self._path)
        self.names = vars(main)
        sys.argv = [str(self._path), *self._arguments]
        # Classes of the script are found there by pickle, as in a process of its own.
        sys.modules["__main__"] = main
        error = ""
        try:
            exec(compile(self._path.read_bytes(), str(self._path), "exec"), self.names)  # noqa: S102 - the user's own
        except SystemExit as left:
            error = f"exits with {left.code!r}" if left.code else ""
        except BaseException as raised:  # whatever the script raises
            traceback.print_exc()
            error = f"{type(raised).__name__}: {raised}".splitlines()[0]
        with self._change:
            self._ended, self._error = True, error
            self._change.notify_all()

    # What nvflare.client calls.

    def is_running(self) -> bool:
        """Wait for a model: there will be one, until the process is ended."""
        self._wait_for_script(None)
        return True

    def receive(self, timeout: Optional[float] = None) -> Any:  # noqa: UP045 - Python 3.9
        """The model, the same one until something was sent; None after ``timeout`` seconds."""
        found = self._wait_for_script(timeout)
        self._received = found is not None
        return found

    def send(self, model: Any, clear_cache: bool = True) -> None:
        """Take a model.

        Raises:
            RuntimeError: none was received since the last one was sent.
        """
        del clear_cache
        with self._change:
            if not self._received:
                raise RuntimeError("sends a model without having received one: once for each flare.receive()")
            self._sent, self._model, self._received = model, None, False
            self._change.notify_all()

    def system_info(self) -> dict[str, str]:
        """Job and site."""
        return {"job_id": self.get_job_id(), "site_name": self._party}

    def get_config(self) -> dict[str, Any]:
        """What a job would be configured with."""
        exchange = {"train_with_eval": True, "transfer_type": "FULL", "train_task_name": "train"}
        return {**self.system_info(), "TASK_NAME": "train", "TASK_EXCHANGE": exchange}

    def get_job_id(self) -> str:
        """The same for all."""
        return "securefl"

    def get_site_name(self) -> str:
        """The party's name."""
        return self._party

    def get_task_name(self) -> str:
        """There are no other tasks."""
        return "train"

    def is_train(self) -> bool:
        """Always."""
        return True

    def is_evaluate(self) -> bool:
        """Never: the script evaluates what it receives before it trains."""
        return False

    def is_submit_model(self) -> bool:
        """Never: local models stay where they are."""
        return False

    def log(self, key: str, value: Any, data_type: Any, **more: Any) -> bool:
        """Print it: the site's own log keeps it."""
        del data_type
        step = more.get("global_step")
        print(f"{key}: {value}" if step is None else f"{key} at {step}: {value}", flush=True)
        return True

    def clear(self) -> None:
        """Forget what was received."""
        self._received = False

    def shutdown(self) -> None:
        """Nothing to end: the process is ended from outside."""

    def _wait_for_script(self, timeout: float | None) -> Any:
        with self._change:
            if self._model is None:
                self._waits = True
                self._change.notify_all()
                self._change.wait_for(lambda: self._model is not None, timeout)
            return self._model


def _stand_in(script: Script) -> None:
    """Let ``nvflare.client.init`` make a context of ``script``.

    Raises:
        Refused: there is no such package.
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
