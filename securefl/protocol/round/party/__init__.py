"""A party's machine."""
