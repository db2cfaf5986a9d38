"""Local methods, one file each; the file's name is its ``type``. No file imports torch."""
