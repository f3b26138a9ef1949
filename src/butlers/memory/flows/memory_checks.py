"""Check memories before they are stored; those with long texts are read apart."""

from collections.abc import Iterator, Sequence

from butlers.errors import ButlersError
from butlers.kernel.json_values import is_deeper
from butlers.memory.handle import Memory
from butlers.memory.policy.inputs import MAX_DEPTH, AnyNew, checked_new
from butlers.memory.settings import MemoryModuleConfig
from butlers.worker_process import read_apart

_AT_ONCE = 40_000
"""Characters that are read before another tenant's turn."""


async def checked(memory: Memory, new: AnyNew) -> AnyNew:
    """Return a memory fit to be stored, with secrets masked; raise InvalidInput if it is not."""
    return await read_apart(_length(new), checked_new, new, memory.settings)


async def checked_each(memory: Memory, given: Sequence[AnyNew]) -> list[AnyNew | ButlersError]:
    """Return each memory as it may be stored, or the error that refuses it."""
    fit = list[AnyNew | ButlersError]()
    for length, some in _portions(given):
        fit += await read_apart(length, _check_each, some, memory.settings)
    return fit


def _portions(given: Sequence[AnyNew]) -> Iterator[tuple[int, list[AnyNew]]]:
    some, length = list[AnyNew](), 0
    for new in given:
        own = _length(new)
        if some and (own == 0 or length + own > _AT_ONCE):
            yield length, some
            some, length = [], 0
        some.append(new)
        length += own
        if own == 0:
            yield length, some
            some = []
    yield length, some


def _length(new: AnyNew) -> int:
    """Return how much there is to read; 0 for what is nested so deeply that it stays here."""
    return 0 if is_deeper(new.metadata, MAX_DEPTH) else len(repr(new))


def _check_each(
    given: Sequence[AnyNew], settings: MemoryModuleConfig
) -> list[AnyNew | ButlersError]:
    return [_checked_or_refused(new, settings) for new in given]


def _checked_or_refused(new: AnyNew, settings: MemoryModuleConfig) -> AnyNew | ButlersError:
    try:
        return checked_new(new, settings)
    except ButlersError as error:
        return error
