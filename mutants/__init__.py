"""Mutants: privacy bugs that somebody made or could make, each put into a copy of the package for the tests to find.

``python -m mutants`` (``make mutants``) applies them one at a time. A mutant that no test and no audit kills is a hole
in the tests: it ends the command with 1. So does one that no longer fits the code, for then nobody knows.
"""
