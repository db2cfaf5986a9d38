from .export import export_run as export_run
from .validation import FORMAT as FORMAT
from .validation import SiteValidation as SiteValidation
from .validation import arrays_digest as arrays_digest
from .validation import write_validation as write_validation
