"""Local methods: one file for each ``type``. No file imports torch."""
