"""Transport protocols over bad links: simulate, forecast and sweep, with and without proxies.

>>> import shorthaul
>>> plan = shorthaul.plan(rtt=0.128, loss=0.001, rate="32 Mbit/s", size="100 MB")
>>> print(plan)                                     # doctest: +SKIP
>>> outcome = shorthaul.simulate(shorthaul.Scenario.load("scenarios/agreement/direct-loss.toml"))   # doctest: +SKIP
>>> outcome.metrics["goodput"]                      # doctest: +SKIP

Quantities are SI: seconds, bits a second, bytes. Where a text is taken, it is written as in scenario files ("10 Mbit/s",
"40 ms", "100 kB").
"""

from ._shorthaul import (
    ENGINE,
    Congestion,
    EngineError,
    Link,
    ScenarioError,
    __version__,
    models,
)
from .outcome import SERIES_UNITS, Flow, Outcome, TimeSeries
from .planning import Plan, Way, forecast, plan
from .scenario import Scenario, simulate
from .sweeping import SweepResult, metric_units, sweep

__all__ = [
    "ENGINE",
    "SERIES_UNITS",
    "Congestion",
    "EngineError",
    "Flow",
    "Link",
    "Outcome",
    "Plan",
    "Scenario",
    "ScenarioError",
    "SweepResult",
    "TimeSeries",
    "Way",
    "__version__",
    "forecast",
    "metric_units",
    "models",
    "plan",
    "simulate",
    "sweep",
]
