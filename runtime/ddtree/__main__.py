"""`python -m ddtree`."""

import sys

from ddtree.cli import main

if __name__ == "__main__":
    sys.exit(main())
