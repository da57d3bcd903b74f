"""``python -m dpmac``."""

from dpmac.cli import main

main()
