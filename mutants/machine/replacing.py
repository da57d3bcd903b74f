"""An import that finds another text for one module. Nothing is copied, and nothing on the disk changes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType


class _Loader(SourceFileLoader):
    """Loads the module from its own file's place, but with the mutant's text."""

    def __init__(self, name: str, path: str, text: Path) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:  # never from, or to, a cache
        code = compile(self._text.read_bytes(), self.get_filename(fullname), "exec", dont_inherit=True)
        assert isinstance(code, CodeType)
        return code


class Replacing(MetaPathFinder):
    """Stands first among the finders."""

    def __init__(self, module: str, text: str) -> None:
        self._module, self._text = module, Path(text)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        spec.loader = _Loader(fullname, spec.origin, self._text)
        return spec


def install(module: str, text: str) -> None:
    """From now on, an import of ``module`` runs the file ``text``."""
    sys.meta_path.insert(0, Replacing(module, text))
