"""What the library says in several values."""

from __future__ import annotations

import typing

import numpy
import numpy.typing


class FunctionResult(typing.NamedTuple):
    """What a call of a server function comes to. What the elements mean is for the function to say."""

    keys: numpy.typing.NDArray[numpy.uint64]
    numbers: numpy.typing.NDArray[numpy.float64]


class CheckpointSummary(typing.NamedTuple):
    """What a checkpoint says of itself."""

    clock: int
    path: str
    """Of its folder, for `resume`."""
    written: str
    """When, in UTC."""
    workers: int
    servers: int
    notes: dict[str, str]
    damaged: typing.Sequence[str] = ()
    """Of newest_checkpoint(): a line for each newer one that is not whole."""


class ObservedJob(typing.NamedTuple):
    """How a job is, as far as its servers know."""

    servers: int
    workers: int
    workers_left: int
    clock: typing.Optional[int]
    """The last clock that all workers have reached which have not left; None: all have left."""
