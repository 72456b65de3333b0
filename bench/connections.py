#!/usr/bin/env python3
"""What a short connection costs: how many a second are opened, asked 64 bytes, answered and closed, fifty at once, and what each takes of processors
and of packets, by plain forwarding, a forwarder that only copies between the same devices, and gateways.

All by turns, each in a network of its own, in another order each time. Ratios are to plain forwarding of the same turn: the middle one, with the 95 %
interval of the sign test. `gateway` is the time that the gateway's threads were on a processor; `all` is what everybody took who is not niced,
which means something where nobody else works. Packets are those that the gateway reads from its devices and writes to them.

A gateway that is another program, before a change say, is compared by NAME=PROGRAM[,FLAG…].

Usage: bench/connections.py SHORTHAUL CONNECTIONS [TURNS [SECONDS [NAME=PROGRAM…]]]. Needs root and iproute2. Ends with one line of JSON.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from cost import Network, interval

AT_ONCE = 50
WARM_UP = 0.5  # of `connections`: as busy as the rest, and not counted by it
ADDRESS = "10.77.2.2:5202"


def ticks():
    """Of all processors: for whom is not niced, stolen, and all."""
    with open("/proc/stat") as file:
        user, nice, system, idle, iowait, irq, softirq, stolen = (int(word) for word in file.readline().split()[1:9])
    return user + system + irq + softirq, stolen, user + nice + system + idle + iowait + irq + softirq + stolen


def on_processor(pid):
    """For how long a process's threads were on a processor, in microseconds."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e3


def packets(network):
    """Read from and written to the gateway's devices."""
    words = ["ip", "netns", "exec", network.tag + "g", "cat", "/proc/net/dev"]
    lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    columns = [line.split(":")[1].split() for line in lines if line.strip().startswith("sh-")]
    # For the kernel it is the other way round.
    return sum(int(row[9]) for row in columns), sum(int(row[1]) for row in columns)


def turn(network, connections, seconds):
    def state():
        busy = on_processor(network.gateway.pid) if network.gateway else 0.0
        return [busy, ticks()[0] * 1e6 / os.sysconf("SC_CLK_TCK"), *packets(network)]

    before = state()
    words = ["ip", "netns", "exec", network.tag + "c", connections, "ask", ADDRESS, str(AT_ONCE), str(seconds)]
    rate = float(subprocess.run(words, capture_output=True, text=True, timeout=seconds + 30).stdout)
    count = rate * (seconds + WARM_UP)
    return [rate, *((now - then) / count for then, now in zip(before, state()))]


def main(shorthaul, connections, turns=10, seconds=1, others=()):
    ways = {"plain forwarding": None, "raw TUN forwarder": (shorthaul, "--forward-only")}
    ways |= {"shorthaul gateway": (shorthaul,), "the same, --mode split": (shorthaul, "--mode", "split")}
    for other in others:
        name, _, words = other.partition("=")
        ways[name] = tuple(words.split(","))
    networks, seen, before = {}, {way: [] for way in ways}, ticks()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        try:
            for number, (way, words) in enumerate(ways.items()):
                networks[way] = Network(f"shn{os.getpid()}{number}")
                networks[way].start("s", connections, "serve", ADDRESS)
                if words is not None:
                    networks[way].serve(words[0], os.path.join(place, str(number)), "", *words[1:])
            time.sleep(1)
            names = list(ways)
            for number in range(turns + 1):
                first = number % len(names)
                for way in names[first:] + names[:first]:
                    figures = turn(networks[way], connections, seconds)
                    if number > 0:  # the first warms up
                        seen[way].append(figures)
        finally:
            for network in networks.values():
                network.remove()
    after, rows = ticks(), {}
    print(f"{'':26} {'a second':>9}  {'to forwarding (95 %)':24} {'gateway':>8} {'all':>8} {'read':>6} {'written':>8}")
    for way, figures in seen.items():
        ratios = [one[0] / plain[0] for one, plain in zip(figures, seen["plain forwarding"])]
        ratio, least, most = interval(ratios)
        rate, gateway, everybody, read, written = (statistics.median(column) for column in zip(*figures))
        print(
            f"{way:26} {rate:9.0f}  {ratio:.3f} ({least:.3f} to {most:.3f})   {gateway:6.1f} µs {everybody:5.1f} µs {read:6.2f} {written:8.2f}"
        )
        rows[way] = {"a_second": rate, "ratio": ratio, "interval": [least, most], "gateway_us": gateway, "all_us": everybody,
                     "read": read, "written": written}
    steal = (after[1] - before[1]) / max(after[2] - before[2], 1)
    print(json.dumps({"bench": "connections", "rows": rows, "turns": turns, "steal": round(steal, 4), "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    program, connections, *rest = sys.argv[1:]
    numbers = [int(word) for word in rest[:2]]
    # Of fewer, no interval has 95 %.
    main(os.path.realpath(program), os.path.realpath(connections), max(numbers[0], 6) if numbers else 10, *numbers[1:], others=rest[2:])
