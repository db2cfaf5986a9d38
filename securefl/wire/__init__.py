"""Bytes on the wire: codec, signed envelope, chunks, topics."""
