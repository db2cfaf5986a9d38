"""Five sites learn to read digits: in Flower, and, unchanged, in securefl."""
