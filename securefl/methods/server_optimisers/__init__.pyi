from .averaged import NO_STATE as NO_STATE
from .averaged import AveragedState as AveragedState
from .averaged import is_averaged as is_averaged
from .averaged import prepare_arrays as prepare_arrays
from .parts.sgd import Sgd as Sgd
from .stepping import first_moments as first_moments
from .stepping import past_update as past_update
from .stepping import server_step as server_step
