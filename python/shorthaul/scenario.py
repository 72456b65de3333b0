"""Scenario files as objects, and running them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit import TOMLDocument

from . import _shorthaul
from .outcome import Outcome


@dataclass(frozen=True)
class Point:
    """One point of a scenario's sweep."""

    index: int
    """Its place, from 0."""
    case: str | None
    """The listed case, where there is one."""
    values: dict[str, str]
    """The swept values by path, as they stand in the file."""


class Scenario:
    """A scenario file: the same TOML that `shorthaul run` takes, comments and order included.

    >>> scenario = Scenario('''
    ... duration = "10 s"
    ... [hosts.client]
    ... [hosts.server]
    ... [[links]]
    ... between = ["client", "server"]
    ... link = { rate = "10 Mbit/s", delay = "20 ms", queue = "50 packets" }
    ... [[flows]]
    ... from = "server"
    ... to = "client"
    ... bulk = "1 MB"
    ... [measure]
    ... metrics = ["completion"]
    ... ''')
    >>> round(simulate(scenario).metrics["completion"], 1)
    1.0
    >>> scenario["hosts"]["client"]["scheme"] = "reno"
    >>> len(scenario.with_sweep({"links.client-server.link.delay": ["20 ms", "200 ms"]}).points)
    2

    `scenario[...]` is the TOML document; what is changed there counts from the next check or run on.
    """

    def __init__(self, text: str, *, name: str = "scenario", directory: str | Path | None = None) -> None:
        """`name` is what errors call it; trace files are looked for in `directory`.

        Raises ScenarioError if it makes no sense: at which line, what is wrong and what would be right.
        """
        self.name = name
        self.directory = None if directory is None else Path(directory)
        # Read by the program first: its errors say more.
        self._checked: tuple[str, _shorthaul.Study] | None = None
        self._study_of(text)
        self.document: TOMLDocument = tomlkit.parse(text)

    @classmethod
    def load(cls, path: str | Path) -> Scenario:
        """Reads a scenario file."""
        path = Path(path)
        return cls(path.read_text(encoding="utf-8"), name=str(path), directory=path.parent)

    def save(self, path: str | Path) -> None:
        """Writes it to a file, after a check."""
        self.check()
        Path(path).write_text(self.dumps(), encoding="utf-8")

    def dumps(self) -> str:
        """It as TOML."""
        return tomlkit.dumps(self.document)

    def __getitem__(self, key: str) -> Any:
        return self.document[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.document[key] = value

    def __delitem__(self, key: str) -> None:
        del self.document[key]

    def __contains__(self, key: object) -> bool:
        return key in self.document

    def __iter__(self) -> Iterator[str]:
        return iter(self.document)

    def __repr__(self) -> str:
        return f"Scenario({self.name!r}, {len(self.points)} points, {len(self.seeds)} seeds)"

    def copy(self) -> Scenario:
        """Another one that can be changed without changing this."""
        return Scenario(self.dumps(), name=self.name, directory=self.directory)

    def with_sweep(self, over: Mapping[str, Sequence[Any]]) -> Scenario:
        """The same with these values for these paths, every combination of them, instead of its own sweep.

        A path is one of a sweep in a scenario file, such as `links.gw-client.link.delay`.
        """
        other = tomlkit.parse(self.dumps())
        sweep = tomlkit.table()
        for path, values in over.items():
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise TypeError(f"over[{path!r}]: a list of values, such as [\"20 ms\", \"200 ms\"]; got {values!r}")
            sweep[path] = list(values)
        if "sweep" in other:
            del other["sweep"]
        other["sweep"] = sweep
        return Scenario(tomlkit.dumps(other), name=self.name, directory=self.directory)

    def check(self) -> None:
        """Raises ScenarioError if it makes no sense any more."""
        self._study()

    def explain(self) -> str:
        """What would be run, in words."""
        return self._study().explain()

    @property
    def points(self) -> list[Point]:
        """The points of its sweep; one if it has none."""
        points = enumerate(self._study().points)
        return [Point(index, case, dict(values)) for index, (case, values) in points]

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs of each point."""
        return self._study().seeds

    def _study(self) -> _shorthaul.Study:
        return self._study_of(self.dumps())

    def _study_of(self, text: str) -> _shorthaul.Study:
        if self._checked is None or self._checked[0] != text:
            directory = None if self.directory is None else str(self.directory)
            self._checked = (text, _shorthaul.Study(text, self.name, directory))
        return self._checked[1]


def simulate(
    scenario: Scenario | str | Path, *, seed: int | None = None, point: int = 0, engine: str = "sim"
) -> Outcome:
    """Runs one point of a scenario with one seed, and says what came of it.

    scenario: a Scenario, or the path of a scenario file.
    seed: without, the file's first.
    point: of its sweep, from 0.
    engine: "sim", the deterministic simulator, or "model", closed-form models of TCP.

    Other threads of Python run meanwhile; Ctrl-C ends it. Raises EngineError if the engine cannot run it or fails.
    """
    if not isinstance(scenario, Scenario):
        scenario = Scenario.load(scenario)
    study = scenario._study()
    told = study.run(point, study.seeds[0] if seed is None else seed, engine)
    return Outcome._of(told)
