"""Verbena: a parameter server on one-sided RDMA.

    session = verbena.init()      # as whoever has started this process wants it; alone: with a server of its own
    weights = session.table("weights", rows=1 << 20, width=16, consistency=verbena.Essp(staleness=2))
    values = weights.pull(keys)   # [n, 16] in float32, of n keys
    weights.push(keys, updates)   # added up per row here, sent at clock()
    session.clock()               # this worker has finished a clock

docs/python.md has the rest.
"""

from __future__ import annotations

import atexit
import pathlib
import sys


def _explained(error: ModuleNotFoundError) -> ImportError:
    built = sorted(each.name for each in pathlib.Path(__file__).parent.glob("_verbena.*.so"))
    if error.name != "verbena._verbena" or not built:
        return error
    return ImportError(
        f"verbena is built for another Python than this one, {sys.version.split()[0]}: its module is {built[0]}; "
        f"docs/python.md says how it is built for this one"
    )


try:
    import verbena._verbena as _verbena
except ModuleNotFoundError as _error:
    raise _explained(_error) from None

from verbena._consistency import ABsp, Asp, BoundedDelay, Bsp, Consistency, Essp, Sequential, Ssp, Vap
from verbena._errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    Error,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnavailableError,
    UnimplementedError,
)
from verbena._named import named
from verbena._records import CheckpointSummary, FunctionResult, ObservedJob
from verbena._verbena import (
    DataCursor,
    HeldRows,
    KeyDistribution,
    ObservedTable,
    Observer,
    Pending,
    Random,
    RowHandles,
    Sample,
    Server,
    Session,
    Table,
    __version__,
    connect,
    init,
    newest_checkpoint,
    parse_consistency,
    read_checkpoint,
)

__all__ = [
    "ABsp",
    "AbortedError",
    "AlreadyExistsError",
    "Asp",
    "BoundedDelay",
    "Bsp",
    "CancelledError",
    "CheckpointSummary",
    "Consistency",
    "DataCursor",
    "DataLossError",
    "DeadlineExceededError",
    "Error",
    "Essp",
    "FailedPreconditionError",
    "FunctionResult",
    "HeldRows",
    "InternalError",
    "InvalidArgumentError",
    "KeyDistribution",
    "NotFoundError",
    "ObservedJob",
    "ObservedTable",
    "Observer",
    "OutOfRangeError",
    "Pending",
    "PermissionDeniedError",
    "Random",
    "ResourceExhaustedError",
    "RowHandles",
    "Sample",
    "Sequential",
    "Server",
    "Session",
    "Ssp",
    "Table",
    "UnavailableError",
    "UnimplementedError",
    "Vap",
    "__version__",
    "connect",
    "init",
    "named",
    "newest_checkpoint",
    "parse_consistency",
    "read_checkpoint",
]


def _leave() -> None:
    """Ends what is left when the interpreter ends. An error that has ended the program is a reason to give up: without
    it, the other workers would take this one's work for finished."""
    error = getattr(sys, "last_value", None)
    failed = error is not None and not hasattr(sys, "ps1")
    try:
        _verbena._close_sessions(error if failed else None)
    finally:
        _verbena._stop_servers()


atexit.register(_leave)
