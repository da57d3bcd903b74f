"""Extensions of the argument, to be read only if they are used.

Persons with several rows, several processes, rows that are not in memory, ledgers on the disk, feature maps that are
computed once, the provenance of public numbers, and the check that code treats every row by itself. Each builds on
:mod:`dpmac.privacy`, which must be imported first and knows of them in a few named places only.
"""

import dpmac.privacy  # noqa: F401 - the argument first: it re-exports some of what is here
