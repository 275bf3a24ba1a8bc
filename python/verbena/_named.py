"""Texts that name something, with its parameters."""

from __future__ import annotations


def named(kind: str, **parameters: float) -> str:
    """The text for rules, functions, filters and the like: named("adagrad", rate=0.1) is "adagrad(rate=0.1)"."""
    if not parameters:
        return kind
    return kind + "(" + ",".join(f"{name}={value!r}" for name, value in parameters.items()) + ")"
