from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Awaitable, Generator, Generic, Literal, Optional, TypeVar, Union

import numpy
import numpy.typing

from verbena._consistency import Consistency
from verbena._records import CheckpointSummary, FunctionResult, ObservedJob

_Keys = Union[range, numpy.typing.ArrayLike]
_Array = numpy.typing.NDArray[Any]
_KeyArray = numpy.typing.NDArray[numpy.uint64]
_Numbers = numpy.typing.ArrayLike
_Result = TypeVar("_Result", covariant=True)

__version__: str

class Pending(Awaitable[_Result], Generic[_Result]):
    def wait(self) -> _Result: ...
    def poll(self) -> bool: ...
    @property
    def done(self) -> bool: ...
    def __await__(self) -> Generator[Any, None, _Result]: ...

class RowHandles:
    @property
    def keys(self) -> _KeyArray: ...
    def __len__(self) -> int: ...

class Random:
    def __init__(self, seed: int) -> None: ...

class KeyDistribution:
    @staticmethod
    def uniform(keys: range) -> KeyDistribution: ...
    @staticmethod
    def weighted(first: int, weights: _Numbers) -> KeyDistribution: ...
    def draw(self, random: Random) -> int: ...
    @property
    def keys(self) -> range: ...

class Sample:
    @property
    def keys(self) -> _KeyArray: ...
    @property
    def redrawn(self) -> int: ...

class Table:
    def pull(self, keys: Union[_Keys, RowHandles], out: Optional[_Array] = None) -> _Array: ...
    def _seconds_of_pulls(self, keys: _Keys, out: Optional[_Array], count: int) -> float: ...
    def push(self, keys: _Keys, updates: _Numbers) -> None: ...
    def pull_async(
        self, keys: _Keys, out: Optional[_Array] = None, after: Iterable[Pending[Any]] = ()
    ) -> Pending[_Array]: ...
    def push_async(self, keys: _Keys, updates: _Numbers, after: Iterable[Pending[Any]] = ()) -> Pending[None]: ...
    def locate(self, keys: _Keys) -> RowHandles: ...
    def scan(self, keys: Optional[range] = None) -> tuple[_KeyArray, _Array]: ...
    def scan_batches(
        self, use: Callable[[_KeyArray, _Array], object], keys: Optional[range] = None, batch: int = 65536
    ) -> None: ...
    def call(
        self, function: str, keys: Optional[_Keys] = None, numbers: Optional[_Numbers] = None
    ) -> FunctionResult: ...
    def call_async(
        self,
        function: str,
        keys: Optional[_Keys] = None,
        numbers: Optional[_Numbers] = None,
        after: Iterable[Pending[Any]] = (),
    ) -> Pending[FunctionResult]: ...
    def memory(self) -> dict[str, int]: ...
    def localize(self, keys: _Keys, after: Iterable[Pending[Any]] = ()) -> Pending[None]: ...
    def intent(self, keys: _Keys, start: int, stop: int) -> None: ...
    def is_here(self, key: int) -> bool: ...
    def prepare_sample(
        self,
        distribution: KeyDistribution,
        count: int,
        random: Random,
        start: int = 0,
        stop: int = 0,
        preference: float = 0.0,
    ) -> Sample: ...
    def pull_sample(self, sample: Sample, out: Optional[_Array] = None) -> _Array: ...
    def staleness(self) -> dict[str, Any]: ...
    @property
    def name(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def dtype(self) -> numpy.dtype[Any]: ...

class Bags:
    def __init__(
        self,
        table: Table,
        indices: _Keys,
        offsets: Optional[_Keys] = None,
        length: int = 1,
        has_end: bool = False,
        is_mean: bool = False,
        weights: Optional[_Numbers] = None,
        padding: Optional[int] = None,
        limit: int = 0,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def keys(self) -> _KeyArray: ...
    def pull(self) -> _Array: ...
    def push(self, gradients: _Numbers, factor: float = 1.0) -> None: ...
    def gradients_of_weights(self, gradients: _Numbers) -> _Array: ...

class Session:
    def table(
        self,
        name: str,
        *,
        rows: int = 0,
        width: int = 1,
        dtype: numpy.typing.DTypeLike = "float32",
        consistency: Consistency = "ssp:1",
        sparse: bool = False,
        dynamic: bool = False,
        rule: str = "add",
        expected_rows: int = 0,
        initial: str = "zero",
        seed: int = 0,
        admission: str = "always",
        eviction: str = "never",
        filter: str = "none",
        encoding: str = "auto",
        cache_rows: Optional[int] = None,
    ) -> Table: ...
    def clock(self) -> None: ...
    def barrier(self) -> None: ...
    def poll(self) -> None: ...
    def checkpoint(
        self,
        folder: str,
        state: bytes = b"",
        *,
        keep: int = 2,
        increments: int = 0,
        notes: dict[str, str] = {},
    ) -> None: ...
    def finish_checkpoint(self) -> None: ...
    def resumed_state(self) -> Optional[bytes]: ...
    def limit_lead(self, clocks: int) -> None: ...
    def give_up(self, why: str) -> None: ...
    def report(self, iteration: int, items: float, seconds: float, sums: dict[str, float] = {}) -> None: ...
    def take_over(self) -> None: ...
    def statistics(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Session: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        raised: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def current_clock(self) -> int: ...
    @property
    def is_catching_up(self) -> bool: ...
    @property
    def rank(self) -> int: ...
    @property
    def workers(self) -> int: ...
    @property
    def servers(self) -> int: ...

class DataCursor:
    def __init__(self, session: Session, examples: int, mini_batch: int = 1, first: int = 0) -> None: ...
    def __iter__(self) -> DataCursor: ...
    def __next__(self) -> range: ...
    @property
    def left(self) -> int: ...
    @property
    def next_example(self) -> int: ...

class Server:
    def __init__(
        self,
        address: str,
        *,
        rank: int = 0,
        servers: int = 1,
        workers: int = 1,
        outlives_workers: bool = False,
        replaces_workers: bool = False,
        silence_timeout_ms: int = 5000,
        threads: int = 1,
        lanes: int = 0,
        push_budget_mb_per_s: float = 0,
        secret_file: str = "",
        no_secret: bool = False,
        tls: bool = False,
        device: str = "",
        device_port: int = 0,
        shares_cores: bool = False,
    ) -> None: ...
    def wait(self, timeout: Optional[float] = None) -> bool: ...
    def stop(self) -> None: ...
    def __enter__(self) -> Server: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        raised: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None: ...
    @property
    def address(self) -> str: ...
    @property
    def running(self) -> bool: ...

class ObservedTable:
    @property
    def name(self) -> str: ...
    @property
    def options(self) -> dict[str, Any]: ...

class Observer:
    def __init__(
        self,
        servers: Sequence[str],
        *,
        timeout_ms: int = 10000,
        secret_file: str = "",
        no_secret: bool = False,
        tls: bool = False,
        device: str = "",
        device_port: int = 0,
        shares_cores: bool = False,
    ) -> None: ...
    def job(self) -> ObservedJob: ...
    def tables(self) -> list[ObservedTable]: ...
    def call(self, table: ObservedTable, function: str, keys: Optional[_Keys] = None) -> FunctionResult: ...
    def memory(self, table: ObservedTable) -> dict[str, int]: ...
    def scan(self, table: ObservedTable) -> tuple[_KeyArray, numpy.typing.NDArray[numpy.float64]]: ...

def connect(
    servers: Sequence[str],
    *,
    rank: int = 0,
    workers: int = 1,
    node: Optional[int] = None,
    read_path: Literal["auto", "in-place", "cached"] = "auto",
    outlives_servers: bool = False,
    incarnation: int = 0,
    timeout_ms: int = 30000,
    clock_timeout_ms: int = 3600000,
    silence_timeout_ms: int = 5000,
    resume: str = "",
    inbox_bytes: int = ...,
    push_ring_bytes: int = ...,
    gather_row_bytes: Optional[int] = None,
    gather_keys: int = 64,
    update_budget_mb_per_s: float = 0,
    secret_file: str = "",
    no_secret: bool = False,
    tls: bool = False,
    device: str = "",
    device_port: int = 0,
    shares_cores: bool = False,
) -> Session: ...
def init(
    *,
    read_path: Literal["auto", "in-place", "cached"] = "auto",
    outlives_servers: bool = False,
    incarnation: int = 0,
    timeout_ms: int = 30000,
    clock_timeout_ms: int = 3600000,
    silence_timeout_ms: int = 5000,
    resume: str = "",
    inbox_bytes: int = ...,
    push_ring_bytes: int = ...,
    gather_row_bytes: Optional[int] = None,
    gather_keys: int = 64,
    update_budget_mb_per_s: float = 0,
    secret_file: str = "",
    no_secret: bool = False,
    tls: bool = False,
    device: str = "",
    device_port: int = 0,
    shares_cores: bool = False,
) -> Session: ...
def newest_checkpoint(folder: str) -> CheckpointSummary: ...
def read_checkpoint(path: str) -> CheckpointSummary: ...
def parse_consistency(text: str) -> str: ...
def _close_sessions(why_given_up: str) -> None: ...
def _stop_servers() -> None: ...
