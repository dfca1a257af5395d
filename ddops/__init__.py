"""The ops half: looks at a box, says what it will do, does it, measures it, archives the proof."""

__version__ = "0.1.0"
