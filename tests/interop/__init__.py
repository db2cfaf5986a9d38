"""Apps of other frameworks as sites; `make interop` makes their environments and runs these."""
