"""What the words of ``dpmac train`` ask for: a schema, layers, or pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmac.checks import ArgumentError

if TYPE_CHECKING:
    from dpmac.tables import Schema


def units(hidden: str | None) -> list[int] | None:
    """Units of the hidden layers; None leaves them to the rule."""
    if hidden is None or hidden == "auto":
        return None
    if hidden in ("none", ""):
        return []
    try:
        return [int(size) for size in hidden.split(",")]
    except ValueError:
        fix = "give whole numbers of units, 64 or 64,32; or none for a linear model"
        raise ArgumentError("--hidden", hidden, fix) from None


def read_schema(file: Path, schema: Path | None) -> Schema:
    """The schema of a table, which must have one."""
    from dpmac.tables import Schema

    if schema is None:
        fix = f"a table needs one: make a template with  dpmac schema init {file} > {file.stem}.schema.json"
        raise ArgumentError("--schema", None, fix)
    if not schema.is_file():
        fix = f"there is no such file: make a template with  dpmac schema init {file} > {schema.name}"
        raise ArgumentError("--schema", str(schema), fix)
    return Schema.load(schema)


# --- pictures ---------------------------------------------------------------------------------------------------------


def pictured(file: Path, schema: Path | None, images: str | None) -> bool:
    """Whether the rows are pictures: a column of a table has their paths, or they lie in a folder in which no Parquet
    file is, and there is no schema."""
    if images is not None:
        return True
    if schema is not None or not file.is_dir():
        return False
    return not any(path.suffix.lower() in (".parquet", ".pq") for path in file.iterdir())


def pictures_wanted(file: Path, schema: Path | None, **options: Any) -> dict[str, Any]:
    """What is to become of pictures, in plain values for a job; options that pictures have no use for are refused."""
    from dpmac.pictures.folders import check_wanted

    no_use, images, target = dict(_NO_USE), options["images"], options["target"]
    if images is None:
        no_use |= _NO_TABLE
    elif file.is_dir():
        raise ArgumentError("--images", images, f"{file} is a folder: it has no columns, leave it out")
    elif target is None:
        raise ArgumentError("--target", None, "name the column of the labels")
    elif images in (target, options["groups"]) or target == options["groups"]:
        raise ArgumentError("--images", images, "paths, labels and --groups are three columns: name each")
    for name, fix in no_use.items():
        if options.get(name) not in (None, False):
            raise ArgumentError(f"--{name}", options[name], f"{fix}: leave it out")
    if schema is not None:
        raise ArgumentError("--schema", str(schema), "pictures have none: leave it out")
    size = _sides(options["size"])
    check_wanted(size, options["channels"])
    known = {"size": size, "channels": options["channels"], "classes": _names(options["classes"])}
    return {**known, "images": images, "target": target}


def no_pictures(**options: Any) -> None:
    """Raise for options that are for pictures alone."""
    for name, value in options.items():
        if value is not None:
            raise ArgumentError(f"--{name}", value, "it is for pictures, and this is a table: leave it out")


_NO_USE = {
    "autoencoder": "pictures get a classifier",
    "memory": "pictures are all in memory",
    "scratch": "pictures are all in memory",
    "na": "it is for cells of numbers",
    "decimal": "it is for cells of numbers",
    "thousands": "it is for cells of numbers",
    "censored": "it is for cells of numbers",
}
_NO_TABLE = {
    "target": "the names of the folders are what is predicted",
    "groups": "folders do not say whose a picture is; a table of paths can (--images)",
}


def _sides(text: str | None) -> list[int] | None:
    """28x28, or 28 for both, as height and width."""
    if text is None:
        return None
    sides = text.lower().split("x")
    if len(sides) > 2 or not all(side.isdecimal() and side.isascii() for side in sides):
        raise ArgumentError("--size", text, "give height and width in pixels, such as 64x48, or one number for both")
    return [int(sides[0]), int(sides[-1])]


def _names(text: str | None) -> list[str] | None:
    """The classes that were named, in that order."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if "" in names or len(set(names)) != len(names) or len(names) < 2:
        raise ArgumentError("--classes", text, "give the names of two classes or more, each once: cat,dog")
    return names
