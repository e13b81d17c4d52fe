"""The product outside the tests: calls that its tests check, made by an ordinary program."""
