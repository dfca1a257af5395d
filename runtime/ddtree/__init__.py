"""The DDTree engine: draft-tree speculative decoding over a block-diffusion drafter."""

__version__ = "0.1.0"
