"""Extensions of the privacy core, to be read only if they are used.

Persons with several rows, several processes, rows that are not in memory, ledgers on disk, feature maps that are
computed once, the provenance of public numbers, and the check that code treats every row separately. Each builds on
:mod:`dpmac.privacy`, which must be imported first and refers to them in a few named places only.
"""

import dpmac.privacy  # noqa: F401 - the privacy core first: it re-exports some of these names
