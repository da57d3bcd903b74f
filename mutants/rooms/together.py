"""Mutants of several processes: sums noised twice or never, payments lost or doubled, shards taken for tables."""

from __future__ import annotations

from mutants.mutant import Mutant

WORLD, SHARDS = "tests/privacy/test_world.py", "tests/privacy/test_shards.py"
TOGETHER, PROCESSES = "tests/training/test_together.py", "tests/estimators/test_in_processes.py"
ONCE = f"{WORLD}::test_the_noise_is_added_once"

MUTANTS = (
    Mutant(
        "several-noised-never",
        "Sums of several processes are released as they are: only a process alone adds noise.",
        "Each branch thinks that the other one adds it.",
        "privacy/door.py",
        "return perturbed(totals, query.partitions, scales, grid,",
        "return perturbed(totals, query.partitions, scales, Grid(0, 0.0) if on_grid else grid,",
        (ONCE,),
    ),
    Mutant(
        "several-noised-by-each",
        "Every process adds noise to its own sums, and the leader once more to the total.",
        "Local noise is what federated learning does.",
        "privacy/world.py",
        "        whole = torch.cat([total.reshape(-1) for total in sums])\n",
        "        whole = torch.cat([total.reshape(-1) for total in sums])\n"
        "        whole = whole + torch.round(torch.randn_like(whole) * whole.abs().max().clamp(min=2.0**20))\n",
        (ONCE,),
    ),
    Mutant(
        "several-noised-by-followers",
        "A process that does not lead perturbs the answer again.",
        "What it gets looks like a sum.",
        "privacy/world.py",
        "        noted()\n        return answer\n",
        "        more = paid([torch.zeros_like(value) for value in answer.values()], True)\n"
        "        return {name: value + more[name] for name, value in answer.items()}\n",
        (f"{SHARDS}::test_only_the_leader_draws_noise",),
    ),
    Mutant(
        "several-paid-by-no-one",
        "With several processes the leader's ledger gets no event: the others note it.",
        "Every process calls append, so one of them was taken out; the wrong one.",
        "privacy/door.py",
        "        ledger.append(entry)\n        return perturbed(",
        "        (ledger.append if batch.world.size == 1 else repr)(entry)\n        return perturbed(",
        (f"{WORLD}::test_all_get_what_one_process_would_release_and_each_keeps_one_event",),
    ),
    Mutant(
        "several-paid-after",
        "With several processes the event is written when the noise has been drawn.",
        "The total is only known when everybody has sent.",
        "privacy/door.py",
        "        ledger.append(entry)\n        return perturbed(",
        "        (ledger.append if batch.world.size == 1 else repr)(entry)\n        answer = perturbed(",
        (f"{SHARDS}::test_the_event_is_on_the_disk_once_when_noise_is_drawn",),
        also=(
            (
                "source, float(divisor), on_grid)\n",
                "source, float(divisor), on_grid)\n"
                "        (repr if batch.world.size == 1 else ledger.append)(entry)\n        return answer\n",
            ),
        ),
    ),
    Mutant(
        "several-paid-by-each",
        "Every process writes the event into the ledger's file.",
        "All of them were given its path.",
        "training/following.py",
        "Ledger.at(ledger, data_set) if world.leads else Ledger())",
        "Ledger.at(ledger, data_set))",
        (f"{PROCESSES}::test_one_process_writes_the_ledger_that_all_name",),
        also=(("    if world.leads:\n        return mine\n", "    if mine is not None:\n        return mine\n"),),
    ),
    Mutant(
        "shards-n",
        "The table's n is the number of this process' own places.",
        "It was the length of the rows before there were others.",
        "privacy/private_rows.py",
        "        return sum(self._shards)\n",
        "        return len(self._rows)\n",
        (f"{SHARDS}::test_the_places_of_a_table_are_those_of_all_processes",),
    ),
    Mutant(
        "shards-n-for-the-plan",
        "An estimator plans with the number of its process' own rows: a rate that is too large, and another delta.",
        "len(X).",
        "estimators/rows.py",
        "        return self.elsewhere + (len(self.x) if self.persons is None else len(self.persons))\n",
        "        return len(self.x) if self.persons is None else len(self.persons)\n",
        (f"{PROCESSES}::test_every_estimator_fits_in_two_processes_what_it_fits_in_one",),
    ),
    Mutant(
        "shards-the-same-sample",
        "Every process takes the first places of a seeded sample, whatever its shard is.",
        "The offset was lost.",
        "privacy/private_rows.py",
        "sampler.draw(sum(self._shards[: self.world.rank]), ",
        "sampler.draw(0, ",
        (f"{SHARDS}::test_seeded_processes_draw_the_parts_of_the_sample_that_one_process_draws",),
    ),
    Mutant(
        "shards-share-of-the-room",
        "A shard has its share of the room that the whole table needs: its own sample overflows far more often.",
        "The room of all processes together is then what it was.",
        "privacy/sampling.py",
        "return self.together * room_for(len(self._rows), self.sample_rate, self.overflow)",
        "return self.together * math.ceil(\n"
        "            room_for(sum(self._shards), self.sample_rate, self.overflow)\n"
        "            * len(self._rows) / sum(self._shards)\n"
        "        )",
        (f"{SHARDS}::test_every_shard_has_room_for_its_own_sample_and_all_of_them_for_all",),
    ),
    Mutant(
        "promise-checked-by-the-leader",
        "Only the leader's rows are checked against the bound.",
        "It is the one that releases.",
        "privacy/door.py",
        "    if not bool(torch.stack(kept)",
        "    if batch.world.leads and not bool(torch.stack(kept)",
        (f"{WORLD}::test_a_promise_that_one_process_breaks_is_broken_for_all",),
    ),
    Mutant(
        "sums-not-whole",
        "A process sends the sum of its only block as it is: what is added up rounds by the order of processes.",
        "One block needs no grid.",
        "privacy/door.py",
        "    if totals is None and not everywhere:\n",
        "    if totals is None:\n",
        (f"{SHARDS}::test_what_a_process_sends_are_whole_numbers_of_steps",),
    ),
    Mutant(
        "asked-for-something-else",
        "What a process is about to release is not compared: one with less noise sends sums on a finer grid.",
        "The plan was compared at the start.",
        "privacy/world.py",
        '{"the number of releases": self._count, **about()}',
        '{"the number of releases": self._count}',
        (f"{WORLD}::test_whoever_asks_for_something_else_stops_all_before_anything_is_paid",),
    ),
    Mutant(
        "weights-not-compared",
        "Weights that have come apart are not noticed until the training is over.",
        "It costs a message a step.",
        "training/trainer.py",
        "checksum(network.parameters())",
        "checksum([])",
        (f"{TOGETHER}::test_weights_that_differ_by_a_bit_are_noticed_before_the_next_release",),
    ),
    Mutant(
        "unpaid-answers",
        "When the leader could not write the event, the others go on with whatever lies in their memory.",
        "The leader raises, after all.",
        "privacy/world.py",
        "        if int(flag):\n",
        "        if int(flag) > 1:\n",
        (f"{TOGETHER}::test_what_fails_in_one_process_ends_all_and_charges_nothing_that_was_not_released",),
    ),
    Mutant(
        "persons-split",
        "A person's rows may be in several processes: each takes them for a person of its own.",
        "Ids are only looked at where they are.",
        "privacy/groups.py",
        "    if len(set(every)) < len(every):\n",
        "    if len(every) > 2**20:\n",
        (f"{PROCESSES}::test_a_person_whose_rows_are_in_two_processes_is_refused_by_both_before_anything_is_spent",),
    ),
)
