"""Plans: what a training will release, fixed before it begins, with the least noise that its budget allows.

Nothing here has to be trusted: the ledger records what was really released, and the accountant reads only the ledger.
"""

import dpmac.privacy  # noqa: F401 - the privacy core first: it re-exports the plan
