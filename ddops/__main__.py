"""`ddops` and `python -m ddops`."""

import os
import sys


def main() -> None:
    # pydantic would look for plugins among all packages: 12 ms at every start, and there are none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from ddops.cli import app

    sys.exit(app.main())


if __name__ == "__main__":
    main()
