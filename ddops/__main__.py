"""`ddops` and `python -m ddops`."""

import sys

from ddops.cli import app


def main() -> None:
    sys.exit(app.main())


if __name__ == "__main__":
    main()
