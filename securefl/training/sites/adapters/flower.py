"""Flower ``ClientApp`` as a site (flwr 1.41)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

try:
    import tomllib
except ImportError:  # Python 3.10; flwr also needs it
    import tomli as tomllib  # type: ignore[import-not-found,no-redef,unused-ignore]

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, Metadata, RecordDict

from .app_arrays import AppArrays
from .offer import Given, Refused, samples_of

COUNT = "num-examples"
"""Metric that weights replies."""
_OK = 0
_NO_EVALUATE = 4
"""Status codes of older clients (flwr.common.Code)."""


class FlowerSite:
    """Site that calls an app to train and to evaluate, as a Flower server would.

    ``Context.state`` is kept as long as the process lives.

    Args:
        module: has ``samples`` and, above it, ``pyproject.toml``.
        given: the initial model, and the party's index.

    Raises:
        Refused: the app has mods, or no training, or no number of samples.
    """

    def __init__(self, app: Any, module: ModuleType, given: Given) -> None:
        _refuse_mods(app)
        self._app, self._older = app, app._call is not None
        handlers = app._registered_funcs
        if not self._older and "train.default" not in handlers:
            raise Refused("the ClientApp has neither @app.train() nor a client_fn")
        if self._older or "evaluate.default" in handlers:
            self.evaluate = self._evaluate
        project = _project(module)
        table = project.get("tool", {}).get("securefl", {}).get("flower", {})
        # A ServerApp would pass these to its strategy; none runs here.
        self._config = {kind: _flat(table.get(f"{kind}-config", {})) for kind in ("train", "evaluate")}
        node = {"num-partitions": given.partitions}
        if given.partition is not None:
            node["partition-id"] = given.partition
        self._context = Context(
            run_id=1,
            node_id=1 + (given.partition or 0),
            node_config=node,
            state=RecordDict(),
            run_config=_flat(project.get("tool", {}).get("flwr", {}).get("app", {}).get("config", {})),
        )
        self.samples = samples_of(vars(module), module.__name__, self._context)
        self._arrays = AppArrays(given.file)

    def parameters(self) -> dict[str, Any]:
        """Return names and shapes of the initial model's file."""
        return self._arrays.first

    def fit(self, parameters: Mapping[str, Any], context: Any) -> tuple[dict[str, Any], Any, dict[str, Any]]:
        """Train one round; keep arrays that are not sent."""
        if context.samples is not None and context.samples < self.samples:
            reason = "a Flower app cannot be told to train on its first samples only"
            raise Refused(reason, 'set weighting.use = "all"')
        reply = self._ask("train", parameters, context)
        records = list(reply.array_records.values())
        if len(records) != 1:
            raise Refused(f"train replied with {len(records)} ArrayRecords, expected one")
        found = {name: array.numpy() for name, array in records[0].items()}
        arrays = self._arrays.arrays_by_name(found.values(), "fit returned") if self._older else found
        count, metrics = self._metrics(reply, "train")
        return self._arrays.keep(arrays), count, metrics

    def _evaluate(self, parameters: Mapping[str, Any], context: Any) -> tuple[Any, dict[str, Any]]:
        reply = self._ask("evaluate", parameters, context)
        return self._metrics(reply, "evaluate") if reply is not None else (0, {})

    def _ask(self, kind: str, parameters: Mapping[str, Any], context: Any) -> Any:
        """Return the records of the reply; None if an older client does not evaluate."""
        number = context.number + 1
        settings = {**self._config[kind], "server-round": number}
        record = ArrayRecord({name: Array(a) for name, a in self._arrays.complete(parameters).items()})
        if self._older:
            prefix = "fitins" if kind == "train" else "evaluateins"
            settings["server_round"] = number
            content = {f"{prefix}.parameters": record, f"{prefix}.config": ConfigRecord(settings)}
        else:
            content = {"arrays": record, "config": ConfigRecord(settings)}
        reply = self._app(_message(kind, RecordDict(content), self._context.node_id, number), self._context)
        if not isinstance(reply, Message):
            raise Refused(f"{kind} returned {type(reply).__name__}, expected a Message")
        if reply.has_error():
            raise Refused(f"{kind} replied with an error: {reply.error.reason}")
        return self._older_reply(kind, reply.content) if self._older else reply.content

    def _older_reply(self, kind: str, content: Any) -> Any:
        status = content.config_records["fitres.status" if kind == "train" else "evaluateres.status"]
        if status["code"] == _OK:
            return content
        if status["code"] == _NO_EVALUATE:
            return None
        raise Refused(f"{kind} replied with status {status['code']}: {status['message']}")

    def _metrics(self, content: Any, kind: str) -> tuple[Any, dict[str, Any]]:
        """Return the count of samples, and all metrics that are single numbers."""
        found: dict[str, Any] = {}
        for record in content.metric_records.values():
            found.update(record)
        if self._older:
            prefix = "fitres" if kind == "train" else "evaluateres"
            found[COUNT] = found.pop("num_examples")
            found.update(content.config_records[f"{prefix}.metrics"])
        if COUNT not in found:
            raise Refused(f"{kind} replied without the metric {COUNT}")
        count = found.pop(COUNT)
        count = int(count) if isinstance(count, float) and count.is_integer() else count
        numbers = {
            name: value
            for name, value in found.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        }
        return count, numbers


def _message(kind: str, content: Any, node: int, number: int) -> Any:
    metadata = Metadata(
        run_id=1,
        message_id=f"{kind}-{number}",
        src_node_id=0,
        dst_node_id=node,
        reply_to_message_id="",
        group_id=str(number),
        created_at=time.time(),
        ttl=3600.0,
        message_type=kind,
    )
    return Message(content=content, metadata=metadata)


def _refuse_mods(app: Any) -> None:
    mods = list(app._mods)
    for handler in app._registered_funcs.values():
        mods += _mods_of(handler)
    if mods:
        names = ", ".join(dict.fromkeys(getattr(mod, "__name__", type(mod).__name__) for mod in mods))
        raise Refused(
            f"the ClientApp has the mod {names}", "take it out: securefl clips, masks and adds noise"
        )


def _mods_of(handler: Any) -> list[Any]:
    """Return the mods around one handler, from its closure."""
    code = getattr(handler, "__code__", None)
    held = dict(zip(code.co_freevars, handler.__closure__ or ())) if code else {}  # noqa: B905 - Python 3.9
    if set(held) != {"_mod", "_ffn"}:
        return []
    return [held["_mod"].cell_contents, *_mods_of(held["_ffn"].cell_contents)]


def _project(module: ModuleType) -> dict[str, Any]:
    """Return the ``pyproject.toml`` beside the module's top package, or above."""
    place = Path(getattr(module, "__file__", None) or "").resolve()
    for folder in list(place.parents)[: 1 + module.__name__.count(".") + 1]:
        file = folder / "pyproject.toml"
        if file.is_file():
            return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    return {}


def _flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return nested tables flattened, with dots between their keys."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{above}{key}"
        found.update(_flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value})
    return found
