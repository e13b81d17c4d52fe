"""Which levels a test may find: with a control group where one can be had, else without."""

BOXED = ("full", "strict")
