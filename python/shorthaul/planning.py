"""Forecasts by closed-form models or by the map of paths, and whether relays are worth it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _shorthaul, pathmap, units

if TYPE_CHECKING:
    import pandas

_RELAYS = {"direct": 0, "gateway": 0, "relay": 1, "two relays": 2}
"""How many relays each way of the map has."""


@dataclass(frozen=True)
class Way:
    """One way to make a transfer, and what is forecast for it. What the map of paths does not tell is None."""

    name: str
    """"direct", "relay", "two relays", "3 relays" and so on; by the map also "gateway": a transparent one, not configured."""
    relays: int
    seconds: float
    """Expected time from the first SYN to the last byte."""
    seconds_low: float
    """Lower end of the interval that holds 95 % of cases."""
    seconds_high: float
    """Upper end of it."""
    set_up_seconds: float | None
    """Until the first byte of payload arrives."""
    goodput: int
    """Size over expected time, in bit/s."""
    long_run: int | None
    """What it comes to in the long run, whatever the size, in bit/s."""
    gain: float | None
    """How many times as fast as the direct way; None where that was not forecast."""
    buffers: list[int] | None
    """What each relay needs to hold, in bytes."""
    drought: float | None
    """The largest share that a relay's outgoing leg loses because its buffer is empty."""
    overflow: float | None
    """The largest share that a relay's incoming leg loses because its buffer is full."""
    binding_leg: int | None
    """The leg that binds, from 0 at the source."""
    binding_limit: str | None
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
        lines = [f"{way.name}: {way.sentence}" for way in self.ways]
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
    ends: str | None = None,
    bad_link: float | str | None = None,
    burst: float | None = None,
) -> Plan:
    """Whether a transfer over one path should use relays, how many, and what is gained.

    rtt: round-trip time between the ends, without queueing, in seconds.
    loss: the share of packets that the path loses, all of it together, from 0 to 0.5.
    rate: of the narrowest link, headers included, in bit/s.
    size: what is to be moved by all streams together, in bytes.
    relays: numbers of relays to think of, at equal distances.
    model: how TCP behaves; `models()` has the names and their sources. "map" asks the map of paths instead: what simulations of others
        say, a transparent gateway among the ways. It has up to two relays, and takes no `streams`, `window`, `buffer`, `wait`, `store` and
        `sequential`.
    queue: what the narrowest link's queue holds, in bandwidth-delay products.
    window: the smaller of both ends' TCP buffers, if they bind, in bytes.
    buffer: what each relay can hold, in bytes; without, as much as it needs.
    wait: round trips that each relay waits before it sends on; `store`: relays store everything first.
    sequential: relays are set up one after the other.
    least_gain: relays are advised where they make the transfer this many times as fast.

    For the map alone:
    ends: the congestion control of both ends: "reno", "cubic" (without), "bbr" or "bbr3".
    bad_link: the share of the round trip, 0.02 to 0.5, that lies between the client and the far end of the bad link, where the gateway or
        the first relay stands; without, 0.1.
    burst: how long a burst of losses lasts, in packets at the link's rate; without, 1, for losses that know nothing of each other.

    Raises ValueError where a quantity is out of range.
    """
    if model == "map":
        return _by_map(locals())
    given = [name for name, value in (("ends", ends), ("bad_link", bad_link), ("burst", burst)) if value is not None]
    if given:
        raise ValueError(f'{", ".join(given)}: for model="map" alone; this one is {model!r}')
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
    names = {number: name for name, number in _RELAYS.items() if name != "gateway"}
    ways = [Way(name=names.get(row["relays"], f"{row['relays']} relays"), **row) for row in rows]
    return Plan(ways, sentence)


def _by_map(given: dict[str, Any]) -> Plan:
    usual = {"streams": 1, "window": None, "buffer": None, "wait": 0, "store": False, "sequential": False}
    unknown = [name for name, value in usual.items() if given[name] != value]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: the map was not made with it; leave it out, or take one of models()")
    numbers = list(given["relays"])
    names = [way for way in pathmap.WAYS if _RELAYS[way] in numbers]
    if not names:
        raise ValueError(f"relays: the map knows ways with up to two; there are {numbers}")
    question = _question(given)
    point = pathmap.PathPoint(
        name="plan",
        rate=question["rate"],
        rtt=question["rtt"],
        loss=question["loss"],
        burst=1.0 if given["burst"] is None else float(given["burst"]),
        queue=question["queue"],
        ends=given["ends"] or "cubic",
        position=0.1 if given["bad_link"] is None else units.share("bad_link", given["bad_link"]),
        size=question["size"],
    )
    best, told = _shorthaul.map_plan(point, names, float(given["least_gain"]))
    times = dict(zip(pathmap.WAYS, told, strict=True))
    ways = [_way_of_map(name, times, question["size"], name == best) for name in names]
    gain = times["direct"][0] / times[best][0]
    least = given["least_gain"]
    sentence = {
        "direct": f"Go direct: none of these ways is {f'{least:g} times as fast' if least > 1 else 'faster'}.",
        "gateway": f"Put a gateway at the bad link: {gain:.1f} times as fast, and the ends need not know.",
        "relay": f"Use one relay at the bad link: {gain:.1f} times as fast.",
        "two relays": f"Use two relays: {gain:.1f} times as fast.",
    }
    return Plan(ways, sentence[best])


def _way_of_map(name: str, times: dict[str, tuple[float, float, float]], size: int, advised: bool) -> Way:
    seconds, low, high = times[name]
    gain = times["direct"][0] / seconds
    return Way(
        name=name,
        relays=_RELAYS[name],
        seconds=seconds,
        seconds_low=low,
        seconds_high=high,
        set_up_seconds=None,
        goodput=int(size * 8 / seconds),
        long_run=None,
        gain=gain,
        buffers=None,
        drought=None,
        overflow=None,
        binding_leg=None,
        binding_limit=None,
        advised=advised,
        sentence=f"{seconds:.3g} s, in 95 % of cases {low:.3g} to {high:.3g} s; {gain:.2f} times as fast as directly",
    )
