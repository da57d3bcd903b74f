"""Tables of people: a public schema, and the feature map that makes a network's inputs of their cells."""

from dpmac.nets.feature_maps import FEATURE_MAPS
from dpmac.tables.agreement import SchemaWarning
from dpmac.tables.cell_format import CellFormat
from dpmac.tables.crowding import CrowdedWarning
from dpmac.tables.encoder import TableEncoder
from dpmac.tables.kinds import Category, ColumnKind, Date, Hash, Number, Prefix, Text
from dpmac.tables.kinds import ColumnKind as Column
from dpmac.tables.schema import Schema
from dpmac.tables.stored import Files
from dpmac.tables.terms import TermEncoder
from dpmac.tables.words import WordVectors

FEATURE_MAPS[TableEncoder.kind] = TableEncoder
FEATURE_MAPS[TermEncoder.kind] = TermEncoder

__all__ = [
    "Category",
    "CellFormat",
    "Column",
    "ColumnKind",
    "CrowdedWarning",
    "Date",
    "Files",
    "Hash",
    "Number",
    "Prefix",
    "Schema",
    "SchemaWarning",
    "TableEncoder",
    "TermEncoder",
    "Text",
    "WordVectors",
]
