"""What `auto` means on this machine."""

from __future__ import annotations

import os

import torch

from ddtree.config import EngineConfig


def resolve_device(config: EngineConfig, rank: int = 0) -> torch.device:
    """CUDA where there is a device, of several ranks each its own.

    Raises ValueError when CUDA is asked for and absent, or has fewer devices than ranks.
    """
    if config.device == "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        if config.ranks == 1:
            return torch.device("cuda")
        if (count := torch.cuda.device_count()) < config.ranks:
            raise ValueError(f"{config.ranks} ranks need as many CUDA devices, torch sees {count}")
        return torch.device("cuda", rank)
    if config.device == "cuda":
        raise ValueError("device cuda: torch sees no CUDA device")
    return torch.device("cpu")


def resolve_dtype(config: EngineConfig, device: torch.device) -> torch.dtype:
    """bfloat16 where the hardware multiplies it; emulated it is slower than float32."""
    if config.dtype != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16}[config.dtype]
    if device.type == "cuda" or _cpu_multiplies_bfloat16():
        return torch.bfloat16
    return torch.float32


def use_threads(config: EngineConfig) -> None:
    share = max(1, len(os.sched_getaffinity(0)) // config.ranks)
    torch.set_num_threads(config.threads or share)


def _cpu_multiplies_bfloat16() -> bool:
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
