"""Apps of other frameworks as sites (docs/adr/0053).

Like ``child.py`` these modules run in environments without securefl, with Python 3.9 or later. They import
the standard library, numpy and, if needed, the framework.
"""
