"""The hook, killed before the nth thing it asks of the file system: a step is a call of os."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from butlers import hook

STEPS = ("makedirs", "link", "open", "fsync", "rename", "unlink", "fork")


def killed_before(step: int) -> None:
    """From now on the process ends with kill -9 before this step."""
    taken = 0

    def counting(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            nonlocal taken
            taken += 1
            if taken == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return counted

    for name in STEPS:
        setattr(os, name, counting(getattr(os, name)))


if __name__ == "__main__":
    killed_before(int(sys.argv.pop(1)))
    hook.main()
