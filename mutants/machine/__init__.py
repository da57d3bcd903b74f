"""Mutation by machine: every simple bug in every line of the code that must be trusted, one at a time.

``python -m mutants.machine`` (``make mutate``) changes one operator, constant, condition or statement, runs the tests
that execute that line, and records whether one of them fails. A mutant that no test notices is a hole in the tests, or
it is explained, in one sentence, in ``explained/``.

The order of the work, and where it is done:

- :mod:`~mutants.machine.targets` names the files, :mod:`~mutants.machine.operators` the bugs, and
  :mod:`~mutants.machine.mutation` makes the mutants;
- :mod:`~mutants.machine.tracing` notes which test executes which line, and :mod:`~mutants.machine.coverage` keeps it;
- :mod:`~mutants.machine.hot` and :mod:`~mutants.machine.cold` run tests on a mutant, each in a process forked from one
  that has imported everything, or everything but this package;
- :mod:`~mutants.machine.running` hands mutants out, and :mod:`~mutants.machine.verdicts` keeps what became of them.
"""
