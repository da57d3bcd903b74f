"""Models that come back whole: a folder to save to and load from, its model card, and exports that need no dpmac."""

from dpmac.saving.export import export_onnx, export_torch
from dpmac.saving.folder import RunFolder, load, open_folder, save
from dpmac.saving.manifest import FORMAT
from dpmac.saving.terms_json import export_json
from dpmac.saving.writing import check_free

__all__ = [
    "FORMAT",
    "RunFolder",
    "check_free",
    "export_json",
    "export_onnx",
    "export_torch",
    "load",
    "open_folder",
    "save",
]
