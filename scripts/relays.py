#!/usr/bin/env python3
"""When relays pay: the studies in scenarios/relays, and the tables of docs/relays-today.md.

    scripts/relays.py files                  writes scenarios/relays/*.toml
    scripts/relays.py forecast OUT           asks `shorthaul plan` for the same cells: OUT/plan.json
    scripts/relays.py tables OUT             the tables, from OUT/*/runs.jsonl and OUT/plan.json

The program is $SHORTHAUL, or target/release/shorthaul.
"""
import itertools
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

SCENARIOS = Path(__file__).resolve().parent.parent / "scenarios" / "relays"
RTTS = [20, 100, 300]
LOSSES = {"none": None, "0.1 %": 0.001, "1 %": 0.01, "0.1 % in bursts": 0.001}
WAYS = {"direct": [], "one": [1], "two": [1, 2]}
STREAMS = [1, 4, 16]
# MB: a small transfer, and ten seconds of the link; of 500 Mbit/s three.
SIZES = {10: [1, 12.5], 100: [1, 125], 500: [1, 200]}
# A burst takes as long as ten full packets of 1538 bytes take at the link's rate.
BURST = 10
FRAME = 1538
LEAST_QUEUE = 20
WINDOW = "64 MB"


def scheme(name, window=WINDOW):
    pacing = ", pacing = false" if name == "cubic" else ""
    return f'{{ profile = "{name}"{pacing}, send_buffer = "{window}", receive_buffer = "{window}" }}'


def number(value):
    return f"{value:.6g}"


def loss_of(loss, legs, mbit):
    share = LOSSES[loss]
    if share is None:
        return '"none"'
    if loss.endswith("bursts"):
        on = BURST * FRAME * 8 / mbit  # us
        off = on * (legs / share - 1)
        return f'{{ model = "on-off", on = "{number(on)} us", off = "{number(off / 1000)} ms" }}'
    return f'"{number(100 * share / legs)} %"'


def link(mbit, rtt, legs, loss, products):
    """One leg of a way of `legs` equal ones: its queue is `products` of its own bandwidth-delay products."""
    packets = max(LEAST_QUEUE, round(products * mbit * 1e6 * rtt / 1e3 / legs / 8 / FRAME))
    return (
        f'{{ rate = "{mbit} Mbit/s", delay = "{number(rtt / 2 / legs)} ms", overhead = "38 B", '
        f'queue = "{packets} packets", up = {{ loss = {loss_of(loss, legs, mbit)} }} }}'
    )


def flow(streams, size, ends=None):
    """The data: all connections of a cell together move `size` MB, whatever their number."""
    own = f", scheme = {scheme(*ends)}" if ends else ""
    return (
        '{ name = "data", from = "source", to = "sink", opened_by = "source", '
        f'count = {streams}, bulk = "{round(size * 1e6 / streams)} B"{own} }}'
    )


def head(about, duration="60000 s", repeats=3):
    return [
        "# Made by `scripts/relays.py files`: change it there. What it is for: docs/relays-today.md",
        f'about = "{about}"',
        "seed = 1",
        f"repeats = {repeats}",
        f'duration = "{duration}"',
    ]


def measure(metrics, every="10 s"):
    names = ", ".join(f'"{name}"' for name in metrics)
    return ["", "[measure]", f"metrics = [{names}]", f'every = "{every}"']


def chain(mbit, rtts, losses, sizes, streams, about, products=1.0, window=WINDOW, ends=("cubic", "bbr"), crossed=False):
    """Ways of equal legs. Relays speak as the ends do, or, if `crossed`, as the ends do not."""
    other = {"cubic": "bbr", "bbr": "cubic"}
    first = link(mbit, rtts[0], 1, next(iter(losses)), products)
    usual = scheme(ends[0], window)
    schemes = [None] if crossed else [(name, window) for name in ends]
    flows = [flow(n, size, end) for end in schemes for size in sizes for n in streams]
    lines = head(about) + [
        "# All connections of a cell together move the same, whatever their number. Relays speak as a flow does that has a scheme.",
        f"flows = [{flows[0]}]",
        "",
        "[hosts.source]",
        f"scheme = {usual}",
        "[hosts.sink]",
        f"scheme = {usual}",
        "",
        "# Legs are equal, and share round trip and loss. The queue of each holds "
        f"{number(products)} of its bandwidth-delay product, and {LEAST_QUEUE} packets at least.",
        "[[chains]]",
        'between = ["source", "sink"]',
        "hops = 1",
        "relays = []",
        f"link = {first}",
        f'relay = {{ scheme = {usual}, buffer = "{window}", packet = "1448 B" }}',
    ]
    lines += measure(["goodput", "completion", "fairness", "retransmitted", "unfinished"])
    lines += ["", "[sweep]", '"flows.data" = [', *(f"    {line}," for line in flows), "]", ""]
    ways = [way for way in WAYS if not (crossed and way == "direct")]
    for rtt, loss, way in itertools.product(rtts, losses, ways):
        legs = len(WAYS[way]) + 1
        for end in ends if crossed else [None]:
            name = f"{rtt} ms, {loss}, {way}" + (f", {end}" if end else "")
            lines += [
                f'[cases."{name}"]',
                f'"chains.0.hops" = {legs}',
                f'"chains.0.relays" = {WAYS[way]}',
                f'"chains.0.link" = {link(mbit, rtt, legs, loss, products)}',
            ]
            if end:
                lines += [
                    f'"hosts.source.scheme" = {scheme(end, window)}',
                    f'"chains.0.relay.scheme" = {scheme(other[end], window)}',
                ]
    return "\n".join(lines) + "\n"


def files():
    SCENARIOS.mkdir(exist_ok=True)
    what = "CUBIC and BBR, 1, 4 and 16 connections, none, one and two relays"
    few = ("none", "0.1 %")
    made = {
        "10-mbit": chain(10, RTTS, LOSSES, SIZES[10], STREAMS, f"When relays pay over 10 Mbit/s: {what}"),
        "100-mbit": chain(100, RTTS, LOSSES, SIZES[100], STREAMS, f"When relays pay over 100 Mbit/s: {what}"),
        "500-mbit": chain(500, RTTS, LOSSES, SIZES[500], STREAMS, f"When relays pay over 500 Mbit/s: {what}"),
        "own-control": chain(
            100, [100, 300], LOSSES, SIZES[100][1:], [1, 4],
            "Relays that speak BBR between ends that speak CUBIC, and the reverse, over 100 Mbit/s", crossed=True,
        ),
        "shallow": chain(
            100, [20, 100], few, SIZES[100][1:], STREAMS,
            "Relays over 100 Mbit/s whose queues hold a tenth of the product", products=0.1,
        ),
        "window": chain(
            500, [100, 300], few, SIZES[500][1:], [1, 4],
            "Relays over 500 Mbit/s between ends and relays whose windows bind: 3 MB, what Linux gives out of 6 MB (tcp_rmem)",
            window="3 MB", ends=("cubic",),
        ),
        "shared": shared(),
        "cross": cross(),
        "live": live(),
        "picture": picture(),
    }
    for name, text in made.items():
        (SCENARIOS / f"{name}.toml").write_text(text)


# One path for all, 100 ms and 100 Mbit/s: relays stand at routers of it, and the narrow link is behind the middle one.
def path(queue, loss):
    packets = round(queue * 100e6 * 0.1 / 8 / FRAME)
    wide = '{{ rate = "10 Gbit/s", delay = "{} ms" }}'.format
    narrow = (
        f'{{ rate = "100 Mbit/s", delay = "8.33333 ms", overhead = "38 B", queue = "{packets} packets", up = {{ loss = {loss} }} }}'
    )
    links = [
        ("source", "a", wide("16.66667")), ("a", "h", wide("8.33333")), ("h", "b", narrow), ("b", "sink", wide("16.66667")),
        ("first", "a", wide("0.01")), ("half", "h", wide("0.01")), ("second", "b", wide("0.01")),
    ]
    lines = ['routers = ["a", "h", "b"]']
    for name in ("source", "sink"):
        lines += [f"[hosts.{name}]", f'scheme = {scheme("cubic")}']
    for name in ("first", "half", "second"):
        lines += [f"[relays.{name}]", f'scheme = {scheme("cubic")}', f'buffer = "{WINDOW}"']
    for one, other, of in links:
        lines += ["[[links]]", f'between = ["{one}", "{other}"]', f"link = {of}"]
    return lines


VIA = '"flows.ours.via" = [[], ["half"], ["first", "second"]]'


def shared():
    lines = head("Flows by relays beside direct ones on the narrow link of 100 Mbit/s: what both get", "30 s")
    lines += ['warm_up = "10 s"', "# `ours` go by relays or not, `others` never do. The narrow link is behind the relay half-way."]
    lines += path(1, '"none"')
    for name in ("ours", "others"):
        lines += ["[[flows]]", f'name = "{name}"', 'from = "source"', 'to = "sink"', 'opened_by = "source"', "count = 4", 'via = []', 'unlimited = "30 s"']
    lines += measure(["goodput", "fairness", "queue-delay", "retransmitted"], "100 ms")
    lines += ["", "[sweep]", VIA]
    lines += ['"links.h-b.link.queue" = ["813 packets", "163 packets"]', '"flows.ours.count" = [1, 4]', ""]
    for end in ("cubic", "bbr"):
        for relay in ("cubic", "bbr"):
            lines += [f'[cases."{end}, relays {relay}"]', f'"hosts.source.scheme" = {scheme(end)}']
            lines += [f'"relays.{name}.scheme" = {scheme(relay)}' for name in ("first", "half", "second")]
    return "\n".join(lines) + "\n"


def cross():
    others = "nobody, 30 Mbit/s of datagrams, or four direct CUBIC connections, each of which downloads 5 MB again and again with pauses of a second"
    lines = head("A transfer of 30 MB through 100 Mbit/s that others use, too, by relays or not", "150 s")
    ours = [
        f'{{ name = "ours", from = "source", to = "sink", opened_by = "source", count = {n}, bulk = "{30 / n:g} MB", via = {via} }}'
        for via in ("[]", '["half"]', '["first", "second"]') for n in (1, 4)
    ]
    web = (
        '{{ name = "others", from = "source", to = "sink", via = [], count = {}, scheme = {}, '
        'downloads = {{ size = "{}", repeats = {}, pause = "exponential 1 s" }} }}'
    ).format
    idle, busy = web(1, scheme("cubic"), "1 kB", 1), web(4, scheme("cubic"), "5 MB", 1000)
    lines += [f"# The others: {others}.", f"flows = [{ours[0]}, {idle}]"]
    lines += path(1, '"none"')
    lines += ["[[cross]]", 'name = "datagrams"', 'from = "h"', 'to = "b"', 'rate = "1 kbit/s"', 'packet = "1000 B"', 'arrivals = "poisson"']
    lines += measure(["completion", "unfinished"], "1 s")
    lines += ["", "[sweep]", '"flows.ours" = [', *(f"    {line}," for line in ours), "]", '"links.h-b.link.up.loss" = ["none", "0.1 %"]', ""]
    for end in ("cubic", "bbr"):
        for name, flows, rate in (("nobody", idle, "1 kbit/s"), ("datagrams", idle, "30 Mbit/s"), ("downloads", busy, "1 kbit/s")):
            lines += [f'[cases."{end}, {name}"]', f'"hosts.source.scheme" = {scheme(end)}']
            lines += [f'"relays.{relay}.scheme" = {scheme(end)}' for relay in ("first", "half", "second")]
            lines += [f'"flows.others" = {flows}', f'"cross.datagrams.rate" = "{rate}"']
    return "\n".join(lines) + "\n"


def picture():
    lines = head("One CUBIC connection with 40 MB over 100 Mbit/s and 0.1 % of loss, by the delay of a link: a twelfth of the round trip", "4000 s", 10)
    usual = scheme("cubic")
    lines += [
        "[hosts.source]", f"scheme = {usual}", "[hosts.sink]", f"scheme = {usual}", "",
        "[[chains]]", 'between = ["source", "sink"]', "hops = 6", "relays = []",
        'link = { rate = "100 Mbit/s", delay = "10 ms", overhead = "38 B", queue = "400 packets", up = { loss = "0.0166667 %" } }',
        f'relay = {{ scheme = {usual}, buffer = "{WINDOW}", packet = "1448 B" }}',
        "[[flows]]", 'name = "data"', 'from = "source"', 'to = "sink"', 'opened_by = "source"', 'bulk = "40 MB"',
    ]
    lines += measure(["goodput"])
    delays = ", ".join(f'"{number(rtt / 12)} ms"' for rtt in (10, 20, 50, 100, 200, 300))
    lines += ["", "[sweep]", f'"chains.0.link.delay" = [{delays}]', ""]
    lines += ["[cases.direct]", '[cases."one relay"]', '"chains.0.relays" = [3]', '[cases."two relays"]', '"chains.0.relays" = [2, 4]']
    lines += ['[cases."two relays, BBR"]', '"chains.0.relays" = [2, 4]', f'"chains.0.relay.scheme" = {scheme("bbr")}']
    return "\n".join(lines) + "\n"


# Cells between kernels: Mbit/s, ms, loss, MB, connections, ends, relays.
LIVE = [
    (100, 20, "0.1 %", 50, 1, "cubic", "cubic"),
    (100, 100, "none", 50, 1, "cubic", "cubic"),
    (100, 100, "0.1 %", 50, 1, "cubic", "cubic"),
    (100, 100, "0.1 %", 50, 1, "cubic", "bbr"),
    (100, 100, "0.1 % in bursts", 50, 1, "cubic", "cubic"),
    (100, 100, "0.1 %", 50, 4, "cubic", "cubic"),
    (100, 100, "1 %", 20, 16, "cubic", "cubic"),
    (10, 100, "1 %", 4, 1, "cubic", "cubic"),
    (10, 300, "0.1 %", 4, 1, "cubic", "cubic"),
    (100, 300, "none", 1, 1, "cubic", "cubic"),
    (100, 300, "none", 1, 1, "bbr", "bbr"),
    (100, 100, "1 %", 50, 1, "bbr", "bbr"),
    (100, 300, "0.1 %", 50, 4, "bbr", "bbr"),
]


def live():
    lines = head("Chosen cells, small enough to be run between kernels", "400 s", 5)
    usual = scheme("cubic")
    lines += [
        f"flows = [{flow(1, 1)}]", "",
        "[hosts.source]", f"scheme = {usual}", "[hosts.sink]", f"scheme = {usual}", "",
        "[[chains]]", 'between = ["source", "sink"]', "hops = 1", "relays = []",
        f"link = {link(100, 100, 1, 'none', 1)}",
        f'relay = {{ scheme = {usual}, buffer = "{WINDOW}", packet = "1448 B" }}',
    ]
    lines += measure(["goodput", "completion", "retransmitted", "unfinished"], "100 ms") + [""]
    for at, (mbit, rtt, loss, size, streams, end, relay) in enumerate(LIVE):
        for way, relays in WAYS.items():
            if way == "direct" and end != relay:
                continue  # the cell before has it
            legs = len(relays) + 1
            lines += [
                f'[cases."{at + 1:02}, {way}"]',
                f'"hosts.source.scheme" = {scheme(end)}',
                f'"chains.0.relay.scheme" = {scheme(relay)}',
                f'"chains.0.hops" = {legs}',
                f'"chains.0.relays" = {relays}',
                f'"chains.0.link" = {link(mbit, rtt, legs, loss, 1)}',
                f'"flows.data" = {flow(streams, size)}',
            ]
    return "\n".join(lines) + "\n"


PROGRAM = os.environ.get("SHORTHAUL", str(SCENARIOS.parent.parent / "target/release/shorthaul"))
# Student's t, 95 %, by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 19: 2.093}


def forecast(out):
    """What `shorthaul plan` says of the cells: with the relays' buffers of the scenarios, and with those that it advises itself."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "plan.json").write_text(json.dumps(planned(["--buffer", WINDOW.replace(" ", "")])))
    (out / "plan-advised.json").write_text(json.dumps(planned([])))


def planned(buffers):
    """What the planner says of each cell of the matrix. Of bursts it is told how often they begin."""
    found = []
    for mbit in SIZES:
        for rtt, loss, size, streams, ends in itertools.product(RTTS, LOSSES, SIZES[mbit], STREAMS, ("cubic", "bbr")):
            share = (LOSSES[loss] or 0) / (BURST if loss.endswith("bursts") else 1)
            asked = [PROGRAM, "plan", "--rtt", f"{rtt}ms", "--loss", f"{100 * share:g}%", "--rate", f"{mbit}Mbit/s"]
            asked += ["--size", f"{size}MB", "--streams", str(streams), "--relays", "0..2", "--model", ends, "--min-gain", "1.1", *buffers, "--json"]
            said = json.loads(subprocess.run(asked, capture_output=True, check=True).stdout)
            ways = {way["relays"]: [way["seconds"], way["seconds_low"], way["seconds_high"], way["advised"]] for way in said["ways"]}
            found.append([mbit, rtt, loss, size, streams, ends, ways])
    return found


def runs(folder):
    """Of each run: its case, its swept values, its seed, and what came of it."""
    for line in (folder / "runs.jsonl").read_text().splitlines():
        run = json.loads(line)
        if run["outcome"] is None and run["engine"] == "model":
            continue  # what the model does not know: bursts
        if run["outcome"] is None:
            raise SystemExit(f"{folder}: {run['case']}: {run['failure']}")
        yield run


def slowest(run, family="data"):
    """Seconds until the last connection of a cell was done."""
    ours = [flow for flow in run["outcome"]["flows"] if flow["name"].split(".")[0] == family]
    if not all(flow["transfers"] for flow in ours):
        return math.inf
    return max(flow["transfers"][0] for flow in ours)


def swept(run, path):
    return dict(run["values"])[path]


def of_flow(text):
    """Connections, MB of all together, and what the ends speak, where the flow says so."""
    streams = int(re.search(r"count = (\d+)", text)[1])
    size = round(int(re.search(r'bulk = "(\d+) B"', text)[1]) * streams / 1e6, 3)
    ends = re.search(r'profile = "(\w+)"', text)
    return streams, size, ends and ends[1]


def matrix(out, names=("10-mbit", "100-mbit", "500-mbit"), engine="sim"):
    """{(mbit, rtt, loss, size, streams, ends, relays): [seconds by seed]}"""
    found = {}
    for name in names:
        for run in runs(out / name):
            if run["engine"] != engine:
                continue
            rtt, loss, way, *crossed = run["case"].split(", ")
            streams, size, ends = of_flow(swept(run, "flows.data"))
            ends = (crossed or [ends])[0]
            mbit = int(name.split("-")[0]) if name[0].isdigit() else name
            cell = (mbit, int(rtt.split()[0]), loss, size, streams, ends, len(WAYS[way]))
            found.setdefault(cell, {})[run["seed"]] = slowest(run)
    return {cell: [of[seed] for seed in sorted(of)] for cell, of in found.items()}


def mean(values):
    """Geometric mean, and by which factor the ends of its 95 % interval are away."""
    logs = [math.log(value) for value in values]
    middle = sum(logs) / len(logs)
    if len(logs) < 2:
        return math.exp(middle), math.inf
    spread = math.sqrt(sum((log - middle) ** 2 for log in logs) / (len(logs) - 1))
    return math.exp(middle), math.exp(STUDENT[len(logs) - 1] * spread / math.sqrt(len(logs)))


def median(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, math.ceil(share * len(values)) - 1)]


def gain(found, cell, relays):
    """How many times as fast as directly, seed by seed."""
    direct, relayed = found[(*cell, 0)], found[(*cell, relays)]
    return [one / other for one, other in zip(direct, relayed)]


def advise(gains):
    """The fewest relays within 5 % of the fastest way; none unless that is a tenth faster than none."""
    ways = {0: 1.0, **gains}
    best = max(ways.values())
    return 0 if best < 1.1 else min(way for way, gain in ways.items() if gain >= best / 1.05)


def short(gain):
    return f"{gain:.2f}" if gain < 9.95 else f"{gain:.1f}"


def ranged(middle, factor):
    """A gain with its interval; without, where there was no chance in the runs."""
    return short(middle) + (f" ({short(middle / factor)} to {short(middle * factor)})" if factor > 1.001 else "")


def table(head, rows, left=1):
    """A table in Markdown, whose first `left` columns are no numbers."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "|".join(["---"] * left + ["---:"] * (len(head) - left)) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


class Matrix:
    """What the simulator and the planner say of all cells; a cell is (mbit, rtt, loss, size, streams, ends)."""

    def __init__(self, out):
        self.runs = matrix(out)
        self.cells = sorted({cell[:-1] for cell in self.runs}, key=lambda c: (c[0], c[1], list(LOSSES).index(c[2]), *c[3:]))
        self.plan, self.advised = (self.planner(out / name) for name in ("plan.json", "plan-advised.json"))

    @staticmethod
    def planner(file):
        return {tuple(cell): {int(n): way for n, way in ways.items()} for *cell, ways in json.loads(file.read_text())}

    def gains(self, cell):
        return {n: mean(gain(self.runs, cell, n)) for n in (1, 2)}

    def planned(self, cell, relays):
        return self.plan[cell][0][0] / self.plan[cell][relays][0]

    def product(self, cell):
        """Bandwidth x round trip in bytes."""
        return cell[0] * 1e6 * cell[1] / 1e3 / 8


PRODUCTS = [(0.2e6, "below 0.2 MB"), (1e6, "0.2 to 1 MB"), (3e6, "1 to 3 MB"), (math.inf, "above 3 MB")]


def class_of(product):
    return next(name for most, name in PRODUCTS if product < most)


def decisions(m):
    """The advice for classes of cells, by the medians of their gains."""
    groups = {}
    for cell in m.cells:
        mbit, rtt, loss, size, streams, ends = cell
        kind = "1 MB" if size == 1 else "long"
        groups.setdefault((ends, kind, loss, class_of(m.product(cell)), streams), []).append({n: g for n, (g, _) in m.gains(cell).items()})
    told = {}
    for key, cells in groups.items():
        middle = {n: median([cell[n] for cell in cells]) for n in (1, 2)}
        advice = advise(middle)
        chosen = [{0: 1.0, **cell}[advice] for cell in cells]
        right = [{0: 1.0, **cell}[advice] >= max(1.0, *cell.values()) / 1.1 for cell in cells]
        told[key] = (advice, min(chosen), max(chosen), sum(right), len(right))
    return told


def decision_table(m):
    told = decisions(m)
    names = {0: "none", 1: "one", 2: "two"}
    for ends in ("cubic", "bbr"):
        yield ""
        yield f"*Ends that speak {ends.upper()}*"
        yield ""
        rows = []
        for kind in ("long", "1 MB"):
            for loss in LOSSES:
                for _, product in PRODUCTS:
                    row = []
                    for streams in STREAMS:
                        advice, low, high, _, _ = told[ends, kind, loss, product, streams]
                        if not advice:
                            row.append("none")
                        else:
                            of = short(low) if short(low) == short(high) else f"{short(low)} to {short(high)}"
                            row.append(f"{names[advice]}, {of}")
                    rows.append([kind, loss, product, *row])
        merged = []
        for row in rows:
            # Neighbouring classes of which no connection should use relays are one row.
            if merged and merged[-1][:2] == row[:2] and merged[-1][3:] == row[3:] == ["none"] * 3:
                merged[-1][2] += ", " + row[2]
            else:
                merged.append(row)
        for row in merged:
            if row[2].count(",") == len(PRODUCTS) - 1:
                row[2] = "any"
        yield from table(["transfer", "loss", "rate × round trip", "1 connection", "4", "16"], merged, 3)
    right, of = (sum(entry[at] for entry in told.values()) for at in (3, 4))
    yield ""
    yield f"{right} of {of} cells: the advice for the class is right for the cell, or costs a tenth at most."


def matrix_tables(m):
    for mbit in SIZES:
        for size in SIZES[mbit]:
            yield ""
            yield f"**{mbit} Mbit/s, {size:g} MB**"
            yield ""
            rows = []
            for rtt, loss in itertools.product(RTTS, LOSSES):
                row = [f"{rtt} ms", loss]
                for ends, streams in itertools.product(("cubic", "bbr"), STREAMS):
                    cell = (mbit, rtt, loss, size, streams, ends)
                    direct, _ = mean(m.runs[(*cell, 0)])
                    first = f"{direct:.2f} s" if size == 1 else f"{8 * size / direct:.3g}"
                    row.append(" → ".join([first] + [f"{short(g)} ({short(m.planned(cell, n))})" for n, (g, _) in m.gains(cell).items()]))
                rows.append(row)
            yield from table(["round trip", "loss"] + [f"{ends}, {n}" for ends in ("CUBIC", "BBR") for n in STREAMS], rows, 2)


def errors(m):
    kinds = [
        ("all", lambda c: True), ("CUBIC", lambda c: c[5] == "cubic"), ("BBR", lambda c: c[5] == "bbr"),
        ("1 connection", lambda c: c[4] == 1), ("4", lambda c: c[4] == 4), ("16", lambda c: c[4] == 16),
        ("1 MB", lambda c: c[3] == 1), ("long", lambda c: c[3] > 1),
        *((f"loss {loss}", lambda c, loss=loss: c[2] == loss) for loss in LOSSES),
        *((f"{mbit} Mbit/s", lambda c, mbit=mbit: c[0] == mbit) for mbit in SIZES),
    ]
    rows = [judged(m, m.plan, name, [cell for cell in m.cells if wanted(cell)]) for name, wanted in kinds]
    for streams in STREAMS:
        cells = [cell for cell in m.cells if cell[4] == streams]
        rows.append(judged(m, m.advised, f"buffers as it advises: {streams} connection" + "s" * (streams > 1), cells))
    head = ["cells", "number", "time, direct", "one relay", "two", "gain", "advice right, or costs a tenth at most", "twice as long or worse"]
    yield from table(head, rows)


def judged(m, plan, name, cells):
    """How far off `plan` is: medians, and what nine of ten are below."""
    row = [name, str(len(cells))]
    for n in (0, 1, 2):
        off = [abs(plan[cell][n][0] / mean(m.runs[(*cell, n)])[0] - 1) for cell in cells]
        row.append(f"{100 * median(off):.0f} %, {100 * percentile(off, 0.9):.0f} %")
    off = [abs(plan[cell][0][0] / plan[cell][n][0] / m.gains(cell)[n][0] - 1) for cell in cells for n in (1, 2)]
    row.append(f"{100 * median(off):.0f} %, {100 * percentile(off, 0.9):.0f} %")
    cost = []
    for cell in cells:
        gains = {0: 1.0, **{n: g for n, (g, _) in m.gains(cell).items()}}
        cost.append(max(gains.values()) / gains[next(n for n, way in plan[cell].items() if way[3])])
    return row + [f"{100 * sum(c <= 1.1 for c in cost) / len(cost):.0f} %", str(sum(c >= 2 for c in cost))]


def widths(m):
    spread = [factor - 1 for cell in m.cells for _, factor in m.gains(cell).values() if math.isfinite(factor)]
    yield f"Half of the 95 % intervals of a gain are within ± {100 * median(spread):.1f} %, nine of ten within ± {100 * percentile(spread, 0.9):.0f} %."
    harmed = {n: [cell for cell in m.cells if m.gains(cell)[n][0] < 1 / 1.05] for n in (1, 2)}
    for n, cells in harmed.items():
        worst = min(m.cells, key=lambda cell: m.gains(cell)[n][0])
        yield f"{n} relays: more than 5 % slower in {len(cells)} of {len(m.cells)} cells, worst {m.gains(worst)[n][0]:.2f}: {worst}"
    for n in (1, 2):
        gains = [m.gains(cell)[n][0] for cell in m.cells]
        yield f"{n} relays: a tenth faster in {sum(g >= 1.1 for g in gains)}, twice in {sum(g >= 2 for g in gains)} of {len(gains)}; median {median(gains):.2f}, most {max(gains):.1f}"
        for ends in ("cubic", "bbr"):
            for kind, wanted in (("1 MB", lambda s: s == 1), ("long", lambda s: s > 1)):
                some = [m.gains(cell)[n][0] for cell in m.cells if cell[5] == ends and wanted(cell[3])]
                yield f"  {ends}, {kind}: median {median(some):.2f}, a tenth faster in {sum(g >= 1.1 for g in some)}, 5 % slower in {sum(g < 1 / 1.05 for g in some)} of {len(some)}"


def modelled(out, name):
    """The model's seconds where `run --engine model,sim` had a forecast."""
    return {cell: of[0] for cell, of in matrix(out, [name], "model").items()}


def variants(out, m):
    """Studies of one thing that is different."""
    for name, mbit, what in (("shallow", 100, "a queue of a tenth of the product"), ("window", 500, "windows of 3 MB"), ("own-control", 100, "relays with the other control")):
        found = matrix(out, [name])
        yield ""
        yield f"**{name}: {what}, {mbit} Mbit/s, {SIZES[mbit][1]} MB**"
        yield ""
        rows = []
        for cell in sorted({cell[1:-1] for cell in found}, key=lambda c: (c[4] != "cubic", c[0], list(LOSSES).index(c[1]), c[3])):
            rtt, loss, size, streams, ends = cell
            usual = (mbit, *cell)
            row = [ends.upper(), f"{rtt} ms", loss, str(streams)]
            direct = m.runs[(*usual, 0)] if name == "own-control" else found[(name, *cell, 0)]
            rate, _ = mean([8 * size / seconds for seconds in direct])
            row.append(f"{rate:.3g}")
            for n in (1, 2):
                middle, factor = mean([one / other for one, other in zip(direct, found[(name, *cell, n)])])
                row.append(ranged(middle, factor))
            row += [short(m.gains(usual)[n][0]) for n in (1, 2)]
            rows.append(row)
        yield from table(["ends", "round trip", "loss", "connections", "direct, Mbit/s", "one relay", "two", "as usual: one", "two"], rows, 3)


def shares(out):
    """What direct flows have beside relayed ones."""
    found = {}
    for run in runs(out / "shared"):
        ours = [flow["goodput"] for flow in run["outcome"]["flows"] if flow["name"].split(".")[0] == "ours"]
        others = [flow["goodput"] for flow in run["outcome"]["flows"] if flow["name"].split(".")[0] == "others"]
        ends, relays = run["case"].split(", relays ")
        via = swept(run, "flows.ours.via").count('"') // 2
        queue = "1" if "813" in swept(run, "links.h-b.link.queue") else "0.2"
        key = (ends, relays, queue, int(swept(run, "flows.ours.count")), via)
        of = found.setdefault(key, [])
        both = ours + others
        jain = sum(both) ** 2 / len(both) / sum(value**2 for value in both)
        of.append((sum(ours) / len(ours) / 1e6, sum(others) / len(others) / 1e6, sum(both) / 1e6, jain))
    rows = []
    for key in sorted(found, key=lambda k: (k[0] != "cubic", k[3], k[2] != "1", k[4], k[1] != k[0])):
        ends, relays, queue, count, via = key
        if via == 0 and ends != relays:
            continue
        ours, others, both, jain = (sum(run[at] for run in found[key]) / len(found[key]) for at in range(4))
        direct = found[(ends, ends, queue, count, 0)]
        left, factor = mean([run[1] / beside[1] for run, beside in zip(found[key], direct)])
        way = ["direct", "by one relay", "by two"][via] + (f" ({relays.upper()})" if via else "")
        rows.append([ends.upper(), queue, str(count), way, f"{ours:.1f}", f"{others:.1f}", "1" if not via else ranged(left, factor), f"{jain:.2f}", f"{both:.1f}"])
    head = ["ends", "queue, products", "of ours", "ours go", "each of ours, Mbit/s", "each of four others", "others beside all direct", "Jain", "all"]
    yield from table(head, rows, 4)


def crossing(out):
    found = {}
    for run in runs(out / "cross"):
        ends, others = run["case"].split(", ")
        text = swept(run, "flows.ours")
        streams = int(re.search(r"count = (\d+)", text)[1])
        via = text.count("half") + text.count("first") * 2
        loss = swept(run, "links.h-b.link.up.loss").strip('"')
        found.setdefault((ends, others, loss, streams), {}).setdefault(via, []).append(slowest(run, "ours"))
    rows = []
    names = {"nobody": "nobody", "datagrams": "30 Mbit/s of datagrams", "downloads": "4 downloads of CUBIC"}
    for key in sorted(found, key=lambda k: (k[0] != "cubic", k[2] != "none", k[3], list(names).index(k[1]))):
        ends, others, loss, streams = key
        ways = found[key]
        row = [ends.upper(), loss, str(streams), names[others], f"{mean([240 / s for s in ways[0]])[0]:.3g}"]
        for n in (1, 2):
            if any(math.isinf(s) for s in ways[n] + ways[0]):
                row.append("not done in 150 s")
                continue
            middle, factor = mean([one / other for one, other in zip(ways[0], ways[n])])
            row.append(ranged(middle, factor))
        rows.append(row)
    yield from table(["ends", "loss", "connections", "others", "direct, Mbit/s", "one relay", "two"], rows, 4)


def living(out):
    """Between kernels, beside the simulator and the model."""
    found, trust = {"live": {}, "sim": {}, "model": {}}, {}
    for folder in sorted(out.glob("live-*")):
        if not (folder / "runs.jsonl").exists():
            continue
        for run in runs(folder):
            cell, way = run["case"].split(", ")
            found[run["engine"]].setdefault((int(cell), len(WAYS[way])), {})[run["seed"]] = slowest(run)
            if run["engine"] == "live":
                trust.setdefault(int(cell), []).append(run["outcome"]["fidelity"])
    rows, off = [], {"sim": [], "model": [], "direct": []}
    signs, sure = [], []
    for at, (mbit, rtt, loss, size, streams, ends, relay) in enumerate(LIVE):
        cell, alone = at + 1, at + 1 if ends == relay else at
        row = [f"{mbit} Mbit/s, {rtt} ms, {loss}, {size} MB, {streams} × {ends.upper()}" + (f", relays {relay.upper()}" if relay != ends else "")]
        direct = {engine: found[engine].get((alone, 0), {}) for engine in found}
        rate = {engine: 8 * size / mean(list(of.values()))[0] if of else None for engine, of in direct.items()}
        row.append(" / ".join(f"{rate[e]:.3g}" if rate[e] else "–" for e in ("live", "sim", "model")))
        off["direct"].append(rate["live"] / rate["sim"])
        for n in (1, 2):
            live = found["live"][(cell, n)]
            middle, factor = mean([direct["live"][seed] / live[seed] for seed in live])
            same = found["sim"][(cell, n)]
            sim, _ = mean([direct["sim"][seed] / same[seed] for seed in same])
            model = found["model"].get((cell, n))
            model = next(iter(direct["model"].values())) / next(iter(model.values())) if model else None
            row.append(f"{ranged(middle, factor)} / {short(sim)} / {short(model) if model else '–'}")
            off["sim"].append(middle / sim)
            sure.append(middle / factor > 1)
            if model:
                off["model"].append(middle / model)
            if abs(math.log(sim)) > math.log(1.1):
                signs.append((middle > 1) == (sim > 1))
        late = median([f["late_p99"] for f in trust[cell]]) * 1e3
        row += [str(len(live)), f"{late:.2f} ms", f"{100 * median([f['busy'] for f in trust[cell]]):.0f} %", f"{100 * median([f['starved'] for f in trust[cell]]):.0f} %"]
        rows.append(row)
    head = ["cell", "direct, Mbit/s: live / simulated / model", "one relay: live (95 %) / simulated / model", "two", "pairs", "late", "busy", "starved"]
    yield from table(head, rows)
    yield ""
    for name, ratios in off.items():
        yield f"live / {name}: median {median(ratios):.2f}, half within {100 * median([abs(r - 1) for r in ratios]):.0f} %, from {min(ratios):.2f} to {max(ratios):.2f}"
    yield f"the interval is above 1: {sum(sure)} of {len(sure)}"
    yield f"the same side of 1: {sum(signs)} of {len(signs)} gains that are larger than a tenth in the simulator"
    runs_of = [f for of in trust.values() for f in of]
    good = [f for f in runs_of if f["late_p99"] <= 1e-3 and f["busy"] <= 0.9 and f["starved"] <= 0.2 and not f["dropped"]]
    late = [f for f in runs_of if f["late_p99"] > 1e-3]
    yield f"{len(good)} of {len(runs_of)} runs are within all bounds; late {len(late)}, busy {sum(f['busy'] > 0.9 for f in runs_of)}, starved {sum(f['starved'] > 0.2 for f in runs_of)}, dropped {sum(f['dropped'] > 0 for f in runs_of)}"


def csv(m):
    yield "Mbit/s,round trip ms,loss,MB,connections,ends,relays,seeds,seconds,within factor 95 %,times as fast as direct,within factor 95 %,forecast s,forecast low s,forecast high s"
    for cell in m.cells:
        for n in (0, 1, 2):
            seconds, factor = mean(m.runs[(*cell, n)])
            gained, within = m.gains(cell)[n] if n else (1, 1)
            numbers = [len(m.runs[(*cell, n)]), seconds, factor, gained, within, *m.plan[cell][n][:3]]
            yield ",".join([*map(str, cell), str(n), *("" if math.isinf(value) else f"{value:.4g}" for value in numbers)])


def tables(out):
    m = Matrix(out)
    parts = {
        "Decisions": decision_table(m), "Summary": widths(m), "Forecasts": errors(m), "Matrix": matrix_tables(m),
        "Variants": variants(out, m), "Shared": shares(out), "Cross": crossing(out), "Live": living(out),
    }
    for name, lines in parts.items():
        print(f"\n## {name}\n")
        try:
            for line in lines:
                print(line)
        except FileNotFoundError as missing:
            print(f"not run: {missing.filename}")
    (out / "relays-today.csv").write_text("\n".join(csv(m)) + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["files"]:
            files()
        case ["forecast", out]:
            forecast(Path(out))
        case ["tables", out]:
            tables(Path(out))
        case _:
            raise SystemExit(__doc__)
