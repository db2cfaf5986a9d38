"""One server optimiser a file; the file's name is its ``type``."""
