"""``python -m bagwise``: the command, where it is not on the path."""

from bagwise.cli import main

if __name__ == "__main__":
    main()
