from .parts.sgd import Sgd as Sgd
from .stepping import first_moments as first_moments
from .stepping import past_update as past_update
from .stepping import server_step as server_step
