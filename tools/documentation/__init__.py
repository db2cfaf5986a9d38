"""``make docs``: generated pages, rewritten links, and a check that the site loads nothing from a network."""
