from .export import export_run as export_run
from .validation import FORMAT as FORMAT
from .validation import ValidatedMetric as ValidatedMetric
from .validation import Validation as Validation
from .validation import arrays_digest as arrays_digest
from .validation import write_validation as write_validation
