"""What the package promises, seen from Python."""

import json
import math
import sys
import threading
import time
from pathlib import Path

import pytest

import shorthaul
from shorthaul import Scenario, ScenarioError

SCENARIOS = Path(__file__).parents[2] / "scenarios"

SMALL = """
# how long 1 MB takes
repeats = 3
duration = "60 s"
[hosts.client]
[hosts.server]
scheme = "sack-reno"
[[links]]
between = ["client", "server"]
link = { rate = "10 Mbit/s", delay = "20 ms", queue = "50 packets", loss = "1 %" }
[[flows]]
name = "file"
from = "server"
to = "client"
bulk = "1 MB"
[measure]
metrics = ["completion", "goodput"]
series = ["cwnd"]
"""


def test_simulations_are_the_same_each_time_and_differ_by_seed():
    scenario = Scenario(SMALL)
    one, again, other = (shorthaul.simulate(scenario, seed=seed) for seed in (7, 7, 8))
    assert one == again
    assert one.trace_hash != other.trace_hash
    assert one.flows[0].delivered == 1_000_000 and one.flows[0].ended
    assert one.metrics["completion"] == pytest.approx(one.flows[0].transfers[0])
    assert one.problems == []


def test_a_scenario_is_the_toml_that_the_program_takes(tmp_path):
    scenario = Scenario(SMALL)
    scenario["hosts"]["client"]["scheme"] = "cubic"
    scenario.save(tmp_path / "mine.toml")
    text = (tmp_path / "mine.toml").read_text()
    assert "# how long 1 MB takes" in text and 'scheme = "cubic"' in text
    again = Scenario.load(tmp_path / "mine.toml")
    assert shorthaul.simulate(again) == shorthaul.simulate(scenario) != shorthaul.simulate(Scenario(SMALL))


def test_all_scenario_files_of_the_project_are_read():
    files = sorted(SCENARIOS.glob("**/*.toml"))
    assert len(files) > 10
    for file in files:
        assert Scenario.load(file).points, file


def test_errors_name_line_and_remedy():
    with pytest.raises(ScenarioError, match=r"scenario:4.*\n?.*duration|duration") as error:
        Scenario(SMALL.replace('"60 s"', '"60 parsecs"'))
    assert "4" in str(error.value)
    scenario = Scenario(SMALL)
    scenario["flows"][0]["to"] = "nobody"
    with pytest.raises(ScenarioError, match="nobody"):
        shorthaul.simulate(scenario)
    with pytest.raises(ValueError, match="point 3"):
        shorthaul.simulate(Scenario(SMALL), point=3)
    with pytest.raises(TypeError, match="a list of values"):
        scenario.with_sweep({"links.client-server.link.delay": "20 ms"})


def test_the_model_is_an_engine_too_and_near_the_simulator():
    scenario = Scenario(SMALL)
    simulated = [shorthaul.simulate(scenario, seed=seed).metrics["completion"] for seed in range(20)]
    forecast = shorthaul.simulate(scenario, engine="model")
    low, high = forecast.intervals["completion"]
    assert low < sum(simulated) / len(simulated) < high
    with pytest.raises(ValueError, match="--engine live"):
        shorthaul.simulate(scenario, engine="live")


def test_other_threads_run_while_it_simulates():
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.wait(0.001):
            ticks.append(1)

    ticker = threading.Thread(target=tick)
    ticker.start()
    scenario = Scenario(SMALL.replace('"1 MB"', '"40 MB"').replace('"60 s"', '"600 s"'))
    shorthaul.simulate(scenario)
    stop.set()
    ticker.join()
    assert len(ticks) > 5


def test_ctrl_c_ends_a_simulation():
    import _thread

    scenario = Scenario(SMALL.replace('"1 MB"', '"100 GB"').replace('"60 s"', '"100000 s"'))
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        shorthaul.simulate(scenario)
    assert time.monotonic() - began < 20


def test_plans_say_what_the_command_says():
    plan = shorthaul.plan(rtt="128 ms", loss="0.1 %", rate="32 Mbit/s", size="100 MB", model="reno")
    same = shorthaul.plan(rtt=0.128, loss=0.001, rate=32e6, size=100_000_000, model="reno")
    assert plan == same
    direct, one = plan.ways[0], plan.ways[1]
    assert direct.gain == 1 and one.gain > 1.5 and one.seconds < direct.seconds
    assert one.seconds_low < one.seconds < one.seconds_high
    assert plan.advised.relays >= 1
    assert plan.sentence and list(plan.to_pandas()["relays"]) == [0, 1, 2, 3, 4]
    middle = shorthaul.forecast(rtt=0.128, loss=0.001, rate=32e6, size=100_000_000, model="reno", relays=1)
    edge = shorthaul.forecast(
        rtt=0.128, loss=0.001, rate=32e6, size=100_000_000, model="reno", relays=1, position=0.05
    )
    assert middle.seconds < edge.seconds < direct.seconds


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"rtt": "5 parsecs"}, "rtt"),
        ({"loss": 0.9}, "loss"),
        ({"rate": "fast"}, "rate"),
        ({"size": "10 Mbit"}, "size"),
        ({"rtt": -1.0}, "rtt"),
        ({"model": "magic"}, "magic"),
        ({"wait": 3, "store": True}, "one of them"),
    ],
)
def test_bad_questions_are_refused_by_name(wrong, what):
    right = {"rtt": 0.1, "loss": 0.01, "rate": 1e7, "size": 10**6}
    with pytest.raises(ValueError, match=what):
        shorthaul.plan(**{**right, **wrong})


def test_the_map_is_asked_as_by_the_command():
    from shorthaul import pathmap

    path = {"rtt": "200 ms", "loss": "0.3 %", "rate": "20 Mbit/s", "size": "20 MB"}
    plan = shorthaul.plan(**path, model="map", ends="reno", bad_link="20 %")
    assert [(way.name, way.relays) for way in plan.ways] == [("direct", 0), ("gateway", 0), ("relay", 1), ("two relays", 2)]
    assert [way.advised for way in plan.ways].count(True) == 1 and plan.advised.name == "gateway"
    assert "gateway" in plan.sentence and plan.ways[0].gain == 1
    told = pathmap.PathPoint("p", 20e6, 0.2, 0.003, 1, 1.0, "reno", 0.2, 20e6).seconds()
    assert {way.name: (way.seconds, way.seconds_low, way.seconds_high) for way in plan.ways} == told
    assert plan.ways[1].set_up_seconds is None and plan.ways[1].goodput == int(160e6 / told["gateway"][0])
    # Among these, and for this gain.
    relays = shorthaul.plan(**path, model="map", ends="reno", bad_link=0.2, relays=[1, 2], least_gain=100)
    assert [way.name for way in relays.ways] == ["relay", "two relays"] and relays.advised.name == "relay"
    assert shorthaul.plan(**path, model="map", least_gain=100).sentence == "Go direct: none of these ways is 100 times as fast."
    for wrong, what in [
        ({"streams": 2}, "streams: the map"),
        ({"relays": [3]}, "up to two"),
        ({"rtt": 5.0}, "round-trip time"),
        ({"ends": "magic"}, "cubic"),
        ({"model": "reno"}, "ends: for model=\"map\" alone"),
    ]:
        with pytest.raises(ValueError, match=what):
            shorthaul.plan(**{**path, "model": "map", "ends": "reno", **wrong})


def test_outcomes_are_tables_with_units():
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    outcome = shorthaul.simulate(Scenario(SMALL), seed=1)
    tables = outcome.to_arrow()
    metrics = {row["metric"]: row for row in tables["metrics"].to_pylist()}
    assert {name: row["value"] for name, row in metrics.items()} == outcome.metrics
    assert metrics["completion"]["unit"] == "s" and metrics["goodput"]["unit"] == "bit/s"
    assert metrics["completion"]["low"] is None
    assert tables["flows"].to_pylist() == [vars(flow) for flow in outcome.flows]
    assert tables["flows"].schema.field("goodput").metadata == {b"unit": b"bit/s"}
    assert tables["links"].to_pylist() == outcome.links
    assert tables["series"].num_rows == sum(len(one.points) for one in outcome.series) > 10
    assert tables["series"]["unit"].unique().to_pylist() == ["B"]
    frames = outcome.to_pandas()
    assert list(frames["series"]["value"]) == list(outcome.series_to_pandas()["value"])
    low, high = shorthaul.simulate(Scenario(SMALL), engine="model").intervals["completion"]
    model = shorthaul.simulate(Scenario(SMALL), engine="model").to_arrow()["metrics"].to_pylist()
    assert [(row["low"], row["high"]) for row in model if row["metric"] == "completion"] == [(low, high)]


def test_all_values_over_time_have_units():
    from shorthaul import _shorthaul

    schema = json.loads(_shorthaul.schema())
    told = [one["const"] for one in schema["$defs"]["Series"]["oneOf"]]
    assert sorted(told) == sorted(shorthaul.SERIES_UNITS)
    assert shorthaul.metric_units()["queue-length"] == "packets" and shorthaul.metric_units()["fairness"] == ""


def test_values_over_time_are_drawn():
    pytest.importorskip("matplotlib").use("Agg")
    outcome = shorthaul.simulate(Scenario(SMALL.replace('["cwnd"]', '["cwnd", "queue"]')), seed=1)
    axes = outcome.plot()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time (s)", "cwnd (B)")
    assert list(axes.lines[0].get_ydata()) == [value for _, value in outcome.series[0].points]
    assert outcome.plot("queue", ax=axes.figure.add_subplot()).get_ylabel() == "queue (packets)"
    with pytest.raises(ValueError, match="was not measured; there are cwnd, queue"):
        outcome.plot("rtt")
    with pytest.raises(ValueError, match="nothing over time"):
        shorthaul.simulate(Scenario(SMALL.replace('series = ["cwnd"]', ""))).plot()


def test_without_matplotlib_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'shorthaul\[plot\]'"):
        shorthaul.simulate(Scenario(SMALL)).plot()


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (['"20 ms"', '"2 s"'], ([0.02, 2.0], "s")),
        (['"1 Mbit/s"'], ([1e6], "bit/s")),
        (['"10 kB"', '"1 MiB"'], ([1e4, 2.0**20], "B")),
        (['"1 %"', "0.5"], ([0.01, 0.5], "")),
        (['"50 packets"'], ([50.0], "packets")),
        (['"50 packets"', '"10 kB"'], (["50 packets", "10 kB"], None)),
        (['"reno"', '"cubic"'], (["reno", "cubic"], None)),
    ],
)
def test_swept_values_are_numbers_where_they_share_a_unit(texts, told):
    assert shorthaul.units.together(texts) == told


def test_a_link_carries_packets():
    link = shorthaul.Link('rate = "12 Mbit/s"\ndelay = "64 ms"\nqueue = "3 packets"')
    told = [link.push(0.0, 1500) for _ in range(4)]
    # One leaves, two wait behind it, and there is no room for the fourth.
    assert told == [None, None, None, "queue full"]
    assert link.queue_delay(0.0) == pytest.approx(0.003)
    assert link.pop(1.0) == [(pytest.approx(0.065), 0), (pytest.approx(0.066), 1), (pytest.approx(0.067), 2)]
    assert link.stats()["queue_full"] == 1
    with pytest.raises(ValueError, match="goes forward"):
        link.push(-1.0, 1500)
    with pytest.raises(ValueError, match="rate"):
        shorthaul.Link('rate = "12 parsecs"')


def test_a_congestion_control_answers_what_it_is_told():
    reno = shorthaul.Congestion("reno", mss=1000)
    assert reno.window == 10_000 and reno.ssthresh is None
    for number in range(10):
        reno.ack(0.1 + number / 1000, 1000, rtt=0.1)
    assert reno.window == 20_000
    reno.loss(0.2)
    assert reno.ssthresh == 10_000
    reno.recovered(0.3)
    reno.timeout(0.5)
    assert reno.window == 1000
    bbr = shorthaul.Congestion("bbr", mss=1000)
    for number in range(3000):
        bbr.ack(0.1 + number / 1000, 1000, rtt=0.1)
    # 1000 bytes a millisecond are acknowledged.
    assert bbr.pacing_rate == pytest.approx(8e6, rel=0.3)
    with pytest.raises(ValueError, match="cubic"):
        shorthaul.Congestion("magic")
    assert not math.isnan(bbr.window)
