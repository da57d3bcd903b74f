"""Releases that are held to an account: every one of them, whoever makes it, and a training as a whole beforehand."""

from __future__ import annotations

from collections.abc import Sequence

from dpmac.checks import ArgumentError
from dpmac.extensions.accounts import Account, Allowance, most_that_fits
from dpmac.extensions.ledger_places import check_unit_of
from dpmac.privacy.accounting import Mechanism
from dpmac.privacy.entry import Entry
from dpmac.privacy.ledger import Releases


class HeldToAccount(Releases):
    """Releases with an account, or without one; what users hold is a :class:`~dpmac.extensions.ledgers.Ledger`."""

    def __init__(self) -> None:
        super().__init__()
        self._set_account(None)

    @property
    def account(self) -> Account | None:
        """The total that all releases are held to; None if the ledger was not opened with one."""
        return self._account

    def _set_account(self, account: Account | None) -> None:
        self._account = account
        self._allowance: Allowance | None = None
        if account is not None:
            self._allowance = Allowance(account)

    def check_account(self, account: Account) -> None:
        """Raise unless an account can be opened: there is none yet, and what was released fits into it."""
        if self._account is not None:
            held = f"epsilon {self._account.total_epsilon:g} at delta {self._account.delta:g}"
            fix = f"it was opened with a total of {held} before, and a total can be neither raised nor lowered"
            raise ArgumentError("ledger", self, fix)
        if len(self) and not account.admits(self.unit):
            fix = f"the ledger holds releases whose unit of privacy is a {self.unit}: give that unit"
            raise ArgumentError("unit", account.unit, fix)
        error = account.over(self.mechanisms(), ())
        if error is not None:
            raise error

    def check_plan(self, own: Sequence[Mechanism], run: str = "") -> None:
        """Raise unless all that is going to be released, ``own``, fits into the account; without one everything does.

        ``run`` is that of a training which is resumed: what it has released already is among ``own``.
        """
        if self._allowance is None:
            return
        spent, mine = ([entry.mechanism() for entry in some] for some in (self.entries, self._of_run(run)))
        self._allowance.plan(spent, own, mine)

    def _of_run(self, run: str) -> list[Entry]:
        return [entry for entry in self._entries if run and entry.run == run]

    def _check_total(self, entry: Entry) -> None:
        """Raise unless one more release fits into the account."""
        if self._allowance is not None:
            self._allowance.admit((kept.mechanism() for kept in self._entries), entry.mechanism())

    @property
    def unit(self) -> str:
        """The unit of privacy of all entries, or of the account; "row" without either."""
        if self._account is None or len(self):
            return super().unit
        return self._account.unit

    def check_unit(self, unit: str, places: int | None = None) -> None:  # noqa: ARG002 - for the ledger of a split
        """Raise if the unit differs from that of the releases, or of the account."""
        differs = bool(len(self)) and unit != self.unit
        if self._account is not None and not self._account.admits(unit):
            differs = True
        check_unit_of(self, self.unit, unit, differs=differs)

    def remaining(self, epsilon: float | None = None, delta: float | None = None) -> float:
        """What is left of a total: the largest epsilon at ``delta`` of one more Gaussian release that still fits.

        None takes what the account says. 0 if nothing fits, and never more than a release with the smallest noise that
        a calibration may choose. A training of many sampled steps composes slightly differently from one release, so an
        estimator computes this again for what it is going to release.
        """
        if self._account is not None:
            if epsilon is None:
                epsilon = self._account.total_epsilon
            if delta is None:
                delta = self._account.delta
        if epsilon is None or delta is None:
            raise ArgumentError("epsilon", epsilon, "the ledger has no account: give a total, and its delta")
        return most_that_fits(self.mechanisms(), epsilon, delta)
