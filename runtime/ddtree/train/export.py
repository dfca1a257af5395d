"""What a run leaves: a DFlash folder, its 8-bit edition, and a card of measured numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from ddtree.config import DrafterShape
from ddtree.models.folder import SINGLE
from ddtree.models.hf_config import DRAFTER
from ddtree.models.quantise import quantise_folder
from ddtree.models.source import CONFIG
from ddtree.train.held_out import Scores, Tally
from ddtree.train.state import Progress, Weights

FOLDER, SMALL, CARD = "drafter", "drafter-8bit", "README.md"


def drafter_config(shape: DrafterShape, target_layers: int) -> dict[str, Any]:
    """config.json, such that `models.hf_config.drafter_shape` reads `shape` back."""
    layers = shape.layers
    return {
        "architectures": [DRAFTER],
        "model_type": "qwen3",
        "hidden_size": layers.hidden_size,
        "intermediate_size": layers.intermediate_size,
        "num_hidden_layers": layers.num_layers,
        "num_attention_heads": layers.num_heads,
        "num_key_value_heads": layers.num_kv_heads,
        "head_dim": layers.head_dim,
        "vocab_size": layers.vocab_size,
        "rms_norm_eps": layers.rms_norm_eps,
        "rope_theta": layers.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": layers.rope_theta},
        "max_position_embeddings": layers.max_positions,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
        "block_size": shape.block_size,
        "num_target_layers": target_layers,
        "dflash_config": {
            "target_layer_ids": list(shape.target_layer_ids),
            "mask_token_id": shape.mask_token_id,
        },
        "layer_types": ["full_attention"] * layers.num_layers,
    }


def export(out: Path, shape: DrafterShape, target_layers: int, weights: Weights) -> int:
    """Write both editions; returns the bytes of the small one's weights."""
    folder = out / FOLDER
    folder.mkdir(exist_ok=True)
    config = drafter_config(shape, target_layers)
    (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    part = folder / f".{SINGLE}.part"
    save_file({name: w.to(torch.bfloat16) for name, w in weights.items()}, part, {"format": "pt"})
    part.chmod(0o644)
    part.replace(folder / SINGLE)
    return quantise_folder(folder, out / SMALL)


def write_card(out: Path, progress: Progress, scores: Scores, facts: dict[str, str]) -> None:
    """The card goes into both folders; a folder with a card is finished."""
    text = card(progress, scores, facts)
    for folder in (FOLDER, SMALL):
        (out / folder / CARD).write_text(text, encoding="utf-8")


def card(progress: Progress, scores: Scores, facts: dict[str, str]) -> str:
    """Markdown. Every number comes from `progress` or `scores`."""
    kinds = list(next(iter(scores.tallies.values())))
    recipe = progress.recipe
    facts = facts | {
        "trained": f"{progress.step} steps of {recipe['batch'] * recipe['anchors']} blocks in "
        f"{recipe['rounds']} rounds of fresh answers, {progress.seconds:.0f} s in all",
        "weights": f"running average at step {progress.best_step}, the best on held-out answers",
        "seed": str(recipe["seed"]),
    }
    lines = [
        f"# DFlash drafter for {facts.pop('target')}",
        "",
        "Made by `python -m ddtree train` from answers that the target wrote itself. It has no",
        "embedding and no head of its own.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {key} | {value} |" for key, value in facts.items()),
        "",
        "Accept: tokens committed per target step, bonus included; an exact walk of greedy answers",
        "to prompts that were not trained on. In brackets: steps that begin outside a loop, a",
        "position being in one once the 16 tokens up to it have occurred before.",
        "",
        "| mode | " + " | ".join(kinds) + " |",
        "|---" * (len(kinds) + 1) + "|",
        *(
            _row(mode, [tallies[kind] for kind in kinds])
            for mode, tallies in scores.tallies.items()
        ),
        "",
        "Steps walked: " + ", ".join(_steps(scores, kind) for kind in kinds) + ".",
    ]
    return "\n".join(lines) + "\n"


def _row(mode: str, tallies: list[Tally]) -> str:
    name = mode if mode == "chain" else f"DDTree, budget {mode}"
    cells = [f"{tally.accept:.2f} ({tally.accept_outside_loops:.2f})" for tally in tallies]
    return f"| {name} | " + " | ".join(cells) + " |"


def _steps(scores: Scores, kind: str) -> str:
    tally = scores.tallies["chain"][kind]
    return f"{kind} {tally.steps} ({tally.free_steps})"
