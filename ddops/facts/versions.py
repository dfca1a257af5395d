"""Sent to a box in front of what asks for versions of packages. Imports nothing heavy."""

PROBE = r"""
import sys
from pathlib import Path

def installed(name):
    stem = name.replace("-", "_")
    for folder in sys.path:
        for found in Path(folder).glob(f"{stem}-*.dist-info"):
            return found.stem.removeprefix(f"{stem}-")

def described(name):
    from importlib.metadata import PackageNotFoundError, version  # twice the time of all the rest
    try:
        return version(name)
    except PackageNotFoundError:
        return None
"""
