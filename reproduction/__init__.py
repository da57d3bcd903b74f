"""The paper's tables and figures, run again: ``python -m reproduction``. Outside the wheel; it needs a clone."""
