"""A device that computes on the CPU and acts as a GPU: its tensors mix with no other device's.

It finds what a GPU would refuse or be slowed down by, on machines without one:

- an operation on tensors of two devices raises, as on CUDA (single numbers and indices may be the CPU's);
- each wait of the host for the device is recorded in :data:`waits`, by the name of the operation;
- a table or a branch that knows ``cpu`` and ``cuda`` only fails.

Its results are the CPU's bits. The device is called ``fake`` and holds the place that torch keeps for third
parties' devices. It belongs into a process of its own, since it becomes the process's accelerator, and torch
knows it only if :func:`install` comes before the first backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "fake"
waits: list[str] = []
"""Operations for which the host waited, oldest first."""

_READS = {"aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero", "aten::nonzero"}
"""Operations whose result the host needs at once."""
_COPIES = {"aten::copy_", "aten::_to_copy"}
_INDEXING = {"aten::index.Tensor", "aten::index_put_", "aten::index_put"}
_libraries: list[Any] = []


class FakeTensor(torch.Tensor):
    """A tensor of the device."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    numbers: torch.Tensor
    """On the CPU."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> FakeTensor:
        made: FakeTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
        )
        made.numbers = inner
        return made

    def __repr__(self, **_: object) -> str:  # type: ignore[override]
        return f"fake({self.numbers!r})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        operation: Any,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return _run(operation, args, dict(kwargs or {}))


def install() -> None:
    """Register the device with torch, once a process."""
    if _libraries:
        return
    _setup_privateuseone_for_python_backend(NAME)
    library: Any = torch.library.Library("_", "IMPL")  # type: ignore[no-untyped-call]
    # Operations without tensors, such as torch.zeros(3, device="fake").
    library.fallback(lambda operation, *args, **kwargs: _run(operation, args, kwargs), "PrivateUse1")
    _libraries.append(library)


@contextmanager
def waits_of() -> Iterator[list[str]]:
    """Yield a list that holds the waits within the body once it has ended."""
    before, found = len(waits), list[str]()
    yield found
    found += waits[before:]


def _run(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute on the CPU what the device is asked for."""
    name = operation._schema.name
    to_cpu = False
    if kwargs.get("device") is not None:
        to_cpu = torch.device(kwargs["device"]).type == "cpu"
        kwargs = {**kwargs, "device": "cpu"}
    if name in _READS or to_cpu or (name == "aten::copy_" and not isinstance(args[0], FakeTensor)):
        waits.append(name)
    known: dict[int, torch.Tensor] = {}
    plain_args, plain_kwargs = _pytree.tree_map(_unwrapping(operation, known), (args, kwargs))
    found = operation(*plain_args, **plain_kwargs)
    if to_cpu:
        return found

    def wrapped(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        # An operation in place returns the tensor that it was given.
        return known[id(value)] if id(value) in known else FakeTensor(value)

    return _pytree.tree_map(wrapped, found)


def _unwrapping(operation: Any, known: dict[int, torch.Tensor]) -> Callable[[Any], Any]:
    """Return a function that replaces the device's tensors, notes them in ``known``, and refuses others."""
    name = operation._schema.name
    lenient = name in _COPIES or name in _INDEXING

    def unwrapped(value: Any) -> Any:
        if isinstance(value, FakeTensor):
            known[id(value.numbers)] = value
            return value.numbers
        if isinstance(value, torch.Tensor):
            if value.dim() and not lenient:
                raise RuntimeError(f"{operation} takes tensors of one device, got {NAME} and {value.device}")
            known[id(value)] = value
        return value

    return unwrapped
