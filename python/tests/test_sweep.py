"""Sweeps: nothing run twice, nothing lost, failures said."""

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
