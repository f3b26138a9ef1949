"""Check memories before they are stored; those with long texts are read apart."""

from collections.abc import Sequence

from butlers.errors import ButlersError
from butlers.memory.handle import Memory
from butlers.memory.policy.inputs import AnyNew, checked_new
from butlers.memory.settings import MemoryModuleConfig
from butlers.worker_process import read_apart

_AT_ONCE = 40_000
"""Characters that are read before another tenant's turn."""


async def checked(memory: Memory, new: AnyNew) -> AnyNew:
    """Return a memory fit to be stored, with secrets masked; raise InvalidInput if it is not."""
    return await read_apart(len(repr(new)), checked_new, new, memory.settings)


async def checked_each(memory: Memory, given: Sequence[AnyNew]) -> list[AnyNew | ButlersError]:
    """Return each memory as it may be stored, or the error that refuses it."""
    checked, some, length = list[AnyNew | ButlersError](), list[AnyNew](), 0
    for new in given:
        some.append(new)
        length += len(repr(new))
        if length >= _AT_ONCE:
            checked += await read_apart(length, _check_each, some, memory.settings)
            some, length = [], 0
    return checked + await read_apart(length, _check_each, some, memory.settings)


def _check_each(
    given: Sequence[AnyNew], settings: MemoryModuleConfig
) -> list[AnyNew | ButlersError]:
    return [_checked_or_refused(new, settings) for new in given]


def _checked_or_refused(new: AnyNew, settings: MemoryModuleConfig) -> AnyNew | ButlersError:
    try:
        return checked_new(new, settings)
    except ButlersError as error:
        return error
