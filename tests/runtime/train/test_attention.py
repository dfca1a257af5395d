"""Both kinds of sight against the sentence: the context before the root, and the own block."""

from __future__ import annotations

import warnings

import torch

from ddtree.train.attention import attend, dense, sparse

ANCHORS = torch.tensor([[0, 3, 90], [17, 17, 128]])
CONTEXT, BLOCK = 128, 4


def test_a_block_sees_what_is_before_its_root_and_itself() -> None:
    mask = dense(ANCHORS, CONTEXT, BLOCK)[:, 0]
    for row, anchors in enumerate(ANCHORS.tolist()):
        for number, root in enumerate(anchors):
            for query in range(number * BLOCK, (number + 1) * BLOCK):
                seen = set(mask[row, query].nonzero()[:, 0].tolist())
                own = {CONTEXT + number * BLOCK + i for i in range(BLOCK)}
                assert seen == set(range(root)) | own


def test_flex_attention_sees_the_same() -> None:
    torch.manual_seed(0)
    queries = ANCHORS.shape[1] * BLOCK
    q = torch.randn(2, 4, queries, 16)
    k, v = torch.randn(2, 2, 2, CONTEXT + queries, 16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is slow when it is not compiled
        sight = sparse(ANCHORS, CONTEXT, BLOCK, compiled=False)
        found = attend(q, k, v, sight)
    wanted = attend(q, k, v, dense(ANCHORS, CONTEXT, BLOCK))
    torch.testing.assert_close(found, wanted)
