"""The drafter that is trained is the one that serves: equal numbers from equal weights."""

from __future__ import annotations

import torch

from ddtree.models.dflash import Drafter, drafter_shapes
from ddtree.ops.tree_attention import slots_of
from ddtree.speculate.draft import plan_block
from ddtree.train.attention import dense
from ddtree.train.net import DrafterNet, draw_weights
from tests.runtime.models.session import CPU, PAGE, pool_for
from tests.runtime.models.tensors import Tensors
from tests.runtime.models.test_dflash import LAYERS, SHAPE, WIDTH, rows_at


def net() -> DrafterNet:
    torch.manual_seed(3)
    made = DrafterNet(SHAPE, CPU)
    with torch.no_grad():
        for parameter in made.parameters():
            noise = torch.randn(parameter.shape)
            scaled = 1 + noise / 4 if parameter.dim() == 1 else noise / parameter.shape[1] ** 0.5
            parameter.copy_(scaled)
    return made


def test_parameters_bear_the_names_and_shapes_of_the_checkpoint() -> None:
    found = {name: tuple(p.shape) for name, p in net().named_parameters()}
    assert found == drafter_shapes(SHAPE)


def test_blocks_of_one_pass_are_the_blocks_that_are_drafted_one_by_one() -> None:
    trained = net()
    weights = {name: p.detach() for name, p in trained.named_parameters()}
    serving = Drafter(SHAPE, Tensors(weights), torch.empty(0))
    torch.manual_seed(4)
    block, anchors = SHAPE.block_size, torch.tensor([[0, 5, 11], [2, 2, 9]])
    features = torch.randn(2, 12, WIDTH)
    embeddings = torch.randn(2, 3, block, LAYERS.hidden_size)
    with torch.inference_mode():
        found = trained(embeddings, features, anchors, dense(anchors, 12, block))
        for row, roots in enumerate(anchors.tolist()):
            for number, root in enumerate(roots):
                wanted = drafted(serving, features[row, :root], embeddings[row, number])
                torch.testing.assert_close(found[row, number], wanted, atol=1e-4, rtol=1e-4)


def drafted(serving: Drafter, features: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    root, table = len(features), torch.tensor([[3, 0, 1, 4, 2]])
    pool = pool_for(LAYERS, 5 * PAGE)
    places = torch.arange(root).unsqueeze(0)
    if root:
        serving.write_context(features.unsqueeze(0), places, slots_of(table, places, PAGE), pool)
    start = torch.tensor([root])
    positions = start + torch.arange(len(block)).unsqueeze(0)
    plans = plan_block(rows_at(start, table), SHAPE, PAGE, root)
    return serving.forward(block.unsqueeze(0), positions, pool, plans)[0]


def test_new_weights_come_from_the_seed_and_even_out_the_features() -> None:
    first, again, other = (DrafterNet(SHAPE, CPU) for _ in range(3))
    loud = torch.ones(WIDTH)
    loud[WIDTH // 2 :] = 10.0
    draw_weights(first, 1, loud)
    draw_weights(again, 1, loud)
    draw_weights(other, 2, loud)
    assert first.fc.weight.equal(again.fc.weight)
    assert not first.fc.weight.equal(other.fc.weight)
    quiet, noisy = first.fc.weight.detach().chunk(2, dim=1)
    assert 8 < float(quiet.std() / noisy.std()) < 12
