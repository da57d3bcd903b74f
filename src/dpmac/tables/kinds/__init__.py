"""Kinds of columns, one file each: what is publicly known of a column, and everything that is done with its cells."""

from dpmac.tables.kinds.base import Array, ColumnKind, Task
from dpmac.tables.kinds.category import Category
from dpmac.tables.kinds.date import Date
from dpmac.tables.kinds.hashed import Hash
from dpmac.tables.kinds.number import Number
from dpmac.tables.kinds.prefix import Prefix
from dpmac.tables.kinds.protocols import Guess
from dpmac.tables.kinds.text import Text

KINDS: dict[str, type[ColumnKind]] = {kind.kind: kind for kind in (Number, Category, Date, Text, Prefix, Hash)}

__all__ = ["KINDS", "Array", "Category", "ColumnKind", "Date", "Guess", "Hash", "Number", "Prefix", "Task", "Text"]
