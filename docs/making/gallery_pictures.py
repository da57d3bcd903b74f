"""Run the pages of the gallery and keep the pictures that they save: ``python docs/making/gallery_pictures.py``.

Each page's outputs are written anew, too, by the code that the tests use (tests/pages.py).
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "docs" / "gallery"


def main(names: list[str]) -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from pages import written

    for path in sorted(GALLERY.glob("*.md")):
        if names and path.stem not in names:
            continue
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            path.write_text(written(path.read_text("utf-8")), "utf-8")
            for picture in Path(folder).glob("*.png"):
                shutil.copyfile(picture, GALLERY / picture.name)
                print(picture.name)


if __name__ == "__main__":
    main(sys.argv[1:])
