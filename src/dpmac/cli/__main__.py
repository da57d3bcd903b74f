"""``python -m dpmac.cli``."""

from dpmac.cli import main

main()
