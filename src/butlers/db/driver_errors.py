"""Translate errors of the PostgreSQL driver to those of `butlers.errors`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import asyncpg

from butlers.errors import Away, Conflict, IntegrityViolation, InvalidInput, Unavailable
from butlers.extension import extension

# The server is gone, refuses connections, or is no longer the primary; another may take over soon.
# InternalClientError: the server ended an idle connection. InvalidCatalogNameError and
# ObjectNotInPrerequisiteStateError: a database that another is about to replace.
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
# The same, and errors of a connection that is closed.
GONE = (*LEFT, asyncpg.InterfaceError)

# Whatever the driver raises.
DRIVER = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)

# A wrong address, login or database name; trying again would not help.
_CANNOT_USE = (
    asyncpg.ClientConfigurationError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)

# The statement that was refused tells a reader nothing.
_READ_ONLY = (
    "the database takes no writes: the server is a standby, or default_transaction_read_only is on "
    "for it; name the primary in database.url, or switch that setting off"
)

# Another transaction was quicker.
_TAKEN = (
    asyncpg.LockNotAvailableError,
    asyncpg.UniqueViolationError,
    asyncpg.ExclusionViolationError,
    asyncpg.TransactionRollbackError,
)


def has_left(error: BaseException) -> bool:
    """Return whether the server, or a node of its cluster, is gone: a new connection may work."""
    return isinstance(error, LEFT) or _is_node_failure(error)


def is_gone(error: BaseException) -> bool:
    """Return whether the connection is gone: the last statement may have been done or not."""
    return isinstance(error, GONE) or _is_node_failure(error)


def _is_node_failure(error: BaseException) -> bool:
    if not isinstance(error, asyncpg.InternalServerError):
        return False
    return str(error).startswith(extension().node_failures)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translate driver errors; messages never contain values of rows."""
    try:
        yield
    except _TAKEN as error:
        raise Conflict(_conflict(error)) from error
    except (asyncpg.IntegrityConstraintViolationError, asyncpg.InsufficientPrivilegeError) as error:
        raise IntegrityViolation(brief(error)) from error
    except asyncpg.DataError as error:
        raise InvalidInput(f"the database cannot hold a value: {brief(error)}") from error
    except _CANNOT_USE as error:
        raise Unavailable(f"the database cannot be used: {brief(error)}") from error
    except (*GONE, asyncpg.InternalServerError) as error:
        if not is_gone(error):
            raise
        raise Away(_absence(error)) from error
    except (asyncpg.OperatorInterventionError, asyncpg.InsufficientResourcesError) as error:
        raise Unavailable(f"the database cannot serve now: {brief(error)}") from error


@contextmanager
def replica_errors(mark_lost: Callable[[str], None]) -> Iterator[None]:
    """Raise Away for any error of a replica; call `mark_lost` where the server is gone."""
    try:
        yield
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        if isinstance(error, LEFT):
            mark_lost(brief(error))
        raise Away(brief(error)) from error


def brief(error: BaseException) -> str:
    """Return the first line of a driver's message; the detail line would quote row values."""
    if type(error) is asyncpg.InternalClientError:
        return "the connection had ended"
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def _absence(error: BaseException) -> str:
    if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        return _READ_ONLY
    is_leaving = isinstance(error, asyncpg.OperatorInterventionError)
    problem = "cannot serve now" if is_leaving else "does not answer"
    return f"the database {problem}: {brief(error)}"


def _conflict(error: BaseException) -> str:
    """Say what to do; the name of an exclusion constraint would tell a reader nothing."""
    if isinstance(error, asyncpg.LockNotAvailableError):
        return "somebody else is changing the same just now; try again"
    if isinstance(error, asyncpg.ExclusionViolationError):
        return "another that holds at the same time was stored just now; try again"
    return brief(error)
