"""A site's process that speaks the protocol of ``child.py`` and breaks it in one way.

Run by its file, alone, in place of ``securefl/training/sites/child.py``. The way is the name of the site that
it is asked for, ``ward:WAY``; it breaks the protocol in round 1, and before and after it is a good site. What
it has to meet its test for lies behind the party's name: paths of two named pipes, one to wait at and one to
answer on, or of a file that tells a second process from the first.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import mmap
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

HEADER = struct.Struct("!4sII")
MAGIC = b"SFL1"
LONGEST = 1 << 22
B, A = ["b", "float32", []], ["a", "float32", [2, 3]]
"""The arrays that it offers, and has in return."""
OFFER = {"samples": 5, "arrays": [B, A]}
TRAINED = {"change": False, "samples": 5, "metrics": {"loss": 0.5}, "arrays": [B, A]}
F_SEAL_FUTURE_WRITE = 0x10


class Child:
    """One process, and the memory that it shares."""

    def __init__(self, descriptor: int) -> None:
        self.channel = socket.socket(fileno=descriptor)
        self.way = ""
        self.party: list[str] = []
        self.number = 0
        self.region = -1
        self.memory: Any = None
        self.lengths: list[int] = []

    def serve(self) -> None:
        """Answer requests until the parent closes the socket."""
        while True:
            head = self.channel.recv(HEADER.size, socket.MSG_WAITALL)
            if len(head) < HEADER.size:
                return
            _, self.number, length = HEADER.unpack(head)
            asked = json.loads(self.channel.recv(length, socket.MSG_WAITALL))
            self.answer(asked)

    def answer(self, asked: dict[str, Any]) -> None:
        """Do what is asked, or break the protocol where it is time."""
        what = asked["do"]
        if what == "open":
            self.way, self.party = asked["site"].partition(":")[2], asked["party"].split(",")
            offer = OPENINGS[self.way](self) if self.way in OPENINGS else OFFER
            self.send({"evaluates": self.way in LOOKS, **offer})
        elif what == "region":
            _, (self.region, *_), _, _ = socket.recv_fds(self.channel, 1, 1)
            if self.way == "unshared" and self.is_first():
                self.send({"error": "MemoryError: no address is left"})
                return
            self.memory = mmap.mmap(self.region, asked["bytes"])
            self.lengths = [length for _, _, length in asked["layout"]]
            self.send({})
        elif what == "parameters":
            self.send({"arrays": [B, A]})
        elif what == "fit":
            self.put(1.0)
            if asked["told"][0] == 1 and self.way in WAYS:
                WAYS[self.way](self)
            else:
                self.send(TRAINED)
        else:
            self.send({"samples": 2, "metrics": LOOKS[self.way](self)})

    def send(self, reply: Any) -> None:
        """Send a reply as it should be."""
        self.frame(json.dumps(reply).encode())

    def frame(self, text: bytes, magic: bytes = MAGIC, number: int = 0, length: int | None = None) -> None:
        """Send a reply; ``number`` is how far its number lies from that of the request."""
        size = len(text) if length is None else length
        self.channel.sendall(HEADER.pack(magic, (self.number + number) % (1 << 32), size) + text)

    def put(self, value: float) -> None:
        """Write the number for all parameters that go back."""
        total, start = sum(self.lengths), 0
        for length in self.lengths if self.memory else ():
            at = 4 * total + 8 * start
            self.memory[at : at + 4 * length] = struct.pack("f", value) * length
            start += length

    def is_first(self) -> bool:
        """Whether no process of the test has asked so before."""
        mark = Path(self.party[0])
        first = not mark.exists()
        mark.write_text("")
        return first


def with_arrays(*arrays: Any) -> Callable[[Child], None]:
    """Return a training with other arrays."""
    return lambda child: child.send({**TRAINED, "arrays": list(arrays)})


def with_fields(**fields: Any) -> Callable[[Child], None]:
    """Return a training with other fields."""
    return lambda child: child.send({**TRAINED, **fields})


def with_text(text: bytes, **head: Any) -> Callable[[Child], None]:
    """Return a training that ends in some frame."""
    return lambda child: child.frame(text, **head)


def cut_off(child: Child) -> None:
    """End in the middle of a reply."""
    child.frame(b"{" * 50, length=100)
    os._exit(7)


def more_than_is_read(child: Child) -> None:
    """State a length beyond the limit, and stay."""
    child.frame(b"", length=LONGEST + 1)
    signal.pause()


def twice(child: Child) -> None:
    """Send the reply two times, at once."""
    text = json.dumps(TRAINED).encode()
    frame = HEADER.pack(MAGIC, child.number, len(text)) + text
    child.channel.sendall(frame + frame)


def in_advance(child: Child) -> None:
    """Answer the next question, with the right number, before it is asked; but after this reply was read."""
    child.send(TRAINED)
    wait, answer = child.party
    Path(wait).read_bytes()
    text = json.dumps({**TRAINED, "metrics": {"loss": 0.0}}).encode()
    child.frame(text, number=1)
    Path(answer).write_bytes(b"sent")
    signal.pause()


def changes_memory(child: Child) -> None:
    """Reply, and overwrite what was returned whenever the test likes, with what is not finite."""
    wait, answer = child.party

    def overwrite() -> None:
        while True:
            Path(wait).read_bytes()
            child.put(float("nan"))
            Path(answer).write_bytes(b"done")

    threading.Thread(target=overwrite, daemon=True).start()
    child.send(TRAINED)


LINES = "a\nforged: line\x1b[2J"
WAYS: dict[str, Callable[[Child], None]] = {
    "number-before": with_text(json.dumps(TRAINED).encode(), number=-1),
    "number-after": with_text(json.dumps(TRAINED).encode(), number=1),
    "number-zero": lambda child: child.frame(json.dumps(TRAINED).encode(), number=-child.number),
    "magic": with_text(json.dumps(TRAINED).encode(), magic=b"SFL2"),
    "no-byte": with_text(b""),
    "one-byte": with_text(b"0"),
    "too-long": more_than_is_read,
    "cut-off": cut_off,
    "twice": twice,
    "in-advance": in_advance,
    "list": with_text(b"[]"),
    "text": with_text(b'"fit"'),
    "null": with_text(b"null"),
    "half": with_text(b'{"arrays":'),
    "deep": with_text(b"[" * 200_000),
    "no-text": with_text(b"\xff\xfe{}"),
    "digits": with_text(b'{"samples":' + b"9" * 5_000 + b"}"),
    "nothing": with_text(b"{}"),
    "no-list": with_fields(arrays={"a": "float32"}),
    "no-triple": with_arrays(B, ["a", "float32"]),
    "array-twice": with_arrays(B, A, A),
    "name-of-a-number": with_arrays(B, [1, "float32", []]),
    "negative": with_arrays(B, ["a", "float32", [-2, -3]]),
    "fraction": with_arrays(B, ["a", "float32", [2.0, 3]]),
    "truth": with_arrays(["b", "float32", [True]], A),
    "huge": with_arrays(B, ["a", "float32", [1 << 40]]),
    "huge-product": with_arrays(B, ["a", "float32", [1 << 20, 1 << 20]]),
    "many-dimensions": with_arrays(B, ["a", "float32", [1] * 33]),
    "turned": with_arrays(B, ["a", "float32", [3, 2]]),
    "flat": with_arrays(B, ["a", "float32", [6]]),
    "one-less": with_arrays(A),
    "one-more": with_arrays(B, A, ["c", "float32", []]),
    "integers": with_arrays(["b", "int64", []], A),
    "objects": with_arrays(["b", "object", []], A),
    "fields": with_arrays(["b", "f8," * 20, []], A),
    "wide": with_arrays(["b", "S2000000000", []], A),
    "no-dtype": with_arrays(["b", "float\n33", []], A),
    "line-in-name": with_arrays(B, A, [LINES, "float32", []]),
    "line-in-kind": with_fields(kind=LINES),
    "line-in-metric": with_fields(metrics={LINES: "x"}),
    "line-in-error": lambda child: child.send({"error": LINES, "traceback": LINES}),
    "long-error": lambda child: child.send({"error": "e" * 3_000_000}),
    "no-error": lambda child: child.send({"error": None}),
    "no-samples": with_fields(samples=None),
    "samples-of-a-list": with_fields(samples=[5]),
    "fewer-than-none": with_fields(samples=-1),
    "true-samples": with_fields(samples=True),
    "no-metrics": with_fields(metrics=[1.0]),
    "true-metric": with_fields(metrics={"ok": True}),
    "memory": changes_memory,
}
OPENINGS: dict[str, Callable[[Child], dict[str, Any]]] = {
    "too-many-parameters": lambda _: {
        **OFFER,
        "arrays": [["a", "float32", [1 << 30]], ["b", "float32", [1 << 30]], ["c", "float32", [1]]],
    },
    "offered-twice": lambda _: {**OFFER, "arrays": [B, A, B]},
    "nothing-offered": lambda _: {"samples": 5},
    "lacking": lambda _: {"lacking": LINES},
    "refused": lambda _: {"reason": LINES, "remedy": ["none"]},
    "failed": lambda child: OFFER if child.is_first() else {"error": "OSError: the data are away"},
    "other-samples": lambda child: {**OFFER, "samples": 5 if child.is_first() else 50},
    "other-shapes": lambda child: {**OFFER, "arrays": [B, A] if child.is_first() else [A]},
    "no-shapes": lambda child: {**OFFER, "arrays": [B, A] if child.is_first() else "none"},
}


def end(child: Child) -> None:
    """End, so that the next training starts another process."""
    os._exit(7)


WAYS |= dict.fromkeys(("failed", "other-samples", "other-shapes", "no-shapes"), end)


def seals(child: Child) -> dict[str, float]:
    """Try to cut the memory short, to lengthen it, and to seal it against the parent; what was possible."""
    size = os.fstat(child.region).st_size
    attempts: dict[str, Callable[[], object]] = {
        "shrink": lambda: os.ftruncate(child.region, 0),
        "grow": lambda: os.ftruncate(child.region, 2 * size),
        "seal": lambda: fcntl.fcntl(child.region, fcntl.F_ADD_SEALS, F_SEAL_FUTURE_WRITE),
    }
    possible = {}
    for name, attempt in attempts.items():
        try:
            attempt()
        except PermissionError:
            possible[name] = 0.0
        else:
            possible[name] = 1.0
    return possible


def surroundings(_child: Child) -> dict[str, float]:
    """Print what the process was started with: its folder, and modules that it would find."""
    names = [
        name
        for name in ("on_the_path", "in_the_folder", "beside_the_child")
        if importlib.util.find_spec(name)
    ]
    print(json.dumps({"folder": str(Path.cwd()), "modules": names, "path": os.environ.get("PYTHONPATH")}))
    return {}


LOOKS = {"seals": seals, "surroundings": surroundings}

if __name__ == "__main__":
    Child(int(sys.argv[1])).serve()
