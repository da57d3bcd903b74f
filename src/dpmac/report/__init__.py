"""The report on a run: one page of HTML."""
