"""What a search costs: never less than the exact cost, wherever that can be computed, and by two accounts."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from dpmac.checks import ArgumentError
from dpmac.kernels import selection as kernel
from dpmac.kernels.loss_distributions import FULL, MEDIUM, composed
from dpmac.kernels.moments import event_of
from dpmac.kernels.selection import SPARE, Selection, distribution, moments, with_searches
from dpmac.kernels.tries import Tries
from dpmac.planning.calibration import calibrate
from dpmac.privacy.accounting import MIN_DELTA, ROUNDOFF, Mechanism, epsilon_of, figure_of

COARSE = replace(MEDIUM, quick=False)  # dp-accounting's own distributions, on a coarse grid
EPSILONS = np.linspace(0.0, 8.0, 161)
STEPS = Mechanism(1.1, 0.05, 60, "training step", 1e-12)


def search(*cases, mean=10.0, shape=0.0):
    found = Selection(cases, Tries.of_mean(mean, shape))
    return Mechanism(found.least_noise, search=found)


def bound(one, epsilons=EPSILONS):
    return np.asarray(composed([one], FULL).get_delta_for_epsilon(epsilons))


def best_of(tries, masses, order):
    """The exact law of the best of K runs: ``order`` lists the outcomes from the worst on."""
    z = np.concatenate([[0.0], np.cumsum(masses[order])])
    odds, s = 1 - tries.chance, tries.shape
    if s == 0:
        below = np.log1p(-odds * np.minimum(z, 1.0)) / math.log(tries.chance)
    else:
        below = ((1 - odds * np.minimum(z, 1.0)) ** -s - 1) / (tries.chance**-s - 1)
    found = np.empty_like(masses)
    found[order] = np.diff(below)
    return found


def hockey_stick(p, q, epsilons=EPSILONS):
    return np.array([np.maximum(p - np.exp(e) * q, 0).sum() for e in epsilons])


def gaussian_masses(sigma):
    """Outcomes of a Gaussian release with a row and without it, in small cells (which can only lose some privacy)."""
    ends = np.concatenate([[-math.inf], np.linspace(-8 * sigma, 1 + 8 * sigma, 1501), [math.inf]])
    there, blank = (np.diff(norm.cdf(ends, mean, sigma)) for mean in (1.0, 0.0))
    return there, blank


ORDERS = {
    "rising": lambda loss: np.argsort(loss),
    "falling": lambda loss: np.argsort(-loss),
    "extreme": lambda loss: np.argsort(np.abs(loss)),
    "middle": lambda loss: np.argsort(-np.abs(loss)),
    # the outcomes that speak most for the row just below a few that speak against it
    "worst": lambda loss: np.concatenate([np.argsort(loss)[120:], np.argsort(loss)[:120]]),
    "worse": lambda loss: np.concatenate([np.argsort(loss)[450:], np.argsort(loss)[:450]]),
}


def losses_of(there, blank):
    return np.log(np.maximum(there, 1e-300)) - np.log(np.maximum(blank, 1e-300))


@pytest.mark.parametrize(("sigma", "mean", "shape"), [(0.7, 1.1, 0.0), (3, 3, 1.0), (3, 10, 0.0), (1.5, 40, -0.5)])
def test_the_exact_cost_of_a_gaussian_run_is_never_above_the_bound(sigma, mean, shape):
    tries = Tries.of_mean(mean, shape)
    there, blank = gaussian_masses(sigma)
    claimed = bound(search((Mechanism(sigma),), mean=mean, shape=shape))
    for order in ORDERS.values():
        p, q = (best_of(tries, masses, order(losses_of(there, blank))) for masses in (there, blank))
        for exact in (hockey_stick(p, q), hockey_stick(q, p)):
            assert (exact <= claimed + 1e-10).all()  # what the rounding of the cells can make


def test_the_bound_is_not_far_from_the_worst_order():
    """Of the orders above, one costs 60 % of what is charged or more: nothing is given away by the dozen."""
    sigma, tries = 3.0, Tries.of_mean(10)
    there, blank = gaussian_masses(sigma)
    loss = losses_of(there, blank)
    fine = np.linspace(0, 4, 801)
    least = 0.0
    for order in ORDERS.values():
        p, q = (best_of(tries, masses, order(loss)) for masses in (there, blank))
        for exact in (hockey_stick(p, q, fine), hockey_stick(q, p, fine)):
            least = max(least, fine[np.argmax(exact <= 1e-5)])
    assert least <= epsilon_of([search((Mechanism(sigma),))], 1e-5) <= least / 0.6


def test_randomised_answers_with_ties_in_every_order():
    """Discrete outcomes: of equal scores an independent number decides, which splits each outcome into equal ones."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    assert np.log(p / q).max() <= epsilon_of([Mechanism(2.0)], 1e-3)
    delta = lambda losses: hockey_stick(p, q, losses)  # noqa: E731 - symmetric: both directions
    tries = Tries.of_mean(6)
    shift = min(math.log(math.exp(e) + tries.odds * d) for e, d in zip(EPSILONS, delta(EPSILONS), strict=True))
    for order in itertools.permutations(range(3)):
        best = [best_of(tries, masses, np.array(order)) for masses in (p, q)]
        for one, other in (best, best[::-1]):
            exact = hockey_stick(one, other)
            assert (exact <= tries.mean * delta(EPSILONS - shift) + 1e-12).all()


def test_equal_scores_by_the_earliest_run_are_equal_scores_by_lot():
    """Runs are exchangeable: whichever of several equal ones is taken, the law of what it holds is the same."""
    draws = np.random.default_rng(0)
    score, content = draws.integers(2, size=(60_000, 5)), draws.integers(4, size=(60_000, 5))
    score, content = score * 1.0, (content + score) % 4  # what a run holds depends on its score
    first = content[np.arange(len(score)), score.argmax(axis=1)]
    lot = content[np.arange(len(score)), (score + 0.5 * draws.random(score.shape)).argmax(axis=1)]
    assert np.abs(np.bincount(first) - np.bincount(lot)).max() < 5 * math.sqrt(60_000 / 4)


# --- the distribution -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cases", "shape"), [(((Mechanism(2.0),),), 1.0), (((STEPS,), (Mechanism(1.5),)), 0.0)])
def test_the_distribution_has_the_bound_and_the_hull_below_it(cases, shape):
    one = search(*cases, mean=5, shape=shape)
    runs = [composed([replace(m, overflow=0.0) for m in case], COARSE) for case in cases]
    fine = np.linspace(0, 12, 4001)

    def worst(losses):
        return np.max([run.get_delta_for_epsilon(losses) for run in runs], axis=0)

    tries = one.search.tries
    found = (
        (shape + 1) * np.logaddexp(e, math.log(tries.odds * d)) for e, d in zip(fine, worst(fine), strict=True) if d
    )
    shift = min(found)
    claimed = np.minimum(1.0, tries.mean * worst(EPSILONS - shift))
    made = distribution(one.search, 1e-3, COARSE)
    found = np.asarray(made.get_delta_for_epsilon(EPSILONS))
    tail = claimed < 0.01
    assert found[tail] == pytest.approx(claimed[tail], rel=0.02, abs=1e-9)
    assert (found <= claimed + 1e-5).all()  # near 0 the chord is lower
    assert made._pmf_remove._probs.sum() + made._pmf_remove._infinity_mass == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("mechanism", [Mechanism(2.0), replace(STEPS, overflow=0.0)])
def test_curves_are_those_of_dp_accounting(mechanism):
    run = composed([mechanism], COARSE)
    epsilons = np.linspace(-3, 15, 500)
    found = kernel._hockey_stick(run)(epsilons)
    assert found == pytest.approx(np.asarray(run.get_delta_for_epsilon(epsilons)), rel=1e-9, abs=1e-15)


def test_a_search_composes_with_everything_else():
    """The composition costs at least each of its parts, at most their sum, and in any order the same."""
    one, other = search((STEPS,), mean=4), Mechanism(3.0)
    steps = Mechanism(1.5, 0.02, 100)
    alone, both = epsilon_of([one], 1e-5), epsilon_of([one, other, steps], 1e-5)
    assert alone < both < sum(epsilon_of([m], 5e-6) for m in (one, other, steps))
    assert both == epsilon_of([steps, one, other], 1e-5)
    twice = epsilon_of([replace(one, count=2)], 1e-5)
    assert alone < twice <= 2 * epsilon_of([one], 5e-6)
    assert twice == epsilon_of([one, one], 1e-5)


def test_a_search_among_other_releases_is_composed_as_a_search():
    """As a Gaussian release of its least noise it would cost far less than it does."""
    one, other = search((Mechanism(2.0),)), Mechanism(50.0)
    both = composed([one, other], COARSE).get_epsilon_for_delta(1e-5)
    assert both > 1.2 * epsilon_of([Mechanism(2.0), other], 1e-5)
    assert both == with_searches([one, other], COARSE).get_epsilon_for_delta(1e-5)


def test_both_accounts_hold_beside_other_releases_too():
    """Each is the smaller one somewhere; what is reported is never more than either."""
    few = search((Mechanism(4.0),)), Mechanism(50.0)
    many = search((replace(STEPS, count=200, overflow=0.0),), mean=40), Mechanism(50.0)
    kinds = set()
    for mechanisms, delta in ((few, 1e-5), (many, 1e-5), (many, 1e-11)):
        rdp = epsilon_of(mechanisms, delta, "rdp")
        left = delta - ROUNDOFF * (1 + sum(m.count for m in mechanisms))
        pld = composed(mechanisms, FULL).get_epsilon_for_delta(left)
        found = figure_of(mechanisms, delta)
        assert found[0] == pytest.approx(min(rdp, pld), rel=1e-9)
        kinds.add(found[1])
    assert kinds == {"pld", "rdp"}


def test_rounding_is_reckoned_with_on_the_safe_side(monkeypatch):
    """Every bound grows with the margin; here it is huge."""
    bounded = moments
    assert 0.9e-12 < kernel._UP - 1.0 < 1.1e-12
    run = Selection(((replace(STEPS, overflow=1e-13),),), Tries.of_mean(10))
    orders, divergence = np.array([1.5, 2.0, 8.0]), np.array([0.1, 0.2, 3.0])

    def figures():
        kernel._curve.cache_clear()
        curve = kernel._curve(run, COARSE)
        return [curve.shift, *curve.bound(np.array([3.0, 4.0])), *bounded([divergence], orders, run.tries)]

    before = figures()
    one = Mechanism(run.least_noise, search=run)
    monkeypatch.setattr(kernel, "moments", lambda _, orders, __: np.full(len(orders), 0.1))
    assert kernel.renyi_epsilon([one], 1e-5, COARSE) < math.inf
    monkeypatch.setattr(kernel, "_UP", 2.0**30)
    assert kernel.renyi_epsilon([one], 1e-5, COARSE) == math.inf  # full samples, 2**30 times as likely
    assert all(more > less for more, less in zip(figures(), before, strict=True))
    kernel._curve.cache_clear()


@pytest.mark.parametrize("sigma", [0.05, 0.02])
def test_a_search_whose_losses_are_beyond_every_grid_is_counted_by_divergences(sigma):
    """Before, an account with such a search ended in an error of the library's."""
    one, others = search((Mechanism(sigma),)), [Mechanism(5.0), Mechanism(3.0, 0.1, 4)]
    for mechanisms in ([one], [one, *others], [replace(one, count=2), *others]):
        assert composed(mechanisms, COARSE).get_epsilon_for_delta(1e-5) == math.inf
        assert composed(mechanisms, COARSE).get_delta_for_epsilon(50.0) == 1.0
        assert figure_of(mechanisms, 1e-5) == (epsilon_of(mechanisms, 1e-5, "rdp"), "rdp")


def test_no_curve_says_more_than_one():
    curve = kernel._curve(Selection(((STEPS,),), Tries.of_mean(10)), COARSE)
    assert curve.delta(np.array([-90.0])) == [1.0]
    assert curve.bound(np.array([-90.0, 0.0])).max() == 1.0


def test_both_accounts_hold_and_the_smaller_is_reported():
    one = search((Mechanism(4.0),))
    pld, rdp = figure_of([one], 1e-5), figure_of([one], 1e-5, "rdp")
    assert (pld[1], rdp[1]) == ("pld", "rdp")
    assert pld[0] < rdp[0]
    tiny = figure_of([search((replace(STEPS, count=200, overflow=0.0),))], MIN_DELTA)
    assert tiny[1] == "rdp"  # ten times what rounding may take would be more than delta


def test_what_a_rounded_curve_may_miss_is_set_aside_before_it_is_multiplied():
    """The loss that rounding and full samples cause in one run, the search has m times."""
    assert SPARE == ROUNDOFF
    plain, full = search((replace(STEPS, overflow=0.0),)), search((replace(STEPS, overflow=1e-8),))
    far = np.array([60.0])
    assert bound(plain, far)[0] == pytest.approx(10 * 61 * SPARE, rel=0.5)
    assert bound(full, far)[0] == pytest.approx(10 * 60 * 1e-8, rel=0.02)
    assert epsilon_of([full], 1e-4) > epsilon_of([plain], 1e-4)


def test_more_tries_and_worse_cases_never_cost_less():
    run, worse, better = ((Mechanism(s),) for s in (3.0, 1.0, 50.0))
    few, many = (epsilon_of([search(run, mean=mean)], 1e-5) for mean in (3, 12))
    assert epsilon_of(run, 1e-5) < few < many
    assert epsilon_of([search(run, worse, mean=3)], 1e-5) > few
    assert epsilon_of([search(run, better, mean=3)], 1e-5) == pytest.approx(few, rel=1e-6)


# --- by Renyi divergences ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "shape"), [(2, 0.0), (10, 1.0), (10, 0.5)])
def test_the_divergences_are_those_of_dp_accounting(mean, shape):
    """RepeatAndSelectDpEvent, composed with what else was released."""
    from dp_accounting import dp_event, rdp

    tries, other = Tries.of_mean(mean, shape), Mechanism(5.0)
    run = [replace(STEPS, overflow=0.0), Mechanism(9.0)]
    accountant = rdp.RdpAccountant()
    accountant.compose(dp_event.RepeatAndSelectDpEvent(event_of(run), tries.mean, shape))
    accountant.compose(event_of([other]))
    found = epsilon_of([other, search(tuple(run), mean=mean, shape=shape)], 1e-5, "rdp")
    assert found == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-6)


def test_the_worst_case_counts_at_every_order():
    orders, tries = np.array([2.0, 8.0, 32.0]), Tries.of_mean(5)
    one, other = np.array([0.1, 0.5, 3.0]), np.array([0.2, 0.4, 1.0])
    both = moments([one, other], orders, tries)
    assert (both >= moments([one], orders, tries) - 1e-12).all()
    assert both == pytest.approx(moments([np.maximum(one, other)], orders, tries))


def test_full_samples_are_taken_from_delta():
    epsilons = [epsilon_of([search((replace(STEPS, overflow=o),))], 1e-5, "rdp") for o in (0.0, 1e-13, 1e-11, 1e-6)]
    assert epsilons[0] < epsilons[1] < epsilons[2] < epsilons[3] == math.inf


def test_full_samples_of_any_case_count_and_of_all_runs():
    """Whichever case is tried: a candidate whose samples are never full does not make up for one whose are."""
    rare, never = (replace(STEPS, overflow=o) for o in (1e-6, 0.0))
    for cases in (((rare,), (never,)), ((never,), (rare,))):
        assert epsilon_of([search(*cases)], 1e-5, "rdp") == math.inf


@pytest.mark.parametrize("share", [0.001, 0.5])
def test_as_little_of_delta_is_set_aside_for_full_samples_as_will_do(share):
    """(1 + exp(epsilon)) times their chance in all runs, of all steps."""
    delta, plain = 1e-5, search((replace(STEPS, overflow=0.0),))
    epsilon = epsilon_of([plain], delta * (1 - share), "rdp")
    chance = share * delta / (1 + math.exp(epsilon)) / (10 * 60)
    found = epsilon_of([search((replace(STEPS, overflow=0.999 * chance),))], delta, "rdp")
    assert found == pytest.approx(epsilon, rel=1e-9)
    assert epsilon_of([search((replace(STEPS, overflow=1.001 * chance),))], delta, "rdp") > found


def test_a_search_that_costs_little_is_said_to():
    assert 0.0 < epsilon_of([search((Mechanism(60.0),))], 1e-5, "rdp") < 0.5


def test_full_samples_of_runs_that_cost_a_lot_are_no_error():
    """exp(epsilon) is beyond a double."""
    costly = Mechanism(0.02, 0.5, 10, "training step", 1e-12)
    assert epsilon_of([search((replace(costly, overflow=0.0),))], 1e-5, "rdp") > 710
    assert epsilon_of([search((costly,))], 1e-5, "rdp") == math.inf


def test_divergences_of_low_orders_are_bounded_by_their_own():
    """Of an order in (1, 2] too; where a higher order has less, by that one's."""
    orders, tries = np.array([1.5, 2.0, 3.0]), Tries.of_mean(1.5)
    divergence = np.array([0.1, 4.0, 9.0])
    constant = min((1 - 1 / o) * d - math.log(tries.chance) / o for o, d in zip(orders, divergence, strict=True))
    formula = divergence + math.log(tries.mean) / (orders - 1) + constant
    assert (np.diff(formula) > 0).all()
    assert moments([divergence], orders, tries) == pytest.approx(formula, rel=1e-11)


# --- what is no search ------------------------------------------------------------------------------------------------


def test_a_search_without_noise_is_not_private():
    one = search((STEPS,), (replace(STEPS, noise_multiplier=0.0),))
    assert one.search.least_noise == 0
    assert epsilon_of([one], 1e-5) == math.inf


def test_a_search_needs_runs_and_no_search_within():
    with pytest.raises(ArgumentError, match="cases"):
        search()
    with pytest.raises(ArgumentError, match="cases"):
        search((STEPS,), ())
    with pytest.raises(ArgumentError, match="no bound here"):
        search((search((STEPS,)),))
    with pytest.raises(ArgumentError, match="no bound here"):
        search((STEPS,), (STEPS, search((STEPS,)), STEPS))


def test_a_search_is_never_taken_for_a_gaussian_release():
    one = search((STEPS,))
    with pytest.raises(TypeError, match="search"):
        event_of([one])
    plain = search((Mechanism(2.0),))
    assert composed([plain], MEDIUM).get_epsilon_for_delta(1e-5) > 1.2 * epsilon_of([Mechanism(2.0)], 1e-5)


def test_calibrations_see_what_a_search_has_spent():
    spent = search((Mechanism(8.0),), mean=3)
    noise = calibrate(lambda s: [spent, Mechanism(s)], 2.0, 1e-5)
    assert 1.98 < epsilon_of([spent, Mechanism(noise)], 1e-5) <= 2.0


def test_the_description_names_the_law_and_the_runs():
    said = search((STEPS,), (Mechanism(2.0, label="score"),), mean=10).describe("persons")
    assert "logarithmic law with a mean of 10" in said
    assert "Poisson sample of the persons" in said
    assert "score: Gaussian mechanism" in said
    assert "each run costs at most the largest of these: " in said
    assert "; each run: training step: " in search((STEPS,)).describe("persons")
    assert kernel.Selection is Selection
