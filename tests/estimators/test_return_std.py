"""``return_std`` against the error on fresh rows: simulated fits, rows and persons, at small and large budgets."""

from __future__ import annotations

import numpy as np
import pytest

from dpmac import ArgumentError, DPMACRegressor
from dpmac.estimators.warning import forget

FRESH = 4000
LAWS = {"normal": lambda draw, n: draw.normal(size=n), "exponential": lambda draw, n: draw.exponential(size=n) - 1}


def rows(n, seed, law, persons=False):
    """Of n rows or persons, who have 1 to 6 rows and a part of their residual in common."""
    draw = np.random.RandomState(seed)
    ids = np.repeat(np.arange(n), draw.randint(1, 7, n) if persons else 1)
    x = draw.uniform(-1, 1, (len(ids), 5))
    off = LAWS[law](draw, len(ids))
    if persons:
        off = (off + LAWS[law](draw, n)[ids]) / np.sqrt(2)
    y = 0.25 * np.tanh(2 * x[:, 0]) + 0.15 * x[:, 1] * x[:, 2] + 0.15 * off
    return x, np.clip(y, -1, 1), ids


def ratio(n, epsilon, seed, law, persons, **more):
    """What is stated over what is true."""
    x, y, ids = rows(n, seed, law, persons)
    fresh, theirs, _ = rows(FRESH, 1000 + seed, law, persons)
    forget()  # other rows, or the same with another budget, on purpose
    model = DPMACRegressor(epsilon=epsilon, target_range=(-1, 1), feature_range=(-1, 1), random_state=seed, **more)
    model.fit(x, y, groups=ids if persons else None)
    found, stated = model.predict(fresh, return_std=True)
    return stated[0] / np.sqrt(np.mean((found - theirs) ** 2))


@pytest.mark.long
@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("n", "epsilon"), [(1000, 0.5), (1000, 1.5), (1000, 8.0), (2500, 0.5), (2500, 1.5)])
def test_on_average_it_is_within_a_fifth_of_the_error_on_fresh_rows(n, epsilon, law, persons):
    found = [ratio(n, epsilon, seed, law, persons) for seed in range(3)]
    assert np.mean(found) == pytest.approx(1.0, abs=0.2)
    assert 0.5 < min(found) <= max(found) < 1.6


def test_one_fit_on_few_rows_is_about_right():
    """Batches of all rows: the accountant is quick then. One sum of squares would be off by half and more."""
    found = [ratio(1000, 1.0, seed, "normal", False, batch_size=1000, epochs=60) for seed in range(3)]
    assert np.mean(found) == pytest.approx(1.0, abs=0.2)


def test_where_it_could_not_be_told_nothing_is_spent_on_it_and_that_is_said():
    x, y, _ = rows(400, 0, "normal")
    model = DPMACRegressor((), epsilon=1.0, target_range=(-1, 1), feature_range=(-1, 1), epochs=2, random_state=0)
    model.fit(x, y)
    assert model.residual_std_ is None
    assert {entry.label for entry in model.privacy_.ledger.entries} == {"training step"}
    with pytest.raises(ArgumentError, match="n times epsilon of at least 500"):
        model.predict(x, return_std=True)
