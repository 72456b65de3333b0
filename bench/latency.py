#!/usr/bin/env python3
"""What a gateway adds to a round trip at half load: median, 99th and 99.9th percentile, beside plain forwarding.

Three networks of a client, a router and a server: the kernel forwards, a forwarder that only copies between the same devices, and the gateway with
nothing configured. A download runs at half of what the network was just seen to carry; beside it a connection of its own sends 64 bytes, waits for
their echo, and sends again. Turns alternate, so that a machine that is busy for a while is so for all three. All ends are on the same processors:
what a percentile says of a network holds beside the other two of the same run, and not by itself.

Usage: bench/latency.py SHORTHAUL [TURNS [SECONDS]]. Needs root, iproute2 and iperf3. Ends with one line of JSON.
"""
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from cost import Network, run

PORT, MESSAGE = 7007, b"x" * 64
WAYS = {
    "plain forwarding": None,
    "raw TUN forwarder": ("", ["--forward-only"]),
    "shorthaul gateway": ("control_group = 0.0\n", []),
}


def echo():
    """Answers each connection with what it sent."""
    listener = socket.create_server(("0.0.0.0", PORT))
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def answer(connection=connection):
            while part := connection.recv(4096):
                connection.sendall(part)

        threading.Thread(target=answer, daemon=True).start()


def ask(seconds):
    """Round trips, in microseconds, one after the other for so long; prints them as JSON."""
    connection = socket.create_connection(("10.77.2.2", PORT))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    trips, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began, missing = time.perf_counter_ns(), len(MESSAGE)
        connection.sendall(MESSAGE)
        while missing:
            missing -= len(connection.recv(missing))
        trips.append((time.perf_counter_ns() - began) / 1e3)
    print(json.dumps(trips))


def stolen():
    """Ticks of all processors that went to others, and all ticks."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:]]
    return ticks[7], sum(ticks)


def load(network, seconds, rate=None):
    """A download that runs for so long, as a process; at a rate in bit/s, or as fast as it can."""
    limit = [] if rate is None else ["-b", str(int(rate))]
    words = ["iperf3", "-c", "10.77.2.2", "-R", "-J", "-C", "cubic", "-t", str(seconds), *limit]
    return subprocess.Popen(["ip", "netns", "exec", network.tag + "c", *words], stdout=subprocess.PIPE, text=True)


def turn(network, seconds):
    """Half of what it carries, in bit/s, and the round trips beside that."""
    most = json.loads(load(network, 2).communicate(timeout=60)[0])["end"]["sum_received"]["bits_per_second"]
    download = load(network, seconds + 1, most / 2)
    time.sleep(0.5)
    asked = ["ip", "netns", "exec", network.tag + "c", sys.executable, __file__, "--ask", str(seconds)]
    trips = json.loads(run(*asked, timeout=seconds + 60))
    download.communicate(timeout=60)
    return most / 2, trips


def percentile(values, share):
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def main(shorthaul, turns=5, seconds=4):
    networks, seen, before = {}, {way: [] for way in WAYS}, stolen()
    with tempfile.TemporaryDirectory() as place:
        try:
            for number, (way, gateway) in enumerate(WAYS.items()):
                networks[way] = Network(f"shl{os.getpid()}{number}")
                networks[way].start("s", sys.executable, __file__, "--echo")
                if gateway is not None:
                    networks[way].serve(shorthaul, os.path.join(place, str(number)), gateway[0], *gateway[1])
            time.sleep(1)
            for number in range(turns):
                order = list(WAYS)[number % 3 :] + list(WAYS)[: number % 3]
                for way in order:
                    seen[way].append(turn(networks[way], seconds))
                print(f"turn {number + 1} of {turns}", file=sys.stderr)
        finally:
            for network in networks.values():
                network.remove()
    after = stolen()
    rows = {}
    print(f"{'round trips beside half load, µs':34} {'load':>12} {'median':>8} {'99 %':>8} {'99.9 %':>8}   (middle one of the turns)")
    for way, results in seen.items():
        middle = lambda of: statistics.median(of(trips) for _, trips in results)
        row = {str(share): middle(lambda trips: percentile(trips, share)) for share in (0.5, 0.99, 0.999)}
        rows[way] = {"load_bps": statistics.median(rate for rate, _ in results), "microseconds": row, "round_trips": sum(len(trips) for _, trips in results)}
        print(f"{way:34} {rows[way]['load_bps'] / 1e9:7.2f} Gb/s " + " ".join(f"{value:8.0f}" for value in row.values()))
    plain = rows["plain forwarding"]["microseconds"]
    added = {share: rows["shorthaul gateway"]["microseconds"][share] - plain[share] for share in plain}
    steal = (after[0] - before[0]) / max(after[1] - before[1], 1)
    print(json.dumps({"bench": "latency", "ways": rows, "added_microseconds": added, "steal": steal, "turns": turns}))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--echo"]:
            echo()
        case ["--ask", seconds]:
            ask(float(seconds))
        case [shorthaul, *numbers]:
            main(shorthaul, *map(int, numbers))
        case _:
            raise SystemExit(__doc__)
