"""From declared sample counts to public weights."""
