"""Programs for developers; an installation of securefl does not include them."""
