"""What comes of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _shorthaul, plotting

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas
    import pyarrow

SERIES_UNITS = {
    "cwnd": "B",
    "ssthresh": "B",
    "sequence": "B",
    "acknowledged": "B",
    "rtt": "s",
    "in-flight": "B",
    "delivered": "B",
    "queue": "packets",
    "queue-delay": "s",
    "buffer": "B",
}
"""The unit of each value over time."""


@dataclass(frozen=True)
class Flow:
    """What a flow got."""

    name: str
    delivered: int
    """Payload delivered to the application, in bytes."""
    goodput: float
    """Payload after the warm-up by the time that it had, in bit/s."""
    transfers: list[float]
    """How long each transfer took, in seconds."""
    set_ups: list[float]
    """How long each connection took to be established end to end, in seconds."""
    ended: bool
    """Whether it ended within the run."""


@dataclass(frozen=True)
class TimeSeries:
    """One value over time."""

    series: str
    """What."""
    subject: str
    """Of whom: a flow, `flow@relay`, or a link's direction."""
    points: list[tuple[float, float]] = field(repr=False)
    """Time in seconds, and the value in the unit that `SERIES_UNITS` tells."""


@dataclass(frozen=True)
class Outcome:
    """What came of one run. Equal runs have equal outcomes, on every machine."""

    seed: int
    metrics: dict[str, float]
    """The scenario's metrics, in the units that `metric_units()` tells; one that has no value is left out."""
    intervals: dict[str, tuple[float, float]]
    """From where to where a metric lies in 95 % of cases, as far as the engine knows that of a single run."""
    flows: list[Flow]
    links: list[dict[str, Any]]
    """What each direction of each link did, by name: `offered`, `delivered`, `queue_full`, `lost`, `outage` and `max_queue` in packets,
    `delivered_bytes` in bytes."""
    series: list[TimeSeries]
    ended_at: float
    """In seconds of the run's own time."""
    events: int
    trace_hash: str
    """A hash over all events in order."""
    problems: list[str]
    """What must not happen and did. A run with any is not to be trusted."""

    @classmethod
    def _of(cls, told: dict[str, Any]) -> Outcome:
        return cls(
            seed=told["seed"],
            metrics=told["metrics"],
            intervals={name: tuple(ends) for name, ends in told.get("intervals", {}).items()},
            flows=[Flow(**flow) for flow in told["flows"]],
            links=told["links"],
            series=[
                TimeSeries(one["series"], one["subject"], [tuple(point) for point in one["points"]])
                for one in told["series"]
            ],
            ended_at=told["ended_at"],
            events=told["events"],
            trace_hash=told["trace_hash"],
            problems=told["problems"],
        )

    def flows_to_pandas(self) -> pandas.DataFrame:
        """A row for each flow."""
        import pandas

        return pandas.DataFrame([vars(flow) for flow in self.flows])

    def series_to_pandas(self) -> pandas.DataFrame:
        """Columns `series`, `subject`, `time` (s) and `value`: a row for each point."""
        import pandas

        rows = [(one.series, one.subject, *point) for one in self.series for point in one.points]
        return pandas.DataFrame(rows, columns=["series", "subject", "time", "value"])

    def to_arrow(self) -> dict[str, pyarrow.Table]:
        """What came of it as tables by name. The unit of a column is in its field's metadata, too.

        metrics: `metric`, `unit`, `value`, and `low` and `high`, the ends of the interval that holds 95 % of cases, null where the engine
            does not know it.
        flows: a row for each. `name`; `delivered` (B); `goodput` (bit/s); `transfers` and `set_ups` (lists, s); `ended`.
        links: a row for each direction. `name` (from>to); `offered` and `delivered` (packets); `delivered_bytes` (B); `queue_full`, `lost`,
            `outage`, `max_queue` (packets).
        series: a row for each point. `series`, `subject`, `unit`, `time` (s), `value` (in that unit).

        Needs pyarrow: the extra `frames`.
        """
        import pyarrow as pa

        def table(columns: list[tuple[str, pa.DataType, str]], rows: list[dict[str, Any]]) -> pa.Table:
            fields = [pa.field(name, kind, metadata={"unit": unit} if unit else None) for name, kind, unit in columns]
            return pa.Table.from_pylist(rows, schema=pa.schema(fields))

        text, real, count = pa.string(), pa.float64(), pa.uint64()
        units = dict(_shorthaul.metric_units())
        metrics = [
            {"metric": name, "unit": units[name], "value": value, "low": low, "high": high}
            for name, value in self.metrics.items()
            for low, high in [self.intervals.get(name, (None, None))]
        ]
        series = [
            {"series": one.series, "subject": one.subject, "unit": SERIES_UNITS[one.series], "time": time, "value": value}
            for one in self.series
            for time, value in one.points
        ]
        packets = ["queue_full", "lost", "outage", "max_queue"]
        return {
            "metrics": table(
                [("metric", text, ""), ("unit", text, ""), ("value", real, ""), ("low", real, ""), ("high", real, "")],
                metrics,
            ),
            "flows": table(
                [
                    ("name", text, ""),
                    ("delivered", count, "B"),
                    ("goodput", real, "bit/s"),
                    ("transfers", pa.list_(real), "s"),
                    ("set_ups", pa.list_(real), "s"),
                    ("ended", pa.bool_(), ""),
                ],
                [vars(flow) for flow in self.flows],
            ),
            "links": table(
                [
                    ("name", text, ""),
                    ("offered", count, "packets"),
                    ("delivered", count, "packets"),
                    ("delivered_bytes", count, "B"),
                    *((name, count, "packets") for name in packets),
                ],
                self.links,
            ),
            "series": table(
                [("series", text, ""), ("subject", text, ""), ("unit", text, ""), ("time", real, "s"), ("value", real, "")],
                series,
            ),
        }

    def to_pandas(self) -> dict[str, pandas.DataFrame]:
        """The tables of `to_arrow` as frames."""
        return {name: table.to_pandas() for name, table in self.to_arrow().items()}

    def plot(self, series: str | None = None, *, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Draws a value over time, in its unit over seconds: a line for each flow, relay or link that has it.

        series: one of those that the scenario measures; without, the first.
        ax: where to draw; without, on axes of a new figure.

        Returns the axes. Needs matplotlib: the extra `plot`. Raises ValueError if there is no such series.
        """
        there = list(dict.fromkeys(one.series for one in self.series))
        if not there:
            raise ValueError('there is nothing over time to draw; have the scenario measure some: series = ["cwnd"]')
        series = series or there[0]
        if series not in there:
            raise ValueError(f"series: {series!r} was not measured; there are {', '.join(there)}")
        ax = plotting.axes(ax)
        for one in self.series:
            if one.series == series:
                ax.plot([time for time, _ in one.points], [value for _, value in one.points], label=one.subject)
        ax.set(xlabel=plotting.label("time", "s"), ylabel=plotting.label(series, SERIES_UNITS[series]))
        ax.legend()
        return ax
