"""Sweeps: many points, many seeds, on the cores of this machine or on a Ray cluster, kept as Parquet.

Reading order: `sweep` (what is called), `_Point` and `_Task` (one run), `_do` (runs them, wherever it is called), `_Local` and `_Ray`
(where), `_Parts` (the directory of what was done), `SweepResult`, `_run_all` (hands out, collects and writes).
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import tomlkit

from . import _shorthaul, plotting, units
from .scenario import Scenario

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas
    import pyarrow

_BATCH_SECONDS = 2.0
"""Runs are handed out in batches of about this long: fewer would be lost in messages, more with a worker that dies."""
_LARGEST_BATCH = 64
_LABELS = ("key", "scenario", "point", "case", "values", "seed", "engine", "version")
"""The columns that say which run it is."""
_WAITING_BATCHES = 2
"""Batches handed out for each worker: one is run, one waits."""


@dataclass(frozen=True)
class _Point:
    """One point of a scenario, with all that its runs need, so that they can be done anywhere."""

    scenario: str
    point: int
    case: str | None
    values: dict[str, str]
    text: str
    """The scenario at this point; trace files are named as in `traces`."""
    traces: dict[str, bytes]
    """What is in the trace files, by name."""
    engine: str


@dataclass(frozen=True)
class _Task:
    """One run of a point."""

    key: str
    of: _Point
    seed: int
    failures: int = 0

    def identity(self) -> dict[str, Any]:
        """The columns that say which run it is."""
        return {
            "key": self.key,
            "scenario": self.of.scenario,
            "point": self.of.point,
            "case": self.of.case,
            "values": list(self.of.values.items()),
            "seed": self.seed,
            "engine": self.of.engine,
            "version": _shorthaul.ENGINE,
        }

    def again(self) -> _Task:
        return replace(self, failures=self.failures + 1)


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
        `shorthaul run`: engine, its version, scenario with what is in its trace files, and seed.
    seeds: instead of the file's.
    engine: "sim" or "model".
    ray: False, on this machine's cores; True, on the Ray cluster that this process is connected to, or else one that is found or
        begun here; or the address of one. Workers need this package; trace files are sent to them.
    workers: how many runs at once; without, as many as there are cores. Of a cluster Ray decides, and this is how many are
        handed out at the same time.
    retries: how often a run that failed, or whose worker died, is tried again. What fails even then is kept with its reason.
        Those that were handed out together with a run that ended its worker are run again, each by itself.
    flows: keep what each flow got, too, and not only the metrics. Runs that were done without are done again.
    part_runs, part_seconds: a file is written when it has so many runs, or after so long.
    progress: show a bar (tqdm), if its package is installed.

    Raises ScenarioError before anything is run, if a point makes no sense. At Ctrl-C what was done is kept; on this machine the runs that
    have begun are finished.
    """
    if isinstance(scenario, (str, Path)):
        scenario = Scenario.load(scenario)
    scenarios = [scenario] if isinstance(scenario, Scenario) else list(scenario)
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
    if engine == "model":
        chosen = chosen[:1]  # It draws nothing: one run of a point says it all.
    read: dict[Path, bytes] = {}
    tasks = []
    for number, (case, values) in enumerate(study.points):
        text, traces = _with_traces(study.text_at(number), scenario.directory, read)
        point = _Point(scenario.name, number, case, dict(values), text, traces, engine)
        keys = study.keys(number, chosen, engine) or [_own_key(engine, text)] * len(chosen)
        tasks += [_Task(key, point, seed) for key, seed in zip(keys, chosen, strict=True)]
    return tasks


def _with_traces(text: str, directory: Path | None, read: dict[Path, bytes]) -> tuple[str, dict[str, bytes]]:
    """A scenario with its trace files named by what is in them, and what that is. `read` has files that were read before."""
    if directory is None or "trace" not in text:
        return text, {}
    traces: dict[str, bytes] = {}

    def rename(part: Any) -> None:
        if isinstance(part, list):
            for inner in part:
                rename(inner)
        elif isinstance(part, dict):
            for key, inner in list(part.items()):
                # Of a rate: no other key of this name has a text.
                if key == "trace" and isinstance(inner, str):
                    path = directory / inner
                    if path not in read:
                        read[path] = path.read_bytes()
                    name = hashlib.sha256(read[path]).hexdigest()
                    traces[name] = read[path]
                    part[key] = name
                else:
                    rename(inner)

    document = tomlkit.parse(text)
    rename(document)
    return (tomlkit.dumps(document), traces) if traces else (text, {})


@contextmanager
def _written(traces: dict[str, bytes]) -> Iterator[str | None]:
    """A directory with these files, as long as they are needed."""
    if not traces:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="shorthaul-") as directory:
        for name, content in traces.items():
            Path(directory, name).write_bytes(content)
        yield directory


def _own_key(engine: str, text: str) -> str:
    parts = (engine, _shorthaul.__version__, _shorthaul.ENGINE, text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _do(tasks: list[_Task], flows: bool, ended: threading.Event | None = None) -> list[dict[str, Any]]:
    """Runs tasks one after the other, a row for each, until there are no more or it is `ended`."""
    rows = []
    for task in tasks:
        if ended is not None and ended.is_set():
            break
        rows.append(_row(task, flows))
    return rows


def _row(task: _Task, flows: bool) -> dict[str, Any]:
    began = time.monotonic()
    row, point = task.identity(), task.of
    try:
        with _written(point.traces) as directory:
            study = _shorthaul.Study(point.text, point.scenario, directory)
            told = study.run(0, task.seed, point.engine)
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


_Done = tuple[list[_Task], "list[dict[str, Any]] | Exception"]
"""A batch, and its rows or why it has none."""


class _Workers(Protocol):
    """Where batches are run."""

    @property
    def at_once(self) -> int: ...

    def submit(self, batch: list[_Task]) -> None: ...

    def some(self, timeout: float) -> Iterator[_Done]:
        """Batches that are done. Each is let go of when it is told, so what an interrupt leaves untold comes from `stop`."""
        ...

    def stop(self) -> list[_Done]:
        """Begins no more. What was done and not told, of batches that were begun the rows that there are."""
        ...


class _Local:
    """Threads of this process: while a run computes, it does not hold the interpreter."""

    def __init__(self, workers: int | None, flows: bool) -> None:
        self.at_once = workers or os.cpu_count() or 1
        self._flows = flows
        self._ended = threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(self.at_once)
        self._under_way: dict[concurrent.futures.Future[list[dict[str, Any]]], list[_Task]] = {}

    def submit(self, batch: list[_Task]) -> None:
        self._under_way[self._pool.submit(_do, batch, self._flows, self._ended)] = batch

    def some(self, timeout: float) -> Iterator[_Done]:
        first = concurrent.futures.FIRST_COMPLETED
        done, _ = concurrent.futures.wait(self._under_way, timeout, first)
        for future in done:
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            yield self._under_way.pop(future), error or future.result()

    def stop(self) -> list[_Done]:
        self._ended.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        done = [future for future in self._under_way if not future.cancelled() and future.exception() is None]
        return [(self._under_way.pop(future), future.result()) for future in done]


class _Ray:
    """Tasks of a Ray cluster."""

    def __init__(self, address: bool | str, workers: int | None, flows: bool) -> None:
        import ray

        self._ray = ray
        if not ray.is_initialized():
            ray.init(address=address if isinstance(address, str) else None, log_to_driver=False)
        # A cluster that grows on demand has to see that more is waiting than it can do.
        self._workers, self._flows = workers, flows
        # Ray would try a lost batch again as a whole, and with it the run that ends its worker. `_run_all` takes it apart.
        self._do = ray.remote(num_cpus=1, max_retries=0)(_do)
        self._under_way: dict[Any, list[_Task]] = {}

    @property
    def at_once(self) -> int:
        cores = int(self._ray.cluster_resources().get("CPU", 1))
        return self._workers or max(1, 2 * cores)

    def submit(self, batch: list[_Task]) -> None:
        self._under_way[self._do.remote(batch, self._flows)] = batch

    def some(self, timeout: float) -> Iterator[_Done]:
        done, _ = self._ray.wait(list(self._under_way), num_returns=1, timeout=timeout)
        for reference in done:
            rows = self._rows(reference)
            yield self._under_way.pop(reference), rows

    def stop(self) -> list[_Done]:
        if not self._under_way:
            return []
        references = list(self._under_way)
        done, rest = self._ray.wait(references, num_returns=len(references), timeout=0)
        for reference in rest:
            self._ray.cancel(reference)
        told = [(self._under_way[reference], self._rows(reference)) for reference in done]
        self._under_way.clear()
        return told

    def _rows(self, reference: Any) -> list[dict[str, Any]] | Exception:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return error


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

    def known(self, flows: bool = False) -> set[str]:
        """The keys of what was done, and did not fail; if `flows` are asked for, of those that have them."""
        table = self.read(["key", "failure", *(["flows"] if flows else [])])
        done = table["failure"].is_null().to_pylist()
        enough = table["flows"].is_valid().to_pylist() if flows else done
        rows = zip(table["key"].to_pylist(), done, enough, strict=True)
        return {key for key, done, enough in rows if done and enough}

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
    """What a sweep came to. The outcomes are in its directory."""

    out: str
    ran: int
    """Runs that were done now. Points that are the same scenario, written differently, share a run."""
    known: int
    """Runs that had been done before."""
    failures: dict[str, str] = field(repr=False)
    """Why a run failed, by its key."""
    _tasks: list[_Task] = field(repr=False)

    def to_arrow(self) -> pyarrow.Table:
        """A row for each point and seed of this sweep, in the order in which they were given.

        key: the content hash that the run is known by.
        scenario, point (from 0), case, values (by path, as they stand in the file), seed, engine, version: which run it is, in the words of
            this sweep, whichever sweep did it.
        metrics: by name, in the units that `metric_units()` tells.
        ended_at: when the run ended, in seconds of its own time. events: how many there were. trace_hash: over all of them in order.
        flows: if they were asked for, as in `Flow`: `delivered` in bytes, `goodput` in bit/s, `transfers` and `set_ups` in seconds.
        failure: why it failed; null if it did not.
        wall_seconds: how long it took to compute, in seconds.

        Of a run that was done more than once, it is one that did not fail, and has flows if one has.
        """
        import pyarrow as pa

        table = _Parts(self.out).read()
        best: dict[str, int] = {}
        worths = list(zip(table["failure"].is_null().to_pylist(), table["flows"].is_valid().to_pylist(), strict=True))
        for place, key in enumerate(table["key"].to_pylist()):
            if key not in best or worths[place] > worths[best[key]]:
                best[key] = place
        missing = sum(task.key not in best for task in self._tasks)
        if missing:
            raise ValueError(f"{self.out}: {missing} of {len(self._tasks)} outcomes are not there any more; sweep again")
        outcomes = table.take(pa.array([best[task.key] for task in self._tasks], pa.int64()))
        # What is kept has the words of the sweep that did the run, and is there once for all points that are the same scenario.
        labels = pa.Table.from_pylist([task.identity() for task in self._tasks], schema=_schema())
        columns = [(labels if name in _LABELS else outcomes)[name] for name in _schema().names]
        return pa.table(columns, schema=_schema())

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

        Mean and interval are in the metric's unit, as `metric_units()` tells. Runs that failed, or that are not to be trusted, do not
        count: `failures` says why. Raises ValueError if no run has the metric.
        """
        frame = self.to_pandas()
        if metric not in frame:
            there = ", ".join(name for name in metric_units() if name in frame)
            raise ValueError(f"metric: no run has {metric!r}; there are {there or 'none'}")
        frame = frame[frame["failure"].isna()]
        labels = [name for name in frame.columns if "." in name]
        if frame["case"].notna().any():
            labels.insert(0, "case")
        told = frame.groupby(["scenario", "point", *labels], dropna=False)[metric].agg(["count", "mean", "sem"])
        told["half_interval"] = [_student(n) * sem for n, sem in zip(told["count"], told.pop("sem"), strict=True)]
        return told.reset_index()

    def plot(
        self, metric: str, over: str | None = None, *, ax: matplotlib.axes.Axes | None = None
    ) -> matplotlib.axes.Axes:
        """Draws the means of a metric, in its unit, with their 95 % confidence intervals, over what was swept, in SI units.

        metric: one of the scenario's.
        over: a swept path, "case" or "scenario"; without, the first path as it was said, or else the cases, or else the scenarios. What else
            differs has a line for each combination.
        ax: where to draw; without, on axes of a new figure.

        Returns the axes. Needs matplotlib and pandas: the extra `plot`.
        """
        ax = plotting.axes(ax)
        frame = self.summary(metric)
        labels = [name for name in frame.columns if "." in name]
        labels += [name for name in ("case", "scenario") if name in frame]
        over = over or labels[0]
        if over not in labels:
            raise ValueError(f"over: {over!r} was not swept; there are {', '.join(labels)}")
        places, unit = units.together([str(value) for value in frame[over]])
        frame = frame.assign(place=places)
        others = [name for name in labels if name != over and frame[name].nunique(dropna=False) > 1]
        lines = frame.groupby(others, sort=False, dropna=False) if others else [((), frame)]
        for values, line in lines:
            if unit is not None:
                line = line.sort_values("place")
            what = [f"{name} = {str(value).strip(chr(34))}" for name, value in zip(others, values, strict=True)]
            ax.errorbar(line["place"], line["mean"], line["half_interval"], marker="o", capsize=3, label=", ".join(what))
        ax.set(xlabel=plotting.label(over, unit), ylabel=plotting.label(metric, metric_units()[metric]))
        if others:
            ax.legend()
        return ax


def metric_units() -> dict[str, str]:
    """The unit of each metric of scenario files, by its name; empty for a plain number."""
    return dict(_shorthaul.metric_units())


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
    before = parts.known(flows) & keys
    seen: set[str] = set(before)
    waiting: deque[_Task] = deque()
    for task in tasks:
        # Two points may be the same scenario, written differently: one run is enough.
        if task.key not in seen:
            seen.add(task.key)
            waiting.append(task)
    result = SweepResult(str(out), 0, len(before), {}, tasks)
    if not waiting:
        return result
    place: _Workers = _Ray(ray, workers, flows) if ray else _Local(workers, flows)
    bar = _bar(len(keys), len(before)) if progress else None
    try:
        _run_all(waiting, place, parts, result, retries, part_runs, part_seconds, bar)
    finally:
        place.stop()
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
    # Of batches that were lost: one of them may have ended the worker.
    alone: deque[_Task] = deque()
    last_written, seconds, runs = time.monotonic(), 0.0, 0
    try:
        while waiting or alone or under_way:
            mean = seconds / runs if runs else _BATCH_SECONDS
            batch = max(1, min(_LARGEST_BATCH, int(_BATCH_SECONDS / max(mean, 1e-4))))
            while (waiting or alone) and under_way < _WAITING_BATCHES * place.at_once:
                if alone:
                    place.submit([alone.popleft()])
                else:
                    place.submit([waiting.popleft() for _ in range(min(batch, len(waiting)))])
                under_way += 1
            for done, rows in place.some(timeout=1.0):
                under_way -= 1
                again = waiting
                if isinstance(rows, Exception):
                    if len(done) > 1:
                        alone.extend(done)
                        continue
                    again, rows = alone, [_lost(done[0], rows)]
                pairs = list(zip(done, rows, strict=True))
                ended = [(task, row) for task, row in pairs if row["failure"] is None or task.failures >= retries]
                # At once: an interrupt in what follows loses none of them.
                finished += [row for _, row in ended]
                again.extend(task.again() for task, row in pairs if row["failure"] is not None and task.failures < retries)
                for task, row in ended:
                    seconds, runs = seconds + row["wall_seconds"], runs + 1
                    result.ran += 1
                    if row["failure"] is not None:
                        result.failures[task.key] = row["failure"]
                if bar is not None:
                    bar.update(len(ended))
            if len(finished) >= part_runs or time.monotonic() - last_written >= part_seconds:
                if finished:
                    parts.write(finished)
                finished, last_written = [], time.monotonic()
    finally:
        # Whoever interrupts it keeps what was done. What is here comes first: nobody may have the patience to wait for the rest.
        if finished:
            parts.write(finished)
        told = [row for _, rows in place.stop() if not isinstance(rows, Exception) for row in rows]
        late = [row for row in told if row["failure"] is None]
        if late:
            parts.write(late)


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
