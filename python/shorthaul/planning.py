"""Forecasts by closed-form models, and whether relays are worth it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _shorthaul, units

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Way:
    """One way to make a transfer, and what is forecast for it."""

    relays: int
    seconds: float
    """Expected time from the first SYN to the last byte."""
    seconds_low: float
    """Lower end of the interval that holds 95 % of cases."""
    seconds_high: float
    """Upper end of it."""
    set_up_seconds: float
    """Until the first byte of payload arrives."""
    goodput: int
    """Size over expected time, in bit/s."""
    long_run: int
    """What it comes to in the long run, whatever the size, in bit/s."""
    gain: float | None
    """How many times as fast as the direct way; None where that was not forecast."""
    buffers: list[int]
    """What each relay needs to hold, in bytes."""
    drought: float
    """The largest share that a relay's outgoing leg loses because its buffer is empty."""
    overflow: float
    """The largest share that a relay's incoming leg loses because its buffer is full."""
    binding_leg: int
    """The leg that binds, from 0 at the source."""
    binding_limit: str
    """What binds on it."""
    advised: bool
    """Whether this is the way to take."""
    sentence: str
    """What a person would say."""

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Plan:
    """Ways to make a transfer, and which of them to take."""

    ways: list[Way]
    sentence: str

    @property
    def advised(self) -> Way:
        """The way to take."""
        return next(way for way in self.ways if way.advised)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each way."""
        import pandas

        return pandas.DataFrame([vars(way) for way in self.ways])

    def __str__(self) -> str:
        lines = [f"{way.relays} relays: {way.sentence}" for way in self.ways]
        return "\n".join([*lines, self.sentence])


def plan(
    *,
    rtt: float | str,
    loss: float | str,
    rate: float | str,
    size: int | str,
    relays: Iterable[int] = range(5),
    model: str = "cubic",
    streams: int = 1,
    queue: float = 1.0,
    window: int | str | None = None,
    buffer: int | str | None = None,
    wait: int = 0,
    store: bool = False,
    sequential: bool = False,
    least_gain: float = 1.1,
) -> Plan:
    """Whether a transfer over one path should use relays, how many, and what is gained.

    rtt: round-trip time between the ends, without queueing, in seconds.
    loss: the share of packets that the path loses, all of it together, from 0 to 0.5.
    rate: of the narrowest link, headers included, in bit/s.
    size: what is to be moved by all streams together, in bytes.
    relays: numbers of relays to think of, at equal distances.
    model: how TCP behaves; `models()` has the names and their sources.
    queue: what the narrowest link's queue holds, in bandwidth-delay products.
    window: the smaller of both ends' TCP buffers, if they bind, in bytes.
    buffer: what each relay can hold, in bytes; without, as much as it needs.
    wait: round trips that each relay waits before it sends on; `store`: relays store everything first.
    sequential: relays are set up one after the other.
    least_gain: relays are advised where they make the transfer this many times as fast.

    Raises ValueError where a quantity is out of range.
    """
    return _ways(_question(locals()), list(relays), least_gain)


def forecast(
    *,
    rtt: float | str,
    loss: float | str,
    rate: float | str,
    size: int | str,
    relays: int = 0,
    position: float | None = None,
    model: str = "cubic",
    streams: int = 1,
    queue: float = 1.0,
    window: int | str | None = None,
    buffer: int | str | None = None,
    wait: int = 0,
    store: bool = False,
    sequential: bool = False,
) -> Way:
    """What is forecast for a transfer with this number of relays, as for `plan`.

    position: where a single relay stands, from 0 at the source to 1 at the destination; without, half-way.
    """
    if position is not None and relays != 1:
        raise ValueError(f"position: a place for one relay; there are {relays}")
    return _ways(_question(locals()), [relays], 0.0).ways[0]


def _question(given: dict[str, Any]) -> dict[str, Any]:
    def if_given(what: str) -> int | None:
        return None if given[what] is None else units.size_in_bytes(what, given[what])

    return {
        "rtt": units.seconds("rtt", given["rtt"]),
        "loss": units.share("loss", given["loss"]),
        "rate": units.bits_per_second("rate", given["rate"]),
        "size": units.size_in_bytes("size", given["size"]),
        "streams": given["streams"],
        "queue": float(given["queue"]),
        "window": if_given("window"),
        "model": given["model"],
        "buffer": if_given("buffer"),
        "wait": given["wait"],
        "store": given["store"],
        "sequential": given["sequential"],
        "position": given.get("position"),
    }


def _ways(question: dict[str, Any], relays: list[int], least_gain: float) -> Plan:
    rows, sentence = _shorthaul.forecast(question, relays, least_gain)
    return Plan([Way(**row) for row in rows], sentence)
