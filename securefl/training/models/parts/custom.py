"""Model of a user's factory."""

import importlib
from typing import Annotated

from msgspec import Meta

from securefl import scenario
from securefl.base.errors import ConfigError


class CustomModel(scenario.Model, tag="custom", frozen=True, kw_only=True):
    """A model of your own: ``factory`` is ``"module:function"``."""

    reads = "both"
    factory: Annotated[str, Meta(pattern=r"^[\w.]+:\w+$")]
    """Function of (input_shape, classes) that returns a ``torch.nn.Module``."""

    @property
    def is_own(self) -> bool:
        return True

    def build(self, input_shape: tuple[int, ...], classes: int) -> object:
        module_name, function_name = self.factory.split(":")
        try:
            function = getattr(importlib.import_module(module_name), function_name)
        except AttributeError as error:
            raise ConfigError(
                "model.factory",
                f"module {module_name} has no {function_name}",
                "name a function of this module",
            ) from error
        except Exception as error:
            raise ConfigError(
                "model.factory",
                f"{module_name} cannot be imported: {type(error).__name__}: {error}",
                "install it at every party, or set PYTHONPATH",
            ) from error
        made: object = function(input_shape, classes)
        return made
