"""Standard input that a signal can end, so that a process can clean up and go."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CHUNK = 65_536


@contextmanager
def input_ended_by_signals() -> Iterator[None]:
    """Within this block SIGINT and SIGTERM end standard input, as if its writer had gone.

    A thread that waits for input cannot be woken. So one that nobody waits for does the waiting,
    and hands on what comes through a socket that we can shut.
    """
    source = os.dup(0)
    receiver, sender = socket.socketpair()
    os.dup2(receiver.fileno(), 0)
    threading.Thread(target=_hand_on, args=(source, sender), daemon=True).start()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _shut, sender)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        receiver.close()


def _hand_on(source: int, sender: socket.socket) -> None:
    with suppress(OSError):  # a reader that has gone
        while chunk := os.read(source, _CHUNK):
            sender.sendall(chunk)
    _shut(sender)


def _shut(sender: socket.socket) -> None:
    with suppress(OSError):  # shut already
        sender.shutdown(socket.SHUT_WR)
