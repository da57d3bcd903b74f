"""The names that earlier versions had here; see :mod:`dpmac.tables.kinds` and :mod:`dpmac.tables.texts`."""

from dpmac.tables.kinds import Array, Category, Number
from dpmac.tables.kinds import ColumnKind as Column
from dpmac.tables.texts import check_length, did_you_mean, text_of

__all__ = ["Array", "Category", "Column", "Number", "check_length", "did_you_mean", "text_of"]
