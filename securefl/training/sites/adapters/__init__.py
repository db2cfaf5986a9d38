"""Apps of other frameworks as sites (docs/adr/0053).

They run without securefl, with Python 3.9 or later, and import the standard library, numpy and the framework.
"""
