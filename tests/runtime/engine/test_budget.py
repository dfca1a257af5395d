"""The budget follows what trees promise, what they kept, and what a step costs."""

import random

from ddtree.engine.budget import PROBE_EVERY, BudgetChooser, Outlook, StepTimes

# a step that is nearly free to widen alone, and dear to widen at a batch of 64
TIMES = StepTimes(
    {
        (1, 0): 1.0, (1, 8): 1.5, (1, 32): 1.6,
        (64, 0): 2.0, (64, 8): 9.0, (64, 32): 30.0,
    }
)  # fmt: skip


def outlook(small: float, large: float) -> Outlook:
    return Outlook({8: small, 32: large})


def test_alone_the_largest_tree_wins_and_in_a_crowd_none() -> None:
    chooser = BudgetChooser(TIMES)
    assert chooser.choose([outlook(2.0, 3.5)]) == 32
    assert chooser.choose([outlook(2.0, 3.5)] * 64) == 0


def test_between_two_measured_batches_the_larger_one_speaks() -> None:
    assert TIMES.at(2, 8) == 9.0
    assert TIMES.at(500, 8) == 9.0


def test_hopeless_drafts_fall_back_to_autoregressive_and_are_probed_again() -> None:
    chooser = BudgetChooser(TIMES)
    chosen = [chooser.choose([outlook(0.1, 0.2)]) for _ in range(PROBE_EVERY + 1)]
    assert chosen[: PROBE_EVERY - 1] == [0] * (PROBE_EVERY - 1)
    assert chosen[PROBE_EVERY - 1 :] == [8, 0]


def test_a_drafter_that_promises_too_much_is_trusted_less() -> None:
    chooser = BudgetChooser(TIMES)
    assert chooser.choose([outlook(1.5, 2.0)]) == 32
    for _ in range(200):
        chooser.learn(promised=2.0, accepted=0.2)
    assert abs(chooser.trust - 0.1) < 0.02
    assert chooser.choose([outlook(1.5, 2.0)]) == 0


def test_a_new_sequence_gets_a_tree() -> None:
    assert BudgetChooser(TIMES).choose([Outlook()]) > 0


def test_the_choice_never_expects_less_than_autoregressive() -> None:
    random.seed(4)
    for _ in range(200):
        chooser = BudgetChooser(TIMES)
        batch = random.choice([1, 64])
        masses = [(random.random() * 3, random.random() * 6) for _ in range(batch)]
        chosen = chooser.choose([outlook(*mass) for mass in masses])
        expected = batch + sum(m[0 if chosen == 8 else 1] for m in masses if chosen)
        assert expected / TIMES.at(batch, chosen) >= batch / TIMES.at(batch, 0)
