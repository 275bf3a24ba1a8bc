"""What the library's statuses become."""

from __future__ import annotations


class Error(Exception):
    """A call has failed. The message says why, and whose fault it is where that is known.

    After UnavailableError, DeadlineExceededError, AbortedError and CancelledError a session is broken: every later
    call raises the same.
    """

    code = "UNKNOWN"

    @property
    def message(self) -> str:
        return str(self)


class CancelledError(Error):
    """It was stopped: a server by stop(), a session by a signal."""

    code = "CANCELLED"


class InvalidArgumentError(Error, ValueError):
    """An argument cannot be. Nothing was done."""

    code = "INVALID_ARGUMENT"


class DeadlineExceededError(Error, TimeoutError):
    """A server, or another worker, has not answered in time."""

    code = "DEADLINE_EXCEEDED"


class NotFoundError(Error, LookupError):
    """There is no such thing, a checkpoint for example."""

    code = "NOT_FOUND"


class AlreadyExistsError(Error):
    """There is one already: a server that listens at the address."""

    code = "ALREADY_EXISTS"


class PermissionDeniedError(Error, PermissionError):
    """It is not for this process, or not for an observer."""

    code = "PERMISSION_DENIED"


class ResourceExhaustedError(Error):
    """Memory, or something else that the host lacks."""

    code = "RESOURCE_EXHAUSTED"


class FailedPreconditionError(Error, RuntimeError):
    """Not now, or not here: in another thread, after fork(), after close(), not for such a table."""

    code = "FAILED_PRECONDITION"


class AbortedError(Error):
    """Another worker has failed. The message is its."""

    code = "ABORTED"


class OutOfRangeError(Error):
    """A number is too large."""

    code = "OUT_OF_RANGE"


class UnimplementedError(Error, NotImplementedError):
    """The library cannot do that."""

    code = "UNIMPLEMENTED"


class InternalError(Error):
    """A mistake of the library's."""

    code = "INTERNAL"


class UnavailableError(Error, ConnectionError):
    """A server, or a worker, is gone."""

    code = "UNAVAILABLE"


class DataLossError(Error):
    """Rows that were lost with a process that has died, or a damaged checkpoint."""

    code = "DATA_LOSS"


# By the library's numbers of codes.
_BY_CODE: dict[int, type[Error]] = {
    1: CancelledError,
    3: InvalidArgumentError,
    4: DeadlineExceededError,
    5: NotFoundError,
    6: AlreadyExistsError,
    7: PermissionDeniedError,
    8: ResourceExhaustedError,
    9: FailedPreconditionError,
    10: AbortedError,
    11: OutOfRangeError,
    12: UnimplementedError,
    13: InternalError,
    14: UnavailableError,
    15: DataLossError,
}


def of_code(code: int) -> type[Error]:
    return _BY_CODE.get(code, Error)
