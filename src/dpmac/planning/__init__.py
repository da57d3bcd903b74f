"""Plans: what a training will release, fixed before it begins, with the least noise that its budget allows.

Nothing here must be trusted: what was really released stands in the ledger, and the accountant reads only that.
"""

import dpmac.privacy  # noqa: F401 - the argument first: it re-exports the plan
