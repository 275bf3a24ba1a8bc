"""Waiting for an operation in an event loop of asyncio's."""

from __future__ import annotations

import asyncio
from typing import Any

from verbena._verbena import Pending

# Nobody tells the event loop that something has come, so the operation is looked at again and again: most end within
# microseconds, so at first without a pause but for the other tasks' turns. What takes longer is worth fewer looks.
_LOOKS_WITHOUT_PAUSE = 50
_SHORTEST_PAUSE = 0.0001
_LONGEST_PAUSE = 0.002


async def until_done(pending: Pending[Any]) -> Any:
    looks = 0
    pause = _SHORTEST_PAUSE
    while not pending.poll():
        looks += 1
        if looks <= _LOOKS_WITHOUT_PAUSE:
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
    return pending.wait()
