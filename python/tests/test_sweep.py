"""Sweeps: nothing run twice, nothing lost, failures said."""

import concurrent.futures
import os
import pickle
import threading

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("fsspec")

import shorthaul
from shorthaul import Scenario, ScenarioError, sweeping
from test_package import SMALL

OVER = {"links.client-server.link.delay": ["5 ms", "50 ms"], "flows.file.bulk": ["10 kB", "100 kB"]}


def sweep(tmp_path, **options):
    options = {"out": tmp_path / "out", "progress": False, **options}
    return shorthaul.sweep(Scenario(SMALL), OVER, **options)


def test_every_point_with_every_seed_once(tmp_path):
    result = sweep(tmp_path, seeds=range(5), flows=True)
    assert (result.ran, result.known, result.failures) == (20, 0, {})
    frame = result.to_pandas()
    assert len(frame) == 20
    point = frame[(frame["links.client-server.link.delay"] == '"50 ms"') & (frame["seed"] == 3)].iloc[1]
    again = shorthaul.simulate(
        Scenario(SMALL.replace('"20 ms"', '"50 ms"').replace('"1 MB"', point["flows.file.bulk"])), seed=3
    )
    assert point["completion"] == again.metrics["completion"]
    assert point["trace_hash"] == again.trace_hash
    assert point["flows"][0]["delivered"] == again.flows[0].delivered
    summary = result.summary("completion")
    assert list(summary["count"]) == [5, 5, 5, 5]
    slow = summary[summary["links.client-server.link.delay"] == '"50 ms"']["mean"].max()
    assert slow == summary["mean"].max()


def test_scenarios_are_told_apart(tmp_path):
    slow = Scenario(SMALL.replace('"20 ms"', '"50 ms"'), name="slow")
    both = shorthaul.sweep([Scenario(SMALL, name="usual"), slow], seeds=[1, 2], out=tmp_path, progress=False)
    summary = both.summary("completion").set_index("scenario")
    assert list(summary["count"]) == [2, 2]
    assert summary["mean"]["slow"] > summary["mean"]["usual"]


def test_what_was_done_is_not_done_again(tmp_path):
    first = sweep(tmp_path, seeds=[1, 2])
    second = sweep(tmp_path, seeds=[1, 2, 3])
    assert (first.ran, second.ran, second.known) == (8, 4, 8)
    assert len(second.to_pandas()) == 12 and len(first.to_pandas()) == 8


def test_what_another_sweep_did_has_the_words_of_this_one(tmp_path):
    delay = "links.client-server.link.delay"

    def delays(name, *values):
        scenario = Scenario(SMALL, name=name)
        return shorthaul.sweep(scenario, {delay: values}, seeds=[1, 2], out=tmp_path, progress=False)

    first = delays("first", "5 ms", "50 ms")
    second = delays("second", "50 ms", "500 ms", "5 ms")
    assert (second.ran, second.known) == (2, 4)
    frame = second.to_pandas()
    assert list(frame["scenario"].unique()) == ["second"]
    assert list(zip(frame["point"], frame[delay], frame["seed"])) == [
        (point, f'"{value}"', seed) for point, value in enumerate(["50 ms", "500 ms", "5 ms"]) for seed in (1, 2)
    ]
    assert list(second.summary("completion")["mean"].rank()) == [2, 3, 1]
    # What it says of the first does not change by that.
    assert list(first.to_pandas()["scenario"].unique()) == ["first"] and list(first.to_pandas()["point"]) == [0, 0, 1, 1]


def test_points_that_are_the_same_scenario_share_a_run_and_have_a_row_each(tmp_path):
    names = ["here", "there"]
    twice = shorthaul.sweep([Scenario(SMALL, name=name) for name in names], seeds=[1, 2], out=tmp_path, progress=False)
    assert twice.ran == 2
    frame = twice.to_pandas()
    assert list(zip(frame["scenario"], frame["seed"])) == [(name, seed) for name in names for seed in (1, 2)]
    assert list(frame["trace_hash"][:2]) == list(frame["trace_hash"][2:])
    assert list(twice.summary("completion")["count"]) == [2, 2]


def test_flows_that_were_not_kept_are_asked_for_anew(tmp_path):
    assert sweep(tmp_path, seeds=[1]).to_arrow()["flows"].null_count == 4
    anew = sweep(tmp_path, seeds=[1], flows=True)
    assert (anew.ran, anew.known, anew.to_arrow()["flows"].null_count) == (4, 0, 0)
    # And what has them is good enough for whoever asks for none.
    assert sweep(tmp_path, seeds=[1]).known == 4 and sweep(tmp_path, seeds=[1], flows=True).known == 4


def test_outcomes_that_were_taken_away_are_missed(tmp_path):
    result = sweep(tmp_path, seeds=[1])
    for part in (tmp_path / "out").glob("part-*"):
        part.unlink()
    with pytest.raises(ValueError, match="4 of 4 outcomes are not there"):
        result.to_arrow()


def test_what_seeds_have_in_common_is_computed_once(monkeypatch):
    scenario, calls = Scenario(SMALL).with_sweep(OVER), []
    study = scenario._study()

    class Counting:
        def __getattr__(self, name):
            calls.append(name)
            return getattr(study, name)

    monkeypatch.setattr(scenario, "_study", Counting)
    tasks = sweeping._tasks(scenario, list(range(50)), "sim")
    assert len(tasks) == 200 and len({task.key for task in tasks}) == 200
    assert calls.count("text_at") + calls.count("keys") == 8 and len(calls) < 12
    # They are the keys by which `shorthaul run` knows the same runs.
    assert [task.key for task in tasks] == [study.key(task.of.point, task.seed, "sim") for task in tasks]


TRACED = SMALL.replace('rate = "10 Mbit/s"', 'rate = { trace = "cell/a.trace" }')


def test_trace_files_go_with_the_task(tmp_path):
    (tmp_path / "cell").mkdir()
    trace = tmp_path / "cell" / "a.trace"
    trace.write_text("1\n2\n2\n5\n")
    scenario = Scenario(TRACED, directory=tmp_path)
    here = shorthaul.simulate(scenario, seed=1)
    tasks = {engine: sweeping._tasks(scenario, [1], engine) for engine in ("sim", "model")}
    assert tasks["sim"][0].key == scenario._study().key(0, 1, "sim")
    trace.write_text("9\n")
    other = {engine: sweeping._tasks(scenario, [1], engine) for engine in ("sim", "model")}
    # A run is known by what is in the file, not by the file's name.
    assert all(tasks[engine][0].key != other[engine][0].key for engine in tasks)
    trace.unlink()
    # As on another machine: what comes of it is what came of it here.
    [row] = sweeping._do(pickle.loads(pickle.dumps(tasks["sim"])), False)
    assert row["failure"] is None and row["trace_hash"] == here.trace_hash
    assert dict(row["metrics"]) == here.metrics


def test_a_run_that_ends_its_worker_takes_no_other_with_it(tmp_path, monkeypatch):
    real, batches = sweeping._do, []

    def do(tasks, *others):
        batches.append([task.seed for task in tasks])
        if any(task.seed == 39 for task in tasks):
            raise RuntimeError("the worker died")
        return real(tasks, *others)

    monkeypatch.setattr(sweeping, "_do", do)
    result = shorthaul.sweep(Scenario(SMALL), seeds=range(200), out=tmp_path, workers=1, retries=2, progress=False)
    assert list(result.failures.values()) == ["RuntimeError: the worker died"]
    frame = result.to_pandas()
    assert list(frame[frame["failure"].notna()]["seed"]) == [39] and len(frame) == 200
    # Once with others, which does not count as one of them may have done it; then never again.
    assert [len(batch) > 1 for batch in batches if 39 in batch] == [True, False, False, False]


def test_an_interrupt_leaves_what_is_finished_though_nobody_had_taken_it(tmp_path, monkeypatch):
    def some(place, timeout):
        concurrent.futures.wait(place._under_way)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sweeping._Local, "some", some)
        with pytest.raises(KeyboardInterrupt):
            sweep(tmp_path, seeds=[1, 2], workers=1)
    handed_out = sweeping._WAITING_BATCHES
    rest = sweep(tmp_path, seeds=[1, 2])
    assert (rest.known, rest.ran) == (handed_out, 8 - handed_out)


def test_an_interrupt_among_several_that_are_finished_leaves_all(tmp_path, monkeypatch):
    class Bar:
        def update(self, _):
            raise KeyboardInterrupt

        def close(self):
            pass

    real = sweeping._Local.some

    def some(place, timeout):
        concurrent.futures.wait(place._under_way)
        return real(place, timeout)

    with monkeypatch.context() as patch:
        patch.setattr(sweeping, "_bar", lambda *_: Bar())
        patch.setattr(sweeping._Local, "some", some)
        with pytest.raises(KeyboardInterrupt):
            sweep(tmp_path, seeds=[1, 2], workers=2, progress=True)
    assert sweep(tmp_path, seeds=[1, 2]).known == 2 * sweeping._WAITING_BATCHES


def test_what_is_under_way_ends_after_the_run_that_has_begun(monkeypatch):
    begun, real = threading.Event(), sweeping._row
    place = sweeping._Local(1, False)

    def row(task, flows):
        begun.set()
        assert place._ended.wait(60)
        return real(task, flows)

    monkeypatch.setattr(sweeping, "_row", row)
    tasks = sweeping._tasks(Scenario(SMALL), [1, 2, 3], "sim")
    place.submit(tasks)
    place.submit(tasks)
    assert begun.wait(60)
    [(batch, rows)] = place.stop()
    assert batch == tasks and [row["seed"] for row in rows] == [1]
    assert place.stop() == []


def test_an_interrupted_sweep_keeps_what_it_had(tmp_path, monkeypatch):
    told = threading.Event()
    real = sweeping._row

    def row(task, flows):
        if task.seed == 9:
            told.set()
            raise KeyboardInterrupt
        return real(task, flows)

    monkeypatch.setattr(sweeping, "_row", row)
    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path, seeds=[1, 2, 9], workers=1)
    assert told.is_set()
    monkeypatch.setattr(sweeping, "_row", real)
    rest = sweep(tmp_path, seeds=[1, 2, 9])
    assert rest.known >= 1 and rest.known + rest.ran == 12


def test_failures_are_tried_again_and_said(tmp_path, monkeypatch):
    real, tries = sweeping._row, []

    def row(task, flows):
        tries.append(task.seed)
        if task.seed == 2 or (task.seed == 1 and task.failures == 0):
            return {**sweeping._lost(task, RuntimeError("no luck"))}
        return real(task, flows)

    monkeypatch.setattr(sweeping, "_row", row)
    result = sweep(tmp_path, seeds=[1, 2, 3], retries=2)
    assert tries.count(1) == 8 and tries.count(2) == 12 and tries.count(3) == 4
    assert len(result.failures) == 4 and "no luck" in next(iter(result.failures.values()))
    monkeypatch.setattr(sweeping, "_row", real)
    # What failed is not known: it is run again, and what came of it counts.
    again = sweep(tmp_path, seeds=[1, 2, 3])
    assert (again.ran, again.known) == (4, 8)
    assert again.to_pandas()["failure"].isna().all()


def test_any_file_system_will_do():
    result = shorthaul.sweep(Scenario(SMALL), OVER, out="memory://sweep", seeds=[1], progress=False)
    assert len(result.to_pandas()) == 4


def test_a_point_that_makes_no_sense_is_found_before_anything_is_run(tmp_path):
    with pytest.raises(ScenarioError, match="parsecs"):
        shorthaul.sweep(Scenario(SMALL), {"links.client-server.link.delay": ["5 ms", "5 parsecs"]}, out=tmp_path)


def test_a_model_is_asked_once_for_each_point(tmp_path):
    result = sweep(tmp_path, engine="model", seeds=range(5))
    assert result.ran == 4


def test_a_file_that_is_no_part_is_named(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-x-00000.parquet").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="part-x-00000.parquet"):
        sweep(tmp_path, seeds=[1])


def test_means_are_drawn_over_what_was_swept(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    result = sweep(tmp_path, seeds=[1, 2, 3])
    axes = result.plot("completion", "links.client-server.link.delay")
    assert axes.get_xlabel() == "links.client-server.link.delay (s)" and axes.get_ylabel() == "completion (s)"
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["flows.file.bulk = 10 kB", "flows.file.bulk = 100 kB"]
    means = result.summary("completion").groupby("flows.file.bulk")["mean"].apply(list)
    for drawn, told in zip(axes.containers, [means['"10 kB"'], means['"100 kB"']], strict=True):
        assert list(drawn.lines[0].get_xdata()) == [0.005, 0.05]
        assert sorted(drawn.lines[0].get_ydata()) == sorted(told)
    again = result.plot("goodput", ax=axes.figure.add_subplot())
    assert again.figure is axes.figure and again.get_xlabel() == "links.client-server.link.delay (s)"
    assert again.get_ylabel() == "goodput (bit/s)"
    with pytest.raises(ValueError, match="was not swept; there are links.client-server.link.delay, flows.file.bulk"):
        result.plot("completion", "weather")
    with pytest.raises(ValueError, match="no run has 'magic'; there are goodput, completion"):
        result.plot("magic")


def test_scenarios_without_a_sweep_are_drawn_beside_each_other(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    both = [Scenario(SMALL, name=name) for name in ("one", "two")]
    axes = shorthaul.sweep(both, seeds=[1], out=tmp_path, progress=False).plot("completion")
    assert axes.get_xlabel() == "scenario" and axes.get_legend() is None
    assert [text.get_text() for text in axes.get_xticklabels()] == ["one", "two"]


def test_a_run_that_kills_its_worker_of_a_cluster_takes_no_other_with_it(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    real = sweeping._do

    def do(tasks, flows):
        if any(task.seed == 39 for task in tasks):
            os._exit(1)
        return real(tasks, flows)

    monkeypatch.setattr(sweeping, "_do", do)
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        result = shorthaul.sweep(
            Scenario(SMALL), seeds=range(40), out=tmp_path, ray=True, retries=1, part_runs=1, progress=False
        )
    finally:
        ray.shutdown()
    frame = result.to_pandas()
    assert list(frame[frame["failure"].notna()]["seed"]) == [39] and len(frame) == 40
    assert len(result.failures) == 1 and "Crash" in next(iter(result.failures.values()))


def test_a_cluster_loses_a_worker_and_no_run(tmp_path):
    pytest.importorskip("ray")
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        worker = cluster.add_node(num_cpus=2)
        ray.init(address=cluster.address, log_to_driver=False)
        parts = sweeping._Parts(tmp_path / "out")

        known_then = []
        pause = threading.Event()

        def kill():
            while len(parts.known()) < 10:
                pause.wait(0.05)
            known_then.append(len(parts.known()))
            cluster.remove_node(worker, allow_graceful=False)

        killer = threading.Thread(target=kill)
        killer.start()
        result = shorthaul.sweep(
            Scenario(SMALL.replace('"1 MB"', '"5 MB"')),
            {"links.client-server.link.delay": ["5 ms", "50 ms"], "flows.file.bulk": ["4 MB", "5 MB"]},
            out=tmp_path / "out",
            seeds=range(60),
            ray=True,
            part_runs=5,
            progress=False,
        )
        killer.join()
        assert known_then[0] < 200, "the worker was to die half-way"
        while len([node for node in ray.nodes() if node["Alive"]]) > 1:
            pause.wait(0.1)
        assert result.failures == {}
        assert sorted(result.to_pandas()["key"].value_counts().unique()) == [1]
        assert len(result.to_pandas()) == 240
    finally:
        ray.shutdown()
        cluster.shutdown()
