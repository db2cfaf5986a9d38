"""One local method a file; the file's name is its ``type``. No file imports torch."""
