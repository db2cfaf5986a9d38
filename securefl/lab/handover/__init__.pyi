from .export import export_run as export_run
