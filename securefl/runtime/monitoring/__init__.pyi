from .endpoint import monitoring as monitoring
from .monitor import RunMonitor as RunMonitor
