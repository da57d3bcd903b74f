"""Tests of the command line; a package, so that its conftest is not taken for the one above."""
