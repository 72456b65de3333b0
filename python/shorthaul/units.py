"""Quantities, as numbers or as people write them."""

from __future__ import annotations

import re

_PREFIXES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def _split(what: str, text: str, example: str) -> tuple[float, str]:
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*(\S*)\s*", text)
    if not found:
        raise ValueError(f"{what}: {text!r} is not a quantity; write for example {example}")
    return float(found[1]), found[2]


def seconds(what: str, value: float | str) -> float:
    """A length of time in seconds: a number, or a text such as "40 ms"."""
    if not isinstance(value, str):
        return float(value)
    number, unit = _split(what, value, '"40 ms"')
    if unit not in _TIMES:
        raise ValueError(f"{what}: {value!r} has no unit of time; write one of {', '.join(_TIMES)}")
    return number * _TIMES[unit]


def bits_per_second(what: str, value: float | str) -> float:
    """A rate in bit/s: a number, or a text such as "10 Mbit/s"."""
    if not isinstance(value, str):
        return float(value)
    number, unit = _split(what, value, '"10 Mbit/s"')
    prefix = unit.removesuffix("bit/s")
    if prefix == unit or prefix not in _PREFIXES:
        raise ValueError(f"{what}: {value!r} is not a rate; write for example \"10 Mbit/s\"")
    return number * _PREFIXES[prefix]


def size_in_bytes(what: str, value: int | str) -> int:
    """A size in bytes: a number, or a text such as "100 kB" or "4 MiB"."""
    if not isinstance(value, str):
        return int(value)
    number, unit = _split(what, value, '"100 kB"')
    prefix = unit.removesuffix("B")
    if prefix == unit or prefix not in _PREFIXES:
        raise ValueError(f"{what}: {value!r} is not a size; write for example \"100 kB\"")
    return round(number * _PREFIXES[prefix])


def share(what: str, value: float | str) -> float:
    """A probability from 0 to 1: a number, or a text such as "0.1 %"."""
    if not isinstance(value, str):
        return float(value)
    number, unit = _split(what, value, '"0.1 %"')
    if unit not in ("", "%"):
        raise ValueError(f"{what}: {value!r} is not a share; write 0.001 or \"0.1 %\"")
    return number / 100 if unit == "%" else number


def together(texts: list[str]) -> tuple[list[float] | list[str], str | None]:
    """Values as they stand in scenario files, as numbers in the unit that they share: "s", "bit/s", "B", "packets", or "" for none.

    If they share none, they come back as texts without quotation marks, and with None.
    """
    texts = [text.strip('"') for text in texts]
    quantities = [_quantity(text) for text in texts]
    found = {None if quantity is None else quantity[1] for quantity in quantities}
    if len(found) == 1 and None not in found:
        return [quantity[0] for quantity in quantities if quantity is not None], found.pop()
    return texts, None


def _quantity(text: str) -> tuple[float, str] | None:
    readers = {"s": seconds, "bit/s": bits_per_second, "B": size_in_bytes, "": share}
    for unit, read in readers.items():
        try:
            return float(read("", text)), unit
        except ValueError:
            continue
    number, _, unit = text.partition(" ")
    return (float(number), unit) if unit == "packets" and number.isdecimal() else None
