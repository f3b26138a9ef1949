"""Errors of the PostgreSQL driver, as errors of ours."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import asyncpg

from butlers.errors import Away, Conflict, IntegrityViolation, InvalidInput, Unavailable
from butlers.extension import extension

# The server went, does not take anybody in, or is the primary no more; another may soon be there.
# The driver calls it an error of its own where a server said goodbye while nobody asked it. A
# database that is closed or gone may be about to be replaced by another of its name.
LEFT = (
    OSError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.TargetServerAttributeNotMatched,
    asyncpg.ReadOnlySQLTransactionError,
)
# The same, and whatever the driver says of a connection that is no more.
GONE = (*LEFT, asyncpg.InterfaceError)

# What a wrong address, login or database name leads to; trying again would not help.
_CANNOT_USE = (
    asyncpg.ClientConfigurationError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)

# Somebody else was quicker.
_TAKEN = (
    asyncpg.LockNotAvailableError,
    asyncpg.UniqueViolationError,
    asyncpg.ExclusionViolationError,
    asyncpg.TransactionRollbackError,
)


def has_left(error: BaseException) -> bool:
    """Whether the server, or a node of its cluster, went: whoever connects anew may find it."""
    return isinstance(error, LEFT) or _is_of_node(error)


def is_gone(error: BaseException) -> bool:
    """The same, or the connection is no more: what was asked last may have been done or not."""
    return isinstance(error, GONE) or _is_of_node(error)


def _is_of_node(error: BaseException) -> bool:
    if not isinstance(error, asyncpg.InternalServerError):
        return False
    return str(error).startswith(extension().node_failures)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Driver errors become errors of ours; their text never carries a row's content."""
    try:
        yield
    except _TAKEN as error:
        raise Conflict(_clash(error)) from error
    except (
        asyncpg.IntegrityConstraintViolationError,
        asyncpg.InsufficientPrivilegeError,
    ) as error:
        raise IntegrityViolation(brief(error)) from error
    except asyncpg.DataError as error:
        raise InvalidInput(f"the database cannot hold a value: {brief(error)}") from error
    except _CANNOT_USE as error:
        raise Unavailable(f"the database cannot be used: {brief(error)}") from error
    except (*GONE, asyncpg.InternalServerError) as error:
        if not is_gone(error):
            raise
        is_leaving = isinstance(error, asyncpg.OperatorInterventionError)
        said = "cannot serve now" if is_leaving else "does not answer"
        raise Away(f"the database {said}: {brief(error)}") from error
    except (asyncpg.OperatorInterventionError, asyncpg.InsufficientResourcesError) as error:
        raise Unavailable(f"the database cannot serve now: {brief(error)}") from error


@contextmanager
def replica_errors(tell: Callable[[str], None]) -> Iterator[None]:
    """Whatever a replica cannot do can be asked of another; where it left, that is told."""
    try:
        yield
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        if isinstance(error, LEFT):
            tell(brief(error))
        raise Away(brief(error)) from error


def brief(error: BaseException) -> str:
    """The first line of a driver's message; its detail line quotes row values and stays out."""
    if type(error) is asyncpg.InternalClientError:
        return "the connection had ended"
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def _clash(error: BaseException) -> str:
    """What to do about a clash; the name of a constraint of times says nothing to anybody."""
    if isinstance(error, asyncpg.LockNotAvailableError):
        return "somebody else is changing the same just now; try again"
    if isinstance(error, asyncpg.ExclusionViolationError):
        return "another that holds at the same time was stored just now; try again"
    return brief(error)
