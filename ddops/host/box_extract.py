"""Sent to a box as text: take MEMBER out of the zip file ARCHIVE into PART.

`python3 -c TEXT ARCHIVE MEMBER PART`, on any Python 3.9 or newer.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from zipfile import BadZipFile, ZipFile

NO_MEMBER = 92


def main(archive: str, member: str, part: Path) -> None:
    try:
        with ZipFile(archive) as zipped, zipped.open(member) as read, part.open("wb") as write:
            shutil.copyfileobj(read, write, 1 << 20)
    except KeyError:
        sys.exit(NO_MEMBER)
    except (OSError, BadZipFile) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
