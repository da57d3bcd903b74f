"""What several processes have trained knows its ledger in each of them."""

from __future__ import annotations

from dataclasses import replace

from together_child import ledger_of, shard, trainer

from dpmac.privacy import Ledger
from processes import together_run, values


def trained_twice(world, path):
    first = trainer(world, unseeded=True)
    run = first.fit(*shard(world), ledger=ledger_of(world, path))
    plan = replace(first.plan, before=run.ledger.mechanisms())
    again = replace(first, network=run.model, plan=plan).fit(*shard(world), ledger=run.ledger)
    return len(again.ledger), sorted({entry.run for entry in again.ledger.entries}), 2 * first.plan.steps


def test_a_model_is_gone_on_with_under_its_own_ledger_by_all(tmp_path):
    """Found in review: followers' books had another run's name, and refused the model that they had trained."""
    path = str(tmp_path / "ledger")
    found = values(together_run(2, trained_twice, path))
    assert found[0] == found[1]
    count, runs, expected = found[0]
    assert count == expected == len(Ledger.read(path))
    assert runs == sorted({entry.run for entry in Ledger.read(path).entries})
