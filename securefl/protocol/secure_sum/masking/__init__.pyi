from . import client as client
from . import opening as opening
from . import server as server
from .kind import Masking as Masking
