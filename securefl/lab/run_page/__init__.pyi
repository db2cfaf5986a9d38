from .collect import RunFiles as RunFiles
from .collect import SummaryFields as SummaryFields
from .collect import read_run as read_run
from .page import follow_run as follow_run
from .page import run_page as run_page
from .page import write_page as write_page
