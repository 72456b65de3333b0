"""Sweeps: many points, many seeds, on the cores of this machine or on a Ray cluster, kept as Parquet.

Reading order: `sweep` (what is called), `_Task` (one run), `_do` (runs them, wherever it is called), `_Local` and `_Ray` (where),
`_Parts` (the directory of what was done), `SweepResult`.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import time
import uuid
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from . import _shorthaul
from .scenario import Scenario

if TYPE_CHECKING:
    import pandas
    import pyarrow

_BATCH_SECONDS = 2.0
"""Runs are handed out in batches of about this long: fewer would be lost in messages, more with a worker that dies."""
_LARGEST_BATCH = 64
_WAITING_BATCHES = 2
"""Batches handed out for each worker: one is run, one waits."""


@dataclass(frozen=True)
class _Task:
    """One run, with all that it needs, so that it can be done anywhere."""

    key: str
    point: int
    case: str | None
    values: dict[str, str]
    text: str
    name: str
    directory: str | None
    seed: int
    engine: str
    failures: int = 0

    def identity(self) -> dict[str, Any]:
        """The columns that say which run it is."""
        return {
            "key": self.key,
            "scenario": self.name,
            "point": self.point,
            "case": self.case,
            "values": list(self.values.items()),
            "seed": self.seed,
            "engine": self.engine,
            "version": _shorthaul.ENGINE,
        }

    def again(self) -> _Task:
        return _Task(**{**vars(self), "failures": self.failures + 1})


def sweep(
    scenario: Scenario | str | Path | Sequence[Scenario],
    over: Mapping[str, Sequence[Any]] | None = None,
    *,
    out: str | Path,
    seeds: Iterable[int] | None = None,
    engine: str = "sim",
    ray: bool | str = False,
    workers: int | None = None,
    retries: int = 2,
    flows: bool = False,
    part_runs: int = 500,
    part_seconds: float = 30.0,
    progress: bool = True,
) -> SweepResult:
    """Runs every point of a scenario with every seed, and keeps what comes of it as Parquet.

    scenario: a Scenario, or the path of a scenario file; or several Scenarios, whose names tell them apart.
    over: values by path, such as {"links.gw-client.link.delay": ["20 ms", "200 ms"]}: every combination is a point. Without,
        the file's own sweep.
    out: a directory for the Parquet files: a path, or any URL that fsspec knows ("s3://bucket/sweep"). What is there already is
        not run again, so an interrupted sweep goes on where it was. Runs are known by the same content hash as in the cache of
        `shorthaul run`: engine, its version, scenario and seed.
    seeds: instead of the file's.
    engine: "sim" or "model".
    ray: False, on this machine's cores; True, on the Ray cluster that this process is connected to, or else one that is found or
        begun here; or the address of one. Workers need this package.
    workers: how many runs at once; without, as many as there are cores. Of a cluster Ray decides, and this is how many are
        handed out at the same time.
    retries: how often a run that failed, or whose worker died, is tried again. What fails even then is kept with its reason.
    flows: keep what each flow got, too, and not only the metrics.
    part_runs, part_seconds: a file is written when it has so many runs, or after so long.
    progress: show a bar (tqdm), if its package is installed.

    Raises ScenarioError before anything is run, if a point makes no sense.
    """
    scenarios = [Scenario.load(scenario)] if isinstance(scenario, (str, Path)) else [scenario]
    if isinstance(scenario, Sequence) and not isinstance(scenario, str):
        scenarios = list(scenario)
    if over is not None:
        scenarios = [one.with_sweep(over) for one in scenarios]
    chosen = None if seeds is None else list(seeds)
    return _run_tasks(
        [task for one in scenarios for task in _tasks(one, chosen, engine)],
        out=out,
        ray=ray,
        workers=workers,
        retries=retries,
        flows=flows,
        part_runs=part_runs,
        part_seconds=part_seconds,
        progress=progress,
    )


def _tasks(scenario: Scenario, seeds: list[int] | None, engine: str) -> list[_Task]:
    study = scenario._study()
    chosen = study.seeds if seeds is None else seeds
    directory = None if scenario.directory is None else str(scenario.directory.resolve())
    tasks = []
    for point, (case, values) in enumerate(study.points):
        text = study.text_at(point)
        for seed in chosen:
            key = study.key(point, seed, engine) or _own_key(engine, text)
            tasks.append(_Task(key, point, case, dict(values), text, scenario.name, directory, seed, engine))
            if engine == "model":
                break  # It draws nothing: one run of a point says it all.
    return tasks


def _own_key(engine: str, text: str) -> str:
    parts = (engine, _shorthaul.__version__, _shorthaul.ENGINE, text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _do(tasks: list[_Task], flows: bool) -> list[dict[str, Any]]:
    """Runs tasks one after the other: a row for each."""
    return [_row(task, flows) for task in tasks]


def _row(task: _Task, flows: bool) -> dict[str, Any]:
    began = time.monotonic()
    row = task.identity()
    try:
        study = _shorthaul.Study(task.text, task.name, task.directory)
        told = study.run(0, task.seed, task.engine)
    except (_shorthaul.EngineError, _shorthaul.ScenarioError) as error:
        return {**row, "failure": str(error), "wall_seconds": time.monotonic() - began}
    return {
        **row,
        "metrics": list(told["metrics"].items()),
        "ended_at": told["ended_at"],
        "events": told["events"],
        "trace_hash": told["trace_hash"],
        "flows": told["flows"] if flows else None,
        "failure": "; ".join(told["problems"]) or None,
        "wall_seconds": time.monotonic() - began,
    }


class _Workers(Protocol):
    """Where batches are run."""

    at_once: int

    def submit(self, batch: list[_Task]) -> None: ...
    def some(self, timeout: float) -> list[tuple[list[_Task], list[dict[str, Any]] | Exception]]: ...
    def close(self) -> None: ...


class _Local:
    """Threads of this process: while a run computes, it does not hold the interpreter."""

    def __init__(self, workers: int | None, flows: bool) -> None:
        self.at_once = workers or os.cpu_count() or 1
        self._flows = flows
        self._pool = concurrent.futures.ThreadPoolExecutor(self.at_once)
        self._under_way: dict[concurrent.futures.Future[list[dict[str, Any]]], list[_Task]] = {}

    def submit(self, batch: list[_Task]) -> None:
        self._under_way[self._pool.submit(_do, batch, self._flows)] = batch

    def some(self, timeout: float) -> list[tuple[list[_Task], list[dict[str, Any]] | Exception]]:
        first = concurrent.futures.FIRST_COMPLETED
        done, _ = concurrent.futures.wait(self._under_way, timeout, first)
        results: list[tuple[list[_Task], list[dict[str, Any]] | Exception]] = []
        for future in done:
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            results.append((self._under_way.pop(future), error or future.result()))
        return results

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


class _Ray:
    """Tasks of a Ray cluster, which moves those of a worker or machine that dies to others."""

    def __init__(self, address: bool | str, workers: int | None, flows: bool, retries: int) -> None:
        import ray

        self._ray = ray
        if not ray.is_initialized():
            ray.init(address=address if isinstance(address, str) else None, log_to_driver=False)
        # A cluster that grows on demand has to see that more is waiting than it can do.
        self._workers, self._flows = workers, flows
        self._do = ray.remote(num_cpus=1, max_retries=retries)(_do)
        self._under_way: dict[Any, list[_Task]] = {}

    @property
    def at_once(self) -> int:
        cores = int(self._ray.cluster_resources().get("CPU", 1))
        return self._workers or max(1, 2 * cores)

    def submit(self, batch: list[_Task]) -> None:
        self._under_way[self._do.remote(batch, self._flows)] = batch

    def some(self, timeout: float) -> list[tuple[list[_Task], list[dict[str, Any]] | Exception]]:
        done, _ = self._ray.wait(list(self._under_way), num_returns=1, timeout=timeout)
        results: list[tuple[list[_Task], list[dict[str, Any]] | Exception]] = []
        for reference in done:
            batch = self._under_way.pop(reference)
            try:
                results.append((batch, self._ray.get(reference)))
            except self._ray.exceptions.RayError as error:
                results.append((batch, error))
        return results

    def close(self) -> None:
        for reference in self._under_way:
            self._ray.cancel(reference)
        self._under_way.clear()


def _schema() -> pyarrow.Schema:
    import pyarrow as pa

    flow = pa.struct(
        [
            ("name", pa.string()),
            ("delivered", pa.uint64()),
            ("goodput", pa.float64()),
            ("transfers", pa.list_(pa.float64())),
            ("set_ups", pa.list_(pa.float64())),
            ("ended", pa.bool_()),
        ]
    )
    return pa.schema(
        [
            ("key", pa.string()),
            ("scenario", pa.string()),
            ("point", pa.int64()),
            ("case", pa.string()),
            ("values", pa.map_(pa.string(), pa.string())),
            ("seed", pa.uint64()),
            ("engine", pa.string()),
            ("version", pa.string()),
            ("metrics", pa.map_(pa.string(), pa.float64())),
            ("ended_at", pa.float64()),
            ("events", pa.uint64()),
            ("trace_hash", pa.string()),
            ("flows", pa.list_(flow)),
            ("failure", pa.string()),
            ("wall_seconds", pa.float64()),
        ]
    )


class _Parts:
    """A directory of Parquet files, each complete or not there."""

    def __init__(self, out: str | Path) -> None:
        import fsspec

        self.url = str(out)
        self._files, path = fsspec.core.url_to_fs(self.url)
        self._directory = path.rstrip("/")
        self._files.makedirs(self._directory, exist_ok=True)
        self._session = uuid.uuid4().hex[:12]
        self._written = 0

    def read(self, columns: list[str] | None = None) -> pyarrow.Table:
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables = []
        for path in sorted(self._files.glob(f"{self._directory}/part-*.parquet")):
            with self._files.open(path, "rb") as file:
                try:
                    tables.append(pq.read_table(file, columns=columns))
                except pa.ArrowInvalid as error:
                    raise ValueError(f"{path} is no Parquet file of a sweep ({error}): move it away") from error
        empty = _schema().empty_table()
        return pa.concat_tables(tables) if tables else (empty.select(columns) if columns else empty)

    def known(self) -> set[str]:
        """The keys of what was done, and did not fail."""
        table = self.read(["key", "failure"])
        rows = zip(table["key"].to_pylist(), table["failure"].to_pylist(), strict=True)
        return {key for key, failure in rows if failure is None}

    def write(self, rows: list[dict[str, Any]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pylist(rows, schema=_schema())
        path = f"{self._directory}/part-{self._session}-{self._written:05}.parquet"
        partial = f"{self._directory}/.{self._session}.partial"
        with self._files.open(partial, "wb") as file:
            pq.write_table(table, file)
        self._files.mv(partial, path)
        self._written += 1


@dataclass
class SweepResult:
    """What a sweep came to. The rows are in its directory: a row for each run."""

    out: str
    ran: int
    """Runs that were done now."""
    known: int
    """Runs that had been done before."""
    failures: dict[str, str] = field(repr=False)
    """Why a run failed, by its key."""
    _keys: set[str] = field(repr=False)

    def to_arrow(self) -> pyarrow.Table:
        """The rows of this sweep; of a run that was done more than once, one that did not fail."""
        import pyarrow.compute as pc

        table = _Parts(self.out).read()
        best: dict[str, int] = {}
        rows = zip(table["key"].to_pylist(), table["failure"].to_pylist(), strict=True)
        for place, (key, failure) in enumerate(rows):
            if key in self._keys and (key not in best or failure is None):
                best[key] = place
        table = table.take(list(best.values()))
        return table.take(pc.sort_indices(table, [("point", "ascending"), ("seed", "ascending")]))

    def to_pandas(self) -> pandas.DataFrame:
        """The same with a column for each swept path and each metric, the latter as numbers."""
        import pandas

        rows = []
        for row in self.to_arrow().to_pylist():
            values, metrics = row.pop("values") or [], row.pop("metrics") or []
            rows.append({**row, **dict(values), **dict(metrics)})
        return pandas.DataFrame(rows)

    def summary(self, metric: str) -> pandas.DataFrame:
        """Number of runs, mean and half of the 95 % confidence interval of a metric, for each scenario and point.

        Runs that failed, or that are not to be trusted, do not count: `failures` says why.
        """
        frame = self.to_pandas()
        frame = frame[frame["failure"].isna()]
        swept = [name for name in frame.columns if "." in name]
        told = frame.groupby(["scenario", "point", *swept], dropna=False)[metric].agg(["count", "mean", "sem"])
        told["half_interval"] = [_student(n) * sem for n, sem in zip(told["count"], told.pop("sem"), strict=True)]
        return told.reset_index()


_STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]
"""97.5 % quantiles of Student's t with 1 to 10 degrees of freedom."""


def _student(count: int) -> float:
    freedom = count - 1
    if freedom < 1:
        return float("nan")
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    # Within 0.2 % of the quantile from eleven degrees of freedom on (Abramowitz and Stegun 26.7.5).
    return 1.95996 + 2.37227 / freedom + 2.8225 / freedom**2


def _run_tasks(
    tasks: list[_Task],
    *,
    out: str | Path,
    ray: bool | str,
    workers: int | None,
    retries: int,
    flows: bool,
    part_runs: int,
    part_seconds: float,
    progress: bool,
) -> SweepResult:
    """Runs what is not in `out` yet. The arguments are those of `sweep`."""
    parts = _Parts(out)
    keys = {task.key for task in tasks}
    before = parts.known() & keys
    seen: set[str] = set(before)
    waiting: deque[_Task] = deque()
    for task in tasks:
        # Two points may be the same scenario, written differently: one run is enough.
        if task.key not in seen:
            seen.add(task.key)
            waiting.append(task)
    result = SweepResult(str(out), 0, len(before), {}, keys)
    if not waiting:
        return result
    place: _Workers = _Ray(ray, workers, flows, retries) if ray else _Local(workers, flows)
    bar = _bar(len(keys), len(before)) if progress else None
    try:
        _run_all(waiting, place, parts, result, retries, part_runs, part_seconds, bar)
    finally:
        place.close()
        if bar is not None:
            bar.close()
    return result


def _run_all(
    waiting: deque[_Task],
    place: _Workers,
    parts: _Parts,
    result: SweepResult,
    retries: int,
    part_runs: int,
    part_seconds: float,
    bar: Any,
) -> None:
    under_way, finished = 0, []
    last_written, seconds, runs = time.monotonic(), 0.0, 0
    try:
        while waiting or under_way:
            mean = seconds / runs if runs else _BATCH_SECONDS
            batch = max(1, min(_LARGEST_BATCH, int(_BATCH_SECONDS / max(mean, 1e-4))))
            while waiting and under_way < _WAITING_BATCHES * place.at_once:
                place.submit([waiting.popleft() for _ in range(min(batch, len(waiting)))])
                under_way += 1
            for done, rows in place.some(timeout=1.0):
                under_way -= 1
                if isinstance(rows, Exception):
                    rows = [_lost(task, rows) for task in done]
                for task, row in zip(done, rows, strict=True):
                    if row["failure"] is not None and task.failures < retries:
                        waiting.append(task.again())
                        continue
                    finished.append(row)
                    seconds, runs = seconds + row["wall_seconds"], runs + 1
                    result.ran += 1
                    if row["failure"] is not None:
                        result.failures[task.key] = row["failure"]
                    if bar is not None:
                        bar.update(1)
            if len(finished) >= part_runs or time.monotonic() - last_written >= part_seconds:
                if finished:
                    parts.write(finished)
                finished, last_written = [], time.monotonic()
    finally:
        # Whoever interrupts it keeps what was done.
        if finished:
            parts.write(finished)


def _lost(task: _Task, error: Exception) -> dict[str, Any]:
    """The row of a run that was lost with its worker."""
    return {
        **task.identity(),
        "failure": f"{type(error).__name__}: {error}",
        "wall_seconds": 0.0,
    }


def _bar(total: int, done: int) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=total, initial=done, unit="run", smoothing=0.1)
