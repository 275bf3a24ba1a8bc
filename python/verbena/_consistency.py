"""The consistency models that a table can choose (docs/consistency.md says when to take which).

A text does as well: session.table(…, consistency="essp:2").
"""

from __future__ import annotations

import dataclasses
from typing import Union


@dataclasses.dataclass(frozen=True)
class Bsp:
    """Bulk synchronous parallel: a read sees exactly the updates of all finished clocks, and one's own."""

    def __str__(self) -> str:
        return "bsp"


@dataclasses.dataclass(frozen=True)
class ABsp:
    """As BSP; a clock ends for all workers when the first one has finished its examples (DataCursor)."""

    means: bool = False
    """Updates are means over examples, and not sums: they are weighted by how many examples they hold."""

    def __str__(self) -> str:
        return "a-bsp:means" if self.means else "a-bsp"


@dataclasses.dataclass(frozen=True)
class Ssp:
    """Stale synchronous parallel: all updates but perhaps those of the last `staleness` clocks."""

    staleness: int = 1

    def __str__(self) -> str:
        return f"ssp:{self.staleness}"


@dataclasses.dataclass(frozen=True)
class Essp:
    """As SSP; servers push rows that have changed to the workers that read them."""

    staleness: int = 1

    def __str__(self) -> str:
        return f"essp:{self.staleness}"


@dataclasses.dataclass(frozen=True)
class BoundedDelay:
    """A clock begins only when all clocks more than `delay` before it have finished everywhere."""

    delay: int = 1

    def __str__(self) -> str:
        return f"bounded-delay:{self.delay}"


@dataclasses.dataclass(frozen=True)
class Asp:
    """Asynchronous parallel: nobody waits, and nothing bounds how old what is read may be."""

    def __str__(self) -> str:
        return "asp"


@dataclasses.dataclass(frozen=True)
class Sequential:
    """Each number behaves as if all workers' pushes and pulls came one after the other."""

    def __str__(self) -> str:
        return "sequential"


@dataclasses.dataclass(frozen=True)
class Vap:
    """Value-bounded: what not all workers can see yet is at most value_bound / sqrt(clock) in each coordinate."""

    value_bound: float = 1.0

    def __str__(self) -> str:
        return f"vap:{float(self.value_bound)!r}"


Consistency = Union[Bsp, ABsp, Ssp, Essp, BoundedDelay, Asp, Sequential, Vap, str]
