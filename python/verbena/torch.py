"""Layers and an optimizer for PyTorch whose numbers are rows of tables.

    session = verbena.init()
    items = verbena.torch.EmbeddingBag(session, "items", 10_000_000, 64, mode="sum", lr=0.05)
    net = torch.nn.Linear(64, 1)
    optimizer = verbena.torch.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), session, net)
    for indices, offsets, label in verbena.torch.prefetch(loader, items):
        optimizer.zero_grad()
        loss(net(items(indices, offsets)), label).backward()  # pushes the rows' gradients
        optimizer.step()                                      # pushes what has become of the parameters
        session.clock()

docs/python.md has the rest.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import re
import time
import weakref
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence, Union

import numpy
import torch

from verbena._errors import AlreadyExistsError, DeadlineExceededError, FailedPreconditionError, InvalidArgumentError
from verbena._verbena import Bags, Session, Table

__all__ = [
    "DistributedOptimizer",
    "Embedding",
    "EmbeddingBag",
    "EmbeddingBagCollection",
    "EmbeddingBagConfig",
    "prefetch",
]

# How many bytes of a table's first values and their keys a worker sends at a time.
_BYTES_A_PIECE = 1 << 18
# How many of them, where servers hold them back until a clock has ended: each of their lanes takes 32 messages of a worker.
_PIECES_A_CLOCK = 16
# The table in which workers count the tables whose first values they have written.
_MEETINGS = "first values"
# How long workers that make their layers wait for each other: as long as a clock may take.
_LONGEST_MEETING_SECONDS = 3600
# Rules that are known to take a step when a push comes, unless the model holds updates back.
_IMMEDIATE_RULES = ("add", "sgd", "momentum", "adagrad", "rowwise-adagrad", "adam", "ftrl")
# The rows of a model's parameters.
_PARAMETERS_A_ROW = 64


def _numpy_is_known() -> bool:
    """Whether torch was built for this numpy: if not, its own conversions fail."""
    try:
        torch.zeros(1).numpy()
    except RuntimeError:
        return False
    return True


_BY_NUMPY = _numpy_is_known()


def _array(tensor: torch.Tensor) -> Any:
    """The tensor's numbers: where they lie, if that is on the processor, and else a copy."""
    tensor = tensor.detach() if tensor.requires_grad else tensor
    try:
        tensor = tensor.cpu()
    except NotImplementedError:  # of the device "meta", for example, whose tensors have only shapes
        raise InvalidArgumentError(
            f"a tensor with numbers is expected; one on the device {tensor.device} has none that can be copied to the host"
        ) from None
    return tensor.numpy() if _BY_NUMPY else numpy.from_dlpack(tensor)


def _tensor(array: Any) -> torch.Tensor:
    return torch.from_numpy(array) if _BY_NUMPY else torch.from_dlpack(array)


# Of an anchor, which has no values.
_NO_GRADIENT = torch.zeros(0, device="cpu")


def _dtype_name(dtype: torch.dtype) -> str:
    if dtype not in (torch.float32, torch.float64):
        raise InvalidArgumentError(f"dtype: torch.float32 or torch.float64 is expected, not {dtype}")
    return str(dtype)[len("torch."):]


class _Use:
    """What one forward() has made of a table's rows, and what backward() has to push for it."""

    def __init__(self, bags: Bags, factor: float) -> None:
        self.bags = bags
        self.gradients: Any = None
        self._factor = factor

    def push(self, _: torch.Tensor) -> None:
        self.bags.push(self.gradients, self._factor)
        self.gradients = None


class _Pooled(torch.autograd.Function):
    """The bags' sums; their gradients go to the table instead of to a tensor."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, use: _Use) -> Any:  # type: ignore[override]
        ctx.use = use
        return _tensor(use.bags.pull())

    @staticmethod
    def backward(ctx: Any, gradients: torch.Tensor) -> Any:  # type: ignore[override]
        ctx.use.gradients = _array(gradients)
        return _NO_GRADIENT, None


class _Weighted(torch.autograd.Function):
    """The same for samples that have weights, whose gradients are a tensor."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, anchor: torch.Tensor, weights: torch.Tensor, use: _Use
    ) -> Any:
        ctx.use = use
        return _tensor(use.bags.pull())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradients: torch.Tensor) -> Any:
        array = _array(gradients)
        ctx.use.gradients = array
        of_weights = _tensor(ctx.use.bags.gradients_of_weights(array)) if ctx.needs_input_grad[1] else None
        return _NO_GRADIENT if ctx.needs_input_grad[0] else None, of_weights, None


# The initial values that sparse tables know, with their usual parameters.
_INITIAL: dict[str, dict[str, float]] = {
    "zero": {},
    "constant": {"value": 1.0},
    "uniform": {"low": -0.01, "high": 0.01},
    "normal": {"mean": 0.0, "deviation": 0.01},
}


def _initial_values(text: str) -> Callable[[numpy.random.Generator, tuple[int, int]], Any]:
    """A function that makes such values of a shape."""
    try:
        kind, given = re.fullmatch(r"([a-z]+)(?:\(([^()]*)\))?", text).groups()  # type: ignore[union-attr]
        numbers = dict(_INITIAL[kind])
        for part in given.split(",") if given else []:
            name, value = part.split("=")
            numbers[name.strip()] = float(value)
        if len(numbers) != len(_INITIAL[kind]):
            raise ValueError
    except (AttributeError, KeyError, ValueError):
        raise InvalidArgumentError(
            f'initial: "zero", "constant(value=1)", "uniform(low=-0.01,high=0.01)", "normal(mean=0,deviation=0.01)" or '
            f"values are expected, not {text!r}"
        ) from None
    if kind == "uniform":
        return lambda random, shape: random.uniform(numbers["low"], numbers["high"], shape)
    if kind == "normal":
        return lambda random, shape: random.normal(numbers["mean"], numbers["deviation"], shape)
    return lambda random, shape: numpy.full(shape, numbers.get("value", 0.0))


def _are_given(who: str, options: dict[str, Any], are_zero: Callable[[], bool]) -> bool:
    """Whether a table of such options is to be given first values. Rows that move change by pushes only, and what is pushed
    to a rule is a gradient: they begin with zeros, and other values are refused."""
    if not options.get("dynamic") or options["rule"].partition("(")[0] == "add":
        return True
    if not are_zero():
        raise InvalidArgumentError(
            f"{who}: rows of a table with dynamic=True and a rule can only begin with zeros: for other first values, "
            f"steps that the worker takes, or dynamic=False, are expected"
        )
    return False


class _Beginnings:
    """What a session's layers and optimizers have begun with."""

    def __init__(self, session: Session) -> None:
        # Not the session itself, which would never go then: _BEGINNINGS has it as its key.
        self._rank = session.rank
        self._workers = session.workers
        self._made: dict[str, Any] = {}
        self._meetings: Optional[Table] = None
        self._filled = 0

    def has(self, name: str, what: Any, can_share: bool) -> bool:
        """Whether this session has made the like already; refuses what has the name of something else."""
        if name not in self._made:
            return False
        if can_share and self._made[name] == what:
            return True
        raise AlreadyExistsError(
            f'"{name}": this session has something of that name already; another name is expected, or, to share the '
            f"rows of a layer, the same options for both"
        )

    def note(self, name: str, what: Any) -> None:
        self._made[name] = what

    def fill(
        self,
        session: Session,
        table: Table,
        rows: int,
        options: dict[str, Any],
        values: Callable[[int, range], Any],
        writers: int,
    ) -> None:
        """Gives a table that is new its first values; all workers do so together, and the first `writers` of them
        write. values(n, keys): those of the n-th piece. A table that a checkpoint has brought keeps what it has."""
        if session.resumed_state() is not None:
            return
        rule = options["rule"].partition("(")[0]
        model = str(options.get("consistency", "ssp:1"))
        adds = rule == "add"
        # Clocks that pass here are clocks of rules that count them.
        needs_clock = model.startswith(("bsp", "a-bsp")) or rule not in _IMMEDIATE_RULES
        if needs_clock:
            is_done = session.is_catching_up
        else:
            if self._meetings is None:
                self._meetings = session.table(
                    _MEETINGS, rows=self._workers, width=1, dtype="int64", consistency="sequential"
                )
            # Not so for a worker that takes the place of one that has done it.
            is_done = self._filled_by(self._rank) > self._filled
        rows_a_piece = max(1, _BYTES_A_PIECE // (8 + 8 * table.width))
        pieces = -(-rows // rows_a_piece)
        pieces_a_clock = writers * _PIECES_A_CLOCK if needs_clock and not adds else pieces
        for first in range(0, pieces, pieces_a_clock):
            pending: list[Any] = []
            is_written = is_done or self._rank >= writers
            for piece in () if is_written else range(first + self._rank, min(pieces, first + pieces_a_clock), writers):
                keys = range(piece * rows_a_piece, min(rows, (piece + 1) * rows_a_piece))
                piece_values = numpy.asarray(values(piece, keys), dtype=table.dtype)
                if adds and needs_clock:
                    table.push(keys, piece_values)
                elif options.get("dynamic"):  # and so adds: _are_given()
                    table.push(keys, piece_values)
                    if model.startswith("asp"):
                        table.pull(keys)  # waits for what was pushed before, and push() does not
                elif needs_clock:
                    pending.append(table.call_async("set", list(keys), piece_values.ravel()))
                else:
                    table.call("set", list(keys), piece_values.ravel())
            if needs_clock:
                session.barrier()
                is_done = is_done and session.is_catching_up
                for each in pending:
                    each.wait()
        if not needs_clock:
            self._meet(is_done)

    def _filled_by(self, rank: int) -> int:
        assert self._meetings is not None
        return int(self._meetings.pull(range(rank, rank + 1))[0, 0])

    def _meet(self, is_done: bool) -> None:
        """Waits until all workers have filled as many tables, without a clock."""
        assert self._meetings is not None
        self._filled += 1
        if not is_done:
            self._meetings.push(range(self._rank, self._rank + 1), [[1]])
        deadline = time.monotonic() + _LONGEST_MEETING_SECONDS
        pause = 0.0005
        while True:
            filled = self._meetings.pull(range(self._workers))[:, 0]
            if filled.min() >= self._filled:
                return
            if time.monotonic() > deadline:
                raise DeadlineExceededError(
                    f"worker {int(filled.argmin())} has given first values to {int(filled.min())} tables, and this one to "
                    f"{self._filled}: all make the same layers"
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.01)


_BEGINNINGS: weakref.WeakKeyDictionary[Session, _Beginnings] = weakref.WeakKeyDictionary()


def _beginnings(session: Session) -> _Beginnings:
    return _BEGINNINGS.setdefault(session, _Beginnings(session))


def _seed_of(name: str, seed: int) -> int:
    """Layers of one seed begin with different rows."""
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "little")


class _TableLayer(torch.nn.Module):
    def __init__(
        self,
        session: Session,
        name: str,
        num_embeddings: Optional[int],
        embedding_dim: int,
        *,
        lr: Optional[float] = None,
        rule: Optional[str] = None,
        initial: Any = "normal(mean=0,deviation=1)",
        padding_idx: Optional[int] = None,
        sparse: bool = False,
        dynamic: bool = False,
        seed: int = 0,
        average: bool = False,
        dtype: Optional[torch.dtype] = torch.float32,
        max_norm: Optional[float] = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        device: Any = None,
        **options: Any,
    ) -> None:
        super().__init__()
        for argument, value, only in (
            ("max_norm", max_norm, None),
            ("norm_type", norm_type, 2.0),
            ("scale_grad_by_freq", scale_grad_by_freq, False),
        ):
            if value != only:
                raise InvalidArgumentError(
                    f'layer "{name}": {argument}: {only}, as by default, is expected, not {value!r}: layers over tables do '
                    f"not have it"
                )
        if device is not None and torch.device(device).type != "cpu":
            raise InvalidArgumentError(
                f'layer "{name}": device: "cpu" is expected, not "{device}": the rows are in a table; what forward() gives '
                f"is on the device of the indices"
            )
        if "_weight" in options:
            raise InvalidArgumentError(f'layer "{name}": initial=, a tensor of the first values, is expected, not _weight=')
        if dtype is None:
            dtype = torch.get_default_dtype()
        if (lr is None) == (rule is None):
            raise InvalidArgumentError(
                f'layer "{name}": one of both is expected, lr=0.05 for steps of that rate along the gradient, which the '
                f'worker sees at once, or rule="adagrad(rate=0.05)" or the like'
            )
        if rule is not None and rule.partition("(")[0] == "add":
            raise InvalidArgumentError(f'layer "{name}": rule="add" would climb; lr=0.05 takes steps down')
        if num_embeddings is None and not sparse:
            raise InvalidArgumentError(f'layer "{name}": num_embeddings is expected, unless sparse=True')
        if num_embeddings is not None and num_embeddings < 1:
            raise InvalidArgumentError(f'layer "{name}": num_embeddings: 1 or more is expected, not {num_embeddings}')
        if padding_idx is not None and num_embeddings is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise InvalidArgumentError(
                    f'layer "{name}": padding_idx: {-num_embeddings} to {num_embeddings - 1} is expected, '
                    f"not {padding_idx}"
                )
            padding_idx %= num_embeddings
        self.name = name
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self._session = session
        self._dynamic = dynamic
        self._factor = (1.0 if lr is None else -lr) / (session.workers if average else 1)
        self._is_frozen = False
        if sparse:
            options.setdefault("expected_rows", num_embeddings or 0)
        else:
            options["rows"] = num_embeddings
        is_text = isinstance(initial, str)
        make = _initial_values(initial) if is_text else None
        if not is_text:
            initial = _array(initial) if isinstance(initial, torch.Tensor) else numpy.asarray(initial)
            if initial.shape != (num_embeddings, embedding_dim):
                raise InvalidArgumentError(
                    f'layer "{name}": initial: shape {(num_embeddings, embedding_dim)} is expected, not {initial.shape}'
                )
        seed = _seed_of(name, seed)
        options.update(
            width=embedding_dim,
            dtype=_dtype_name(dtype),
            sparse=sparse,
            dynamic=dynamic,
            rule="add" if rule is None else rule,
            **({"initial": initial, "seed": seed} if sparse and is_text else {}),
        )
        are_given = _are_given(
            f'layer "{name}"', options, lambda: not (make(numpy.random.default_rng(seed), (1, 64)) if make else initial).any()
        )
        beginnings = _beginnings(session)
        begins_with = (initial, seed) if is_text else hashlib.sha256(initial.tobytes()).digest()
        is_shared = beginnings.has(name, (options, begins_with), can_share=True)
        self.table = session.table(name, **options)
        beginnings.note(name, (options, begins_with))
        if is_shared or num_embeddings is None or (sparse and is_text):
            return

        def values(piece: int, keys: range) -> Any:
            if make is None:
                return initial[keys.start:keys.stop]
            return make(numpy.random.default_rng((seed, piece)), (len(keys), embedding_dim))

        if are_given and (make is None or initial != "zero"):
            beginnings.fill(session, self.table, num_embeddings, options, values, session.workers)

    def requires_grad_(self, requires_grad: bool = True) -> _TableLayer:
        """Whether backward() pushes. requires_grad_() of a module around this layer says nothing to it."""
        self._is_frozen = not requires_grad
        return self

    def _bags(self, indices: torch.Tensor, **options: Any) -> Bags:
        return Bags(self.table, _array(indices), padding=self.padding_idx, limit=self.num_embeddings or 0, **options)

    def _pooled(self, bags: Bags, weights: Optional[torch.Tensor], device: torch.device) -> torch.Tensor:
        if not torch.is_grad_enabled() or (self._is_frozen and (weights is None or not weights.requires_grad)):
            return _tensor(bags.pull()).to(device)
        # Other devices have threads of their own for backward(), and the session is this thread's.
        weights = weights.cpu() if weights is not None else None
        use = _Use(bags, self._factor)
        # What makes autograd ask for the gradient of what the table gives. It is no parameter, so it is no optimizer's.
        # Only where gradients are accumulated its hook is called: torch.autograd.grad() asks, and changes nothing.
        anchor = torch.zeros(0, device="cpu", requires_grad=not self._is_frozen)
        if anchor.requires_grad:
            anchor.register_hook(use.push)
        pooled: torch.Tensor = _Pooled.apply(anchor, use) if weights is None else _Weighted.apply(anchor, weights, use)
        return pooled.to(device)

    def rows(self, indices: Any) -> torch.Tensor:
        """The embeddings of these indices, [n, embedding_dim], for looking at them: no gradient comes back."""
        return _tensor(self.table.pull(_array(indices) if isinstance(indices, torch.Tensor) else indices))

    def prefetch(self, indices: Any, clocks: int = 0) -> None:
        """Says that the embeddings of these indices will be used so many clocks from now: rows of a dynamic table come
        to this node, others into this worker's cache. `indices`: as for forward()."""
        bags = self._bags(_values_of(indices).reshape(-1))
        if self._dynamic:
            clock = self._session.current_clock + clocks
            self.table.intent(bags.keys, clock, clock + 1)
        else:
            self.table.pull_async(bags.keys)

    def extra_repr(self) -> str:
        return f'"{self.name}", {self.num_embeddings}, {self.embedding_dim}'


def _values_of(indices: Any) -> torch.Tensor:
    """Of a tensor, or of something like TorchRec's jagged tensors."""
    return indices if isinstance(indices, torch.Tensor) else indices.values()


class Embedding(_TableLayer):
    """As torch.nn.Embedding; the weights are the table `name`."""

    def __init__(
        self,
        session: Session,
        name: str,
        num_embeddings: Optional[int],
        embedding_dim: int,
        padding_idx: Optional[int] = None,
        max_norm: Optional[float] = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        *,
        device: Any = None,
        dtype: Optional[torch.dtype] = torch.float32,
        **options: Any,
    ) -> None:
        """From `num_embeddings` on as torch has them, but `sparse`, which is the table's. `options`: what the layer's table
        and its steps are like, docs/python.md."""
        super().__init__(
            session,
            name,
            num_embeddings,
            embedding_dim,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
            device=device,
            dtype=dtype,
            **options,
        )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        bags = self._bags(input.reshape(-1))
        return self._pooled(bags, None, input.device).view(*input.shape, self.embedding_dim)


class EmbeddingBag(_TableLayer):
    """As torch.nn.EmbeddingBag, with mode="sum" or "mean"; the weights are the table `name`. TorchRec's jagged tensors,
    and all that has values() and offsets() like them, are taken for input and offsets."""

    def __init__(
        self,
        session: Session,
        name: str,
        num_embeddings: Optional[int],
        embedding_dim: int,
        max_norm: Optional[float] = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        *,
        include_last_offset: bool = False,
        padding_idx: Optional[int] = None,
        device: Any = None,
        dtype: Optional[torch.dtype] = torch.float32,
        **options: Any,
    ) -> None:
        """As Embedding's, with `mode` and `include_last_offset`."""
        if mode not in ("sum", "mean"):
            raise InvalidArgumentError(f'layer "{name}": mode: "sum" or "mean" is expected, not {mode!r}')
        super().__init__(
            session,
            name,
            num_embeddings,
            embedding_dim,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
            device=device,
            dtype=dtype,
            **options,
        )
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(
        self,
        input: Any,
        offsets: Optional[torch.Tensor] = None,
        per_sample_weights: Optional[torch.Tensor] = None,
    ) -> torch.Tensor:
        has_end = self.include_last_offset
        if not isinstance(input, torch.Tensor):
            input, offsets, has_end = input.values(), input.offsets(), True
        options: dict[str, Any] = {}
        if input.dim() == 2:
            if offsets is not None:
                raise InvalidArgumentError("offsets: none is expected with indices of two dimensions: each row is a bag")
            if input.shape[1] == 0:
                options["offsets"] = numpy.zeros(input.shape[0], dtype=numpy.int64)
            else:
                options["length"] = input.shape[1]
        elif input.dim() != 1:
            raise InvalidArgumentError(f"indices of 1 or 2 dimensions are expected, not of {input.dim()}")
        elif offsets is None:
            raise InvalidArgumentError("offsets: where the bags begin is expected with indices of one dimension")
        else:
            options["offsets"] = _array(offsets)
            options["has_end"] = has_end
        if per_sample_weights is not None:
            if per_sample_weights.shape != input.shape:
                raise InvalidArgumentError(
                    f"per_sample_weights: shape {tuple(input.shape)}, that of the indices, is expected, "
                    f"not {tuple(per_sample_weights.shape)}"
                )
            per_sample_weights = per_sample_weights.reshape(-1)
            options["weights"] = _array(per_sample_weights)
        bags = self._bags(input.reshape(-1), is_mean=self.mode == "mean", **options)
        return self._pooled(bags, per_sample_weights, input.device)


@dataclasses.dataclass
class EmbeddingBagConfig:
    """A table of a collection, with the names that TorchRec's has."""

    name: str
    num_embeddings: Optional[int]
    embedding_dim: int
    feature_names: Sequence[str]
    pooling: Any = "sum"
    """ "sum" or "mean", or TorchRec's PoolingType."""


class EmbeddingBagCollection(torch.nn.Module):
    """Several EmbeddingBag by the names of their features. `options` are those of each. Configurations may be TorchRec's."""

    def __init__(self, session: Session, tables: Iterable[Any], **options: Any) -> None:
        super().__init__()
        self._layers = torch.nn.ModuleList()
        self._layer_of: dict[str, int] = {}
        for number, config in enumerate(tables):
            mode = str(getattr(config.pooling, "value", config.pooling)).lower()
            self._layers.append(
                EmbeddingBag(session, config.name, config.num_embeddings, config.embedding_dim, mode=mode, **options)
            )
            for feature in config.feature_names:
                if feature in self._layer_of:
                    raise InvalidArgumentError(f"feature {feature!r}: it is in two tables of the collection")
                self._layer_of[feature] = number

    def forward(self, features: Any) -> dict[str, torch.Tensor]:
        """`features`: by name, indices of two dimensions, (values, offsets), or what EmbeddingBag takes; or TorchRec's
        KeyedJaggedTensor. Returns what the bags come to, by name."""
        pooled: dict[str, torch.Tensor] = {}
        for feature, number in self._layer_of.items():
            one = self._feature(features, feature)
            pooled[feature] = self._layers[number](*one) if isinstance(one, tuple) else self._layers[number](one)
        return pooled

    def requires_grad_(self, requires_grad: bool = True) -> EmbeddingBagCollection:
        """As EmbeddingBag.requires_grad_(), of each."""
        for layer in self._layers:
            layer.requires_grad_(requires_grad)
        return self

    def _feature(self, features: Any, feature: str) -> Any:
        try:
            return features[feature]
        except (KeyError, IndexError, TypeError):
            raise InvalidArgumentError(
                f"features: the one with the name {feature!r} is expected, and those of {sorted(self._layer_of)}"
            ) from None

    def prefetch(self, features: Any, clocks: int = 0) -> None:
        """As EmbeddingBag.prefetch(), of features as for forward()."""
        for feature, number in self._layer_of.items():
            one = self._feature(features, feature)
            self._layers[number].prefetch(one[0] if isinstance(one, tuple) else one, clocks)


def _parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [each for group in optimizer.param_groups for each in group["params"]]


def _are_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Also where both are no numbers, as after steps that were too long."""
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())


class DistributedOptimizer:
    """The parameters of a model are the table `name`; all workers' steps change them.

    With an optimizer of torch's each worker takes its steps, and pushes what they have changed. With the text of a rule,
    "adam(rate=0.001)", it pushes gradients of the model's parameters, and the servers take the steps. Both are divided by
    the number of workers, unless average=False. The first values are those that worker 0 has, also those of parameters of
    `model` that are frozen or another optimizer's: these are not pulled again.

    Parameters are pulled once in each clock: before the first forward() of `model`, or by pull().
    """

    def __init__(
        self,
        optimizer: Union[torch.optim.Optimizer, str],
        session: Session,
        model: Optional[torch.nn.Module] = None,
        *,
        name: str = "model",
        average: bool = True,
        **options: Any,
    ) -> None:
        self.optimizer = None if isinstance(optimizer, str) else optimizer
        self._parameters: list[torch.Tensor]
        self._others: list[torch.Tensor]
        if isinstance(optimizer, str):
            if optimizer.partition("(")[0] == "add":
                raise InvalidArgumentError('DistributedOptimizer: the rule "add" would climb; a rule for gradients is expected')
            if model is None:
                raise InvalidArgumentError("DistributedOptimizer: with a rule, the model is expected, too")
            self._parameters = [each for each in model.parameters() if each.requires_grad]
        else:
            self._parameters = _parameters_of(optimizer)
        if not self._parameters:
            raise InvalidArgumentError("DistributedOptimizer: a parameter or more is expected, that wants a gradient")
        types = {each.dtype for each in self._parameters}
        if len(types) != 1:
            raise InvalidArgumentError(
                f"DistributedOptimizer: parameters of one type are expected, not of {sorted(map(str, types))}"
            )
        dtype = _dtype_name(types.pop())
        own = set(self._parameters)
        self._others = [each for each in model.parameters() if each not in own] if model is not None else []
        for each in self._others:
            if torch.promote_types(each.dtype, self._parameters[0].dtype) != self._parameters[0].dtype:
                raise InvalidArgumentError(
                    f"DistributedOptimizer: parameters of {self._parameters[0].dtype}, or of types whose values that has, "
                    f"are expected, not of {each.dtype}"
                )
        self._session = session
        self._share = 1 / session.workers if average else 1.0
        self._pulled_in: Optional[int] = None
        # Each parameter begins a row of its own: those without a gradient are not pushed.
        self._rows: list[range] = []
        rows = 0
        for each in self._parameters + self._others:
            count = -(-each.numel() // _PARAMETERS_A_ROW)
            self._rows.append(range(rows, rows + count))
            rows += count
        options.update(
            rows=rows,
            width=_PARAMETERS_A_ROW,
            dtype=dtype,
            rule=optimizer if isinstance(optimizer, str) else "add",
        )
        first = numpy.zeros((rows, _PARAMETERS_A_ROW), dtype=dtype)
        self._copy(self._views(first), self._parameters + self._others)
        are_given = _are_given("DistributedOptimizer", options, lambda: not first.any())
        beginnings = _beginnings(session)
        beginnings.has(name, None, can_share=False)
        self._table = session.table(name, **options)
        beginnings.note(name, None)
        if are_given:
            beginnings.fill(session, self._table, rows, options, lambda _, keys: first[keys.start:keys.stop], 1)
        # Also its own: another optimizer of the model, which comes later, gives them the values that worker 0 has.
        self._table.pull(range(rows), out=first)
        self._copy(self._parameters + self._others, self._views(first))
        own_rows = self._rows[len(self._parameters) - 1].stop
        self._frozen = [each for each in self._others if not each.requires_grad]
        self._rows = self._rows[:len(self._parameters)]
        # Of the parameters, when they were pulled or pushed the last time.
        self._values = first[:own_rows].copy()
        self._updates = numpy.zeros_like(self._values)
        self._value_views = self._views(self._values)
        self._update_views = self._views(self._updates)
        if model is not None:
            model.register_forward_pre_hook(self._before_forward)

    def pull(self) -> None:
        """Gives the parameters the values that the table's consistency model shows now."""
        for each, values in zip(self._parameters, self._value_views):
            if not _are_same(each.detach().to(values.device), values):
                raise FailedPreconditionError(
                    f"DistributedOptimizer: parameters were changed, one of shape {tuple(each.shape)} among them, but not by "
                    f"its step(), and a pull would undo that: load_state_dict() and the like are expected before the "
                    f"optimizer is made, or between pull() and step()"
                    if self.optimizer is not None
                    else f"DistributedOptimizer: parameters were changed, one of shape {tuple(each.shape)} among them, and "
                    f"a pull would undo that: load_state_dict() and the like are expected before the optimizer is made"
                )
        self._table.pull(range(len(self._values)), out=self._values)
        self._copy(self._parameters, self._value_views)
        self._pulled_in = self._session.current_clock

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Takes a step, or lets the servers take it. Returns what `closure` does, which computes the gradients."""
        if self._pulled_in != self._session.current_clock:
            raise FailedPreconditionError(
                "DistributedOptimizer.step(): parameters are pulled once in each clock before their gradients are computed, "
                "by forward() of the model that the optimizer was given, or by pull()"
            )
        if self.optimizer is not None:
            now = _parameters_of(self.optimizer)
            if len(now) != len(self._parameters) or any(a is not b for a, b in zip(now, self._parameters)):
                raise FailedPreconditionError(
                    "DistributedOptimizer.step(): the optimizer has other parameters than when it was given: "
                    "add_param_group() is expected before that"
                )
            loss = self.optimizer.step(closure)
            self._read()
            self._table.push(range(len(self._values)), self._updates)
            return loss
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if any(each.requires_grad and each.grad is not None for each in self._frozen):
            raise FailedPreconditionError(
                "DistributedOptimizer.step(): a parameter that was frozen when the optimizer was made has a gradient: the "
                "servers take no steps for it"
            )
        pushed = []
        for each, rows, updates in zip(self._parameters, self._rows, self._update_views):
            if each.grad is not None:
                torch.mul(each.grad.detach().to(updates.device), self._share, out=updates)
                pushed.append(numpy.arange(rows.start, rows.stop))
        if pushed:
            keys = numpy.concatenate(pushed)
            self._table.push(keys, self._updates[keys])
        return loss

    def zero_grad(self) -> None:
        for each in self._parameters:
            each.grad = None

    def _read(self) -> None:
        """Notes how the parameters are now, and this worker's share of how they have changed."""
        with torch.no_grad():
            for each, values, updates in zip(self._parameters, self._value_views, self._update_views):
                now = each.detach().to(values.device)
                torch.sub(now, values, out=updates).mul_(self._share)
                values.copy_(now)

    @staticmethod
    def _copy(to: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> None:
        with torch.no_grad():
            for each, values in zip(to, given):
                each.copy_(values)

    def _before_forward(self, *_: Any) -> None:
        if self._pulled_in != self._session.current_clock:
            self.pull()

    def _views(self, array: Any) -> list[torch.Tensor]:
        flat = _tensor(array).view(-1)
        return [
            flat[rows.start * _PARAMETERS_A_ROW:][:each.numel()].view(each.shape)
            for rows, each in zip(self._rows, self._parameters + self._others)
        ]


def prefetch(
    loader: Iterable[Any],
    *layers: Any,
    indices: Optional[Callable[[Any], Sequence[Any]]] = None,
    ahead: int = 1,
) -> Iterator[Any]:
    """The loader's batches, one for each clock. So many clocks before a batch comes, each layer's prefetch() is called with
    its indices: the i-th element of the batch for the i-th layer, or of indices(batch). A batch that is no tuple or list
    is one layer's: a tensor of indices, or the dictionary of a collection."""
    if ahead < 1:
        raise InvalidArgumentError(f"ahead: 1 clock or more is expected, not {ahead}")
    waiting: collections.deque[Any] = collections.deque()
    for batch in loader:
        for layer, one in zip(layers, _for_layers(layers, batch if indices is None else indices(batch), indices is None)):
            layer.prefetch(one, clocks=len(waiting))
        waiting.append(batch)
        if len(waiting) > ahead:
            yield waiting.popleft()
    while waiting:
        yield waiting.popleft()


def _for_layers(layers: Sequence[Any], parts: Any, is_batch: bool) -> Sequence[Any]:
    """The parts of a batch that are the layers'."""
    is_list = isinstance(parts, (tuple, list))
    if not is_list:
        is_one = len(layers) == 1 and isinstance(layers[0], EmbeddingBagCollection) == isinstance(parts, dict)
        if is_one or not layers:
            return [parts]
    if is_list and (len(parts) >= len(layers) if is_batch else len(parts) == len(layers)):
        return parts  # type: ignore[no-any-return]
    if is_batch:
        what = f"{len(parts)} parts" if is_list else f"the type {type(parts).__name__}"
        raise InvalidArgumentError(
            f"prefetch(): a batch with a part for each of {len(layers)} layers is expected, not of {what}; "
            f"or indices=, a function that says what is theirs: indices=lambda batch: [batch[\"items\"]]"
        )
    what = f"{len(parts)} parts" if is_list else f"the type {type(parts).__name__}"
    raise InvalidArgumentError(f"indices(batch): a list of {len(layers)}, one for each layer, is expected, not {what}")
