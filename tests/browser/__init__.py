"""Pages in a browser: accessibility, layout, keyboard, print, and reference screenshots (docs/adr/0073)."""
