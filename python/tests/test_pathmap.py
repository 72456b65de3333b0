"""The map: points that make sense, and a surrogate that is told apart from chance."""

import pytest

pytest.importorskip("scipy")
pytest.importorskip("lightgbm")
pytest.importorskip("pyarrow")

import shorthaul
from shorthaul import pathmap


def test_drawn_points_are_scenarios_by_every_way():
    points = pathmap.draw(32, seed=3)
    assert pathmap.draw(8, seed=3) == points[:8]
    assert {point.ends for point in points} == set(pathmap.ENDS)
    assert any(point.loss == 0 for point in points) and any(point.burst > 1 for point in points)
    for point in points:
        for scenario in point.scenarios().values():
            scenario.check()
        # They lie in the space of the map that comes with the package.
        seconds = point.seconds()
        assert set(seconds) == set(pathmap.WAYS) and all(low < told < high for told, low, high in seconds.values())


def test_a_transfer_over_a_lossy_long_path_is_faster_by_relays():
    point = pathmap.PathPoint("p", 20e6, 0.2, 0.002, 1.0, 1.0, "reno", 0.1, 5e6)
    told = {way: shorthaul.simulate(point.scenario(way), seed=1).metrics["completion"] for way in pathmap.WAYS}
    assert told["gateway"] < 0.7 * told["direct"] and told["relay"] < 0.7 * told["direct"]
    assert told["direct"] >= 0.9 * point.ideal()


def test_a_surrogate_is_fitted_to_what_was_simulated(tmp_path):
    points = [point for point in pathmap.draw(64, seed=5) if point.size < 3e6][:24]
    result = pathmap.survey(points, out=tmp_path / "survey", seeds=1, progress=False)
    assert result.failures == {}
    frame = pathmap.times(points, result)
    assert len(frame) == len(points) * len(pathmap.WAYS)
    surrogate = pathmap.fit(frame, held_out=0.25)
    assert surrogate.points == 18 and 0 < surrogate.median_error < 1
    assert surrogate.best(points[0]) in pathmap.WAYS
    # It tells a fast path from a slow one.
    fast = pathmap.PathPoint("f", 100e6, 0.02, 0.0, 1.0, 1.0, "cubic", 0.1, 1e6)
    slow = pathmap.PathPoint("s", 2e6, 0.4, 0.01, 1.0, 1.0, "cubic", 0.1, 1e6)
    assert surrogate.seconds(fast)["direct"][0] < surrogate.seconds(slow)["direct"][0]


def test_the_map_of_the_package_agrees_with_a_simulation_of_a_path_that_it_has_not_seen():
    point = pathmap.PathPoint("p", 20e6, 0.2, 0.002, 1.0, 1.0, "reno", 0.1, 5e6)
    told, low, high = point.seconds()["direct"]
    simulated = shorthaul.simulate(point.scenario("direct"), seed=11).metrics["completion"]
    assert low / 2 < simulated < 2 * high and told > point.ideal()
    assert point.best() != "direct"
    with pytest.raises(ValueError, match="round-trip time"):
        pathmap.PathPoint("p", 20e6, 5.0, 0.0, 1.0, 1.0, "reno", 0.1, 5e6).best()
    with pytest.raises(ValueError, match="cubic"):
        pathmap.PathPoint("p", 20e6, 0.2, 0.0, 1.0, 1.0, "magic", 0.1, 5e6).best()
