"""Apps of other frameworks as sites (docs/adr/0053).

Like ``child.py`` these modules run in environments that have no securefl: they import the standard library,
numpy and, where needed, the framework. Python 3.9 or later.
"""
