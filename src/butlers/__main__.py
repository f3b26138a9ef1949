"""`python -m butlers` is the command `butlers`."""

from butlers.cli import main

if __name__ == "__main__":
    main()
