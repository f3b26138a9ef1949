"""A process that saves notes to a file: `note_writer.py FILE NAME COUNT`."""

import sys

from butlers.notebook import MemoryManager, open_notebook


def main(path: str, name: str, count: int) -> None:
    db = open_notebook(path)
    manager = MemoryManager(db)
    for number in range(count):
        manager.save("agent", f"{name}:{number}", f"note {number} of {name}, topic {number % 50}")
    db.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
