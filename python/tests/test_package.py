"""What the package promises, seen from Python."""

import math
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
