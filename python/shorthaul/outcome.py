"""What comes of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas


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
    """Time in seconds, and the value."""


@dataclass(frozen=True)
class Outcome:
    """What came of one run. Equal runs have equal outcomes, on every machine."""

    seed: int
    metrics: dict[str, float]
    """The scenario's metrics; one that has no value is left out."""
    intervals: dict[str, tuple[float, float]]
    """From where to where a metric lies in 95 % of cases, as far as the engine knows that of a single run."""
    flows: list[Flow]
    links: list[dict[str, Any]]
    """What each direction of each link did: numbers by name."""
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
