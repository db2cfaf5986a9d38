"""Federated learning with secure sums, robust rules and differential privacy over unreliable networks.

These names, imported on first use, are the public API (docs/python.md); others may change without notice.
"""

from importlib.util import find_spec

import lazy_loader

_imported, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name in __all__:
        return _imported(name)
    # ``from securefl import scenario`` asks here before importing the module.
    if name.startswith("__") or (name.isidentifier() and find_spec(f"{__name__}.{name}")):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from securefl import attacks, rules, sections  # noqa: PLC0415 - imported when first used, as all names
    from securefl.base.text import refuse_attribute  # noqa: PLC0415 - the same

    modules = () if name.startswith("_") else (attacks, rules, sections)
    elsewhere = {one: f"{module.__name__}.{one}" for module in modules for one in module.__all__}
    return refuse_attribute(__name__, __all__, elsewhere)(name)
