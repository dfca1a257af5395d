"""Trains a DFlash drafter on what its target writes; `run.py` reads as the recipe."""
