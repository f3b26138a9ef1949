"""Holds an embedded server: says so once it has it, and lets go when its input ends."""

import os
import signal
import sys
from pathlib import Path

from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.errors import Unavailable

# Not print: the signal may arrive in the midst of another print.
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"interrupted\n"))
try:
    with EmbeddedPostgres(Path(sys.argv[1])) as server:
        print("ready", server.dsn(), flush=True)
        sys.stdin.read()
except Unavailable as error:
    print("unavailable", error, flush=True)
