"""The loss without logits against the loss with them, and autograd's gradient."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from ddtree.core.batch import Marginals
from ddtree.train import loss
from ddtree.train.corpus import nothing_likely
from ddtree.train.loss import Lesson, head_loss
from tests.runtime.models.session import CPU


@pytest.mark.parametrize("soft", [0.0, 0.5, 1.0])
def test_loss_and_gradient_are_those_of_the_logits(
    soft: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "CHUNK", 5)
    torch.manual_seed(1)
    head = torch.randn(23, 8)
    top = (torch.randn(12, 8) @ head.T).log_softmax(-1).topk(5)
    likely = Marginals(top.indices, top.values)
    lesson = Lesson(torch.randint(23, (12,)), likely, torch.rand(12), soft)
    hidden = torch.randn(12, 8, requires_grad=True)
    found, right = head_loss(hidden, head, lesson)
    (gradient,) = torch.autograd.grad(3 * found, hidden)

    plain = hidden.detach().clone().requires_grad_()
    logits = plain @ head.T
    p = torch.zeros(12, 23).scatter(1, likely.tokens, likely.logprobs.exp())
    hard = functional.cross_entropy(logits, lesson.tokens, reduction="none")
    far = functional.kl_div(logits.log_softmax(-1), p, reduction="none")
    # only the soft part's entropy is taken out: it is no constant that matters
    each = (1 - soft) * hard + soft * far.sum(-1)
    wanted = (each * lesson.weight).sum() / lesson.weight.sum()
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(gradient, torch.autograd.grad(3 * wanted, plain)[0])
    assert right.equal(logits.argmax(-1) == lesson.tokens)


def test_positions_without_weight_teach_nothing() -> None:
    torch.manual_seed(2)
    hidden = torch.randn(4, 8, requires_grad=True)
    weight = torch.tensor([1.0, 0.0, 1.0, 0.0])
    lesson = Lesson(torch.randint(23, (4,)), nothing_likely((4,), CPU), weight, 0.5)
    value, _ = head_loss(hidden, torch.randn(23, 8), lesson)
    (gradient,) = torch.autograd.grad(value, hidden)
    assert gradient[1::2].eq(0).all()
    assert gradient[0::2].ne(0).any()
