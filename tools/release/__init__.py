"""``make release``: files of a version, checked, with digests, a bill of materials and a signature."""
