"""Plans: what a training will release, fixed before it begins, with the least noise that its budget allows.

Nothing here is trusted with the account: the ledger records what was really released, and the accountant reads only the
ledger. It is trusted with one thing: that a plan is fixed before the first release, because the figure of an account is
for releases that were fixed beforehand (docs/proof.md, "What a query and its caller owe").
"""

import dpmac.privacy  # noqa: F401 - the privacy core first: it re-exports the plan
