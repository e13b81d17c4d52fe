"""Programs and data that lie beside a check, read-only, and report what its tests did.

They run under whatever Python, Node or Go the check uses, so each needs its standard library alone.
"""
