"""``python -m reproduction``."""

from reproduction.command import main

if __name__ == "__main__":  # worker processes import this module too
    main()
