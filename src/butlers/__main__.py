"""`python -m butlers` is the command `butlers`."""

from butlers.entry import main

if __name__ == "__main__":
    main()
