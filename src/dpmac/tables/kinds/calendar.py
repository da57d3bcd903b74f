"""Months and weekdays of day numbers, computed on tensors, so that a whole column is one operation.

Days are whole numbers since 2000-01-01, negative before it, in the proleptic Gregorian calendar.
"""

from __future__ import annotations

import torch
from torch import Tensor


def _rest(number: Tensor, by: int) -> Tensor:
    return number - by * torch.floor(number / by)


def month(day: Tensor) -> Tensor:
    """The month, 0 to 11, of whole days since 2000-01-01.

    Counted from 1 March, so that a leap day is the last of its year: 400 years have 146,097 days, 100 of them 36,524
    (one day more at the end of the 400), 4 of them 1,461, and from March on months begin at (153 m + 2) / 5.
    """
    of_400 = _rest(day - 60, 146_097)
    leap_days = torch.floor(of_400 / 1460) - torch.floor(of_400 / 36_524) + torch.floor(of_400 / 146_096)
    year = torch.floor((of_400 - leap_days) / 365)
    of_year = of_400 - (365 * year + torch.floor(year / 4) - torch.floor(year / 100))
    return _rest(torch.floor((5 * of_year + 2) / 153) + 2, 12)


def weekday(day: Tensor) -> Tensor:
    """The weekday, 0 (Monday) to 6, of whole days since 2000-01-01, which was a Saturday."""
    return _rest(day + 5, 7)
