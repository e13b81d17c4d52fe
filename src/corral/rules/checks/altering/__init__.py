"""Tests of the base with other expected values: honest work fails them, a check that cannot fail passes them."""

from corral.rules.checks.altering.alteration import AlteredFiles, AlteredTest, Source, alter, deciding_scripts, may_hold

__all__ = ["AlteredFiles", "AlteredTest", "Source", "alter", "deciding_scripts", "may_hold"]
