"""A whole federation in one process: the same sums and models as a run, without network, keys and masks."""
