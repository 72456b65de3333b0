"""The map of paths: where splitting pays, over eight dimensions at once.

Reading order: `draw` (points, each a path with its work), `PathPoint` (one of them), `survey` (simulates them by each way), `times` (how
long transfers took), `fit` (a surrogate: what is near what was simulated), `Surrogate`, `figures`.

`shorthaul plan --model map` and `PathPoint.seconds` use the surrogate that comes with the program; `survey` and `fit` make another.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _shorthaul
from .scenario import Scenario
from .sweeping import SweepResult, sweep

if TYPE_CHECKING:
    import numpy
    import pandas

ENDS = {"reno": "sack-reno", "cubic": "cubic", "bbr": "bbr", "bbr3": "bbr3"}
"""Congestion controls of the ends, each with its profile in scenario files."""
WAYS = tuple(_shorthaul.map_ways())
"""Directly; through a transparent gateway of which nothing is configured; by one and by two relays."""

_RATE = (1e6, 500e6)
_RTT = (0.010, 0.600)
_LOSS = (1e-5, 0.03)
_BURST = (1.0, 20.0)
_QUEUE = (0.1, 4.0)
_SIZE = (30e3, 100e6)
_POSITION = (0.02, 0.5)
_HARDLY_LONGER = 1.1
"""A way with less in it is taken if it takes no longer than this, in times of the fastest: as the program does."""
_LONGEST = 120.0
"""A transfer is not to take longer than this at the link's rate, in seconds."""
_RELAY_BUFFER = "64 MB"
"""More than any path of the map has under way: what a small buffer costs is not what is asked here."""
_MTU = 1500


@dataclass(frozen=True)
class PathPoint:
    """A path between two ends, what is fetched across it, and where it could be split."""

    name: str
    rate: float
    """Of the bad link, the narrowest, in bit/s."""
    rtt: float
    """Of the whole path without queueing, in seconds."""
    loss: float
    """The share of packets that the bad link loses, 0 to 1."""
    burst: float
    """How long a burst of losses lasts on average, in packets at the link's rate; 1 is loss that knows nothing of its past."""
    queue: float
    """What the bad link's queue holds, in bandwidth-delay products of the whole path; ten packets at least."""
    ends: str
    """Congestion control of both ends: a key of `ENDS`."""
    position: float
    """The bad link's share of the round trip: the gateway, or the only relay, stands at its server's side."""
    size: float
    """What is fetched, in bytes."""

    def scenarios(self) -> dict[str, Scenario]:
        """The same by each of the ways."""
        return {f"{self.name}/{way}": self.scenario(way) for way in WAYS}

    def scenario(self, way: str) -> Scenario:
        """The path by one of the ways."""
        profile = ENDS[self.ends]
        middle = {
            "direct": 'routers = ["middle", "far"]',
            "gateway": 'routers = ["far"]\n[gateways.middle]\naccess = "client"',
            "relay": f'routers = ["far"]\n[relays.middle]\nscheme = "{profile}"\nbuffer = "{_RELAY_BUFFER}"',
            "two relays": f'[relays.middle]\nscheme = "{profile}"\nbuffer = "{_RELAY_BUFFER}"\n[relays.far]\nscheme = "{profile}"\nbuffer = "{_RELAY_BUFFER}"',
        }[way]
        # What is before the first table belongs to no table.
        routers, _, tables = middle.partition("\n") if middle.startswith("routers") else ("", "", middle)
        clean = "queue = \"unlimited\"" if self.rate >= _RATE[1] else f'rate = "{10 * self.rate:.0f} bit/s"'
        half = self.rtt * (1 - self.position) / 4
        text = f"""
duration = "{20 * _LONGEST:.0f} s"
{routers}
[hosts.client]
scheme = "{profile}"
[hosts.server]
scheme = "{profile}"
{tables}
[[links]]
between = ["client", "middle"]
link = {{ rate = "{self.rate:.0f} bit/s", delay = "{self._us(self.rtt * self.position / 2)}", queue = "{self._queue_bytes()} B"{self._loss()} }}
[[links]]
between = ["middle", "far"]
link = {{ {clean}, delay = "{self._us(half)}" }}
[[links]]
between = ["far", "server"]
link = {{ {clean}, delay = "{self._us(half)}" }}
[[flows]]
name = "file"
from = "server"
to = "client"
opened_by = "client"
bulk = "{self.size:.0f} B"
[measure]
metrics = ["completion", "unfinished"]
"""
        return Scenario(text, name=f"{self.name}/{way}")

    @staticmethod
    def _us(seconds: float) -> str:
        return f"{max(1.0, seconds * 1e6):.0f} us"

    def _queue_bytes(self) -> int:
        return max(10 * _MTU, round(self.queue * self.rate * self.rtt / 8))

    def _loss(self) -> str:
        if self.loss == 0:
            return ""
        if self.burst <= 1:
            down = f"loss = {self.loss!r}"
        else:
            # Bursts last for a time, as on a radio: a chain that moves by the packet would stand still while a sender waits.
            lossy = self.burst * _MTU * 8 / self.rate
            clear = lossy * (1 - self.loss) / self.loss
            times = f'on = "{1e6 * lossy:.0f} us", off = "{1e6 * clear:.0f} us"'
            down = f'loss = {{ model = "on-off", {times}, rate = 1.0 }}'
        return f", down = {{ {down} }}"

    def ideal(self) -> float:
        """Seconds that it takes at the link's rate, after two round trips."""
        return 2 * self.rtt + self.size * 8 / (self.rate * 1448 / _MTU)

    def seconds(self) -> dict[str, tuple[float, float, float]]:
        """What the map that comes with the package says of each way: seconds, and the interval that holds 95 % of simulations.

        Raises ValueError for a path outside the space that was simulated.
        """
        return dict(zip(WAYS, _shorthaul.map_best(self)[1], strict=True))

    def best(self) -> str:
        """The way to take, by that map: one with less in it, if it takes hardly longer."""
        return _shorthaul.map_best(self)[0]


def draw(count: int, seed: int = 1) -> list[PathPoint]:
    """Points that fill the space evenly (Sobol's sequence, scrambled by the seed): the first n of a longer list are those of a shorter one."""
    from scipy.stats import qmc

    sobol = qmc.Sobol(9, scramble=True, seed=seed)
    exponent = max(1, math.ceil(math.log2(max(count, 2))))
    return [_point(f"{seed}-{n}", row) for n, row in enumerate(sobol.random_base2(exponent)[:count].tolist())]


def _point(name: str, part: Sequence[float]) -> PathPoint:
    def between(where: float, bounds: tuple[float, float]) -> float:
        return bounds[0] * (bounds[1] / bounds[0]) ** where

    rate = between(part[0], _RATE)
    # A quarter loses nothing, a third of the rest in bursts.
    loss = 0.0 if part[2] < 0.25 else between((part[2] - 0.25) / 0.75, _LOSS)
    burst = 1.0 if part[3] < 2 / 3 or loss == 0 else between(3 * part[3] - 2, _BURST)
    return PathPoint(
        name=name,
        rate=rate,
        rtt=between(part[1], _RTT),
        loss=loss,
        burst=burst,
        queue=between(part[4], _QUEUE),
        ends=list(ENDS)[int(part[5] * len(ENDS))],
        position=between(part[6], _POSITION),
        size=min(between(part[7], _SIZE), rate / 8 * _LONGEST),
    )


def survey(points: Sequence[PathPoint], *, out: str | Path, seeds: int = 2, **options: Any) -> SweepResult:
    """Simulates each point by each way. `options` are those of `sweep`."""
    scenarios = [scenario for point in points for scenario in point.scenarios().values()]
    return sweep(scenarios, out=out, seeds=range(1, seeds + 1), **options)


def times(points: Sequence[PathPoint], result: SweepResult) -> pandas.DataFrame:
    """A row for each point and way: the point, `way`, and `seconds` that the transfer took, on average over the seeds.

    A transfer that did not end counts with the duration of its run; a run that failed does not count.
    """
    import pandas

    frame = result.to_pandas()
    frame = frame[frame["failure"].isna()].copy()
    frame["seconds"] = frame["completion"].fillna(20 * _LONGEST) if "completion" in frame else 20 * _LONGEST
    means = frame.groupby("scenario")["seconds"].mean()
    rows = []
    for point in points:
        for way in WAYS:
            seconds = means.get(f"{point.name}/{way}")
            if seconds is not None:
                rows.append({**asdict(point), "way": way, "seconds": seconds})
    return pandas.DataFrame(rows)


@dataclass
class Surrogate:
    """How long a transfer takes by each way, from simulations of others."""

    text: str
    """The map as the program reads it: JSON."""
    median_error: float
    """Relative, against simulations that it was not fitted to."""
    decisions_right: float
    """Of all choices there between the direct way and one of the others: the share that is right in simulation, or costs a tenth at most."""
    points: int
    """To how many paths it was fitted."""

    def seconds(self, point: PathPoint) -> dict[str, tuple[float, float, float]]:
        """Seconds by each way, and the interval that holds 95 % of simulations."""
        return dict(zip(WAYS, _shorthaul.map_best(point, self.text)[1], strict=True))

    def best(self, point: PathPoint) -> str:
        """The way to take."""
        return _shorthaul.map_best(point, self.text)[0]

    def save(self, path: str | Path) -> None:
        """Writes the map to a file."""
        Path(path).write_text(self.text, encoding="utf-8")


def fit(frame: pandas.DataFrame, *, held_out: float = 0.2, trees: int = 400, seed: int = 1) -> Surrogate:
    """Fits a surrogate to what `times` says: trees by gradient boosting (LightGBM), for the logarithm of time over ideal time.

    held_out: the share of points that it does not see, on which its error is measured.
    """
    import lightgbm
    import numpy

    frame = frame.reset_index(drop=True)
    names = sorted(frame["name"].unique())
    order = numpy.random.default_rng(seed).permutation(len(names))
    hidden = frame["name"].isin([names[at] for at in order[: max(1, round(held_out * len(names)))]]).to_numpy()
    inputs, targets = _inputs(frame)
    options = {
        "objective": "l1",
        "learning_rate": 0.05,
        "num_leaves": 24,
        "min_data_in_leaf": 8,
        "lambda_l2": 1.0,
        "seed": seed,
        "deterministic": True,
        "num_threads": 1,
        "verbosity": -1,
    }
    booster = lightgbm.train(options, lightgbm.Dataset(inputs[~hidden], targets[~hidden]), num_boost_round=trees)
    off = booster.predict(inputs[hidden]) - targets[hidden]
    told = {
        "features": _shorthaul.map_feature_names(),
        "points": int(frame.loc[~hidden, "name"].nunique()),
        "median_error": round(float(numpy.median(numpy.abs(numpy.expm1(off)))), 4),
        "decisions_right": round(_share_right(frame[hidden], off), 4),
        "spread": round(float(numpy.exp(numpy.quantile(numpy.abs(off), 0.95))), 4),
        "trees": {"trees": [_tree(tree["tree_structure"]) for tree in booster.dump_model()["tree_info"]]},
    }
    text = json.dumps(told, separators=(",", ":"))
    return Surrogate(text, told["median_error"], told["decisions_right"], told["points"])


def _tree(root: dict[str, Any]) -> dict[str, list[float]]:
    """A tree of LightGBM as lists: inner nodes in the order of a walk, leaves apart."""
    tree: dict[str, list[float]] = {"feature": [], "threshold": [], "left": [], "right": [], "leaf": []}

    def add(node: dict[str, Any]) -> int:
        if "leaf_value" in node:
            tree["leaf"].append(float(f"{node['leaf_value']:.6g}"))
            return -len(tree["leaf"])
        at = len(tree["feature"])
        tree["feature"].append(node["split_feature"])
        tree["threshold"].append(float(f"{node['threshold']:.7g}"))
        tree["left"].append(0)
        tree["right"].append(0)
        tree["left"][at] = add(node["left_child"])
        tree["right"][at] = add(node["right_child"])
        return at

    add(root)
    return tree


def _inputs(frame: pandas.DataFrame) -> tuple[numpy.ndarray, numpy.ndarray]:
    import numpy

    inputs, targets = [], []
    fields = list(PathPoint.__dataclass_fields__)
    known: dict[str, list[list[float]]] = {}
    for row in frame.to_dict("records"):
        point = PathPoint(**{field: row[field] for field in fields})
        if point.name not in known:
            known[point.name] = _shorthaul.map_features(point)
        inputs.append(known[point.name][WAYS.index(row["way"])])
        targets.append(math.log(row["seconds"] / point.ideal()))
    return numpy.array(inputs), numpy.array(targets)


def _share_right(frame: pandas.DataFrame, off: numpy.ndarray) -> float:
    """Of all choices between the direct way and one of the others: how many were right, or cost a tenth at most."""
    import numpy

    seconds = frame.pivot(index="name", columns="way", values="seconds")
    told = frame.assign(told=frame["seconds"] * numpy.exp(off)).pivot(index="name", columns="way", values="told")
    right = []
    for way in WAYS[1:]:
        splits = told["direct"] > _HARDLY_LONGER * told[way]
        taken = seconds[way].where(splits, seconds["direct"])
        right.append(taken <= _HARDLY_LONGER * seconds[["direct", way]].min(axis=1))
    return float(numpy.mean(right))


def figures(frame: pandas.DataFrame, path: str | Path) -> None:
    """Draws what splitting gains over loss and over the length of a transfer, for each way and control, to a file.

    Lines are medians of a bin of points, areas the middle half of them.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy

    times_of = frame.pivot(index="name", columns="way", values="seconds")
    points = frame[frame["way"] == "direct"].set_index("name").loc[times_of.index]
    flights = points["size"] * 8 / (points["rate"] * points["rtt"])
    across = [
        ("loss of the bad link", points["loss"].clip(lower=_LOSS[0] / 3), numpy.geomspace(_LOSS[0] / 3, _LOSS[1], 8)),
        ("size of the transfer, in bandwidth-delay products", flights, numpy.geomspace(0.05, 500, 9)),
    ]
    picture, panels = plt.subplots(2, 3, figsize=(12, 7), sharey=True, layout="constrained")
    for row, (label, values, edges) in zip(panels, across, strict=True):
        for panel, way in zip(row, WAYS[1:], strict=True):
            gain = times_of["direct"] / times_of[way]
            for colour, ends in zip(("tab:blue", "tab:orange", "tab:green", "tab:red"), ENDS, strict=True):
                chosen = points["ends"] == ends
                bins = numpy.digitize(values[chosen], edges)
                told = [gain[chosen][bins == number] for number in range(1, len(edges))]
                middle = numpy.sqrt(edges[1:] * edges[:-1])
                enough = numpy.array([len(part) >= 8 for part in told])
                quartiles = numpy.array([part.quantile([0.25, 0.5, 0.75]) if len(part) else [1] * 3 for part in told])
                panel.plot(middle[enough], quartiles[enough, 1], color=colour, marker="o", markersize=3, label=ends)
                panel.fill_between(middle[enough], quartiles[enough, 0], quartiles[enough, 2], color=colour, alpha=0.1)
            panel.axhline(1, color="grey", linewidth=0.8)
            panel.set(xscale="log", yscale="log", xlabel=label, title=way, ylim=(0.7, 12))
            panel.set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
        row[0].set_ylabel("times as fast as directly")
    panels[0][0].legend(title="both ends", fontsize=8)
    picture.suptitle(f"What splitting gains on {len(points)} paths drawn at random, simulated")
    picture.savefig(path, dpi=110)
    plt.close(picture)
