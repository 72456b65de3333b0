#!/usr/bin/env python3
"""What a gateway's parts cost its thread with the packets: processor time a megabyte, in pairs.

Two gateways stand in two networks of their own, and are measured by turns, each pair in the other order than the one before: the
same bytes, at a rate that neither has to hurry for. What counts is the time that the thread was on a processor
(/proc/PID/task/PID/schedstat), not what passed in a second: who else keeps the machine busy takes time from both, but is not counted.
A machine whose caches are somebody else's is felt by both of a pair. The ratio is the middle one of the pairs', with the 95 % interval of
the sign test.

Usage: bench/cost.py SHORTHAUL [PAIRS [MEGABYTES]]. Needs root, iproute2 and iperf3. Ends with one line of JSON. Its exit
status is 1 if a bound does not hold: if all of an interval is beyond it.
"""
import json
import math
import os
import subprocess
import sys
import tempfile
import time

RATE = "1G"  # of TCP; neither gateway is at its limit
DATAGRAMS = "200M"
# Traffic that is not split, in the scheduler of a bottleneck that has room for all of it.
ALL = """traffic = "all"
[[bottleneck]]
name = "room"
rate = "100 Gbit/s"
[[policy]]
mode = "pass"
match = { ports = [5201] }
"""


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout


class Network:
    """A client, a gateway and a server, each a namespace; veth pairs between them."""

    def __init__(self, tag):
        self.tag, self.children = tag, []
        for host in "cgs":
            run("ip", "netns", "add", tag + host)
            self.ip(host, "link", "set", "lo", "up")
        for end, subnet, device in (("c", 1, "to-client"), ("s", 2, "to-server")):
            run("ip", "link", "add", end + "0", "netns", tag + end, "type", "veth", "peer", "name", device, "netns", tag + "g")
            self.ip(end, "addr", "add", f"10.77.{subnet}.2/24", "dev", end + "0")
            self.ip("g", "addr", "add", f"10.77.{subnet}.1/24", "dev", device)
            self.ip(end, "link", "set", end + "0", "up")
            self.ip("g", "link", "set", device, "up")
            self.ip(end, "route", "add", "default", "via", f"10.77.{subnet}.1")
        run("ip", "netns", "exec", tag + "g", "sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.start("s", "iperf3", "-s")
        self.gateway = None

    def ip(self, host, *words):
        run("ip", "-n", self.tag + host, *words)

    def start(self, host, *words):
        # What nobody reads would fill a pipe, and hold up whoever writes.
        said = subprocess.PIPE if host == "g" else subprocess.DEVNULL
        child = subprocess.Popen(["ip", "netns", "exec", self.tag + host, *words], stdout=said, stderr=subprocess.STDOUT, text=True)
        self.children.append(child)
        return child

    def serve(self, shorthaul, place, text, *flags):
        """Starts the gateway and waits until it is ready."""
        os.makedirs(place, exist_ok=True)
        config = os.path.join(place, "gateway.toml")
        with open(config, "w") as file:
            file.write(text)
        words = ["gateway", "--access", "to-client", "--wan", "to-server", "--run-dir", place, "--config", config]
        self.gateway = self.start("g", shorthaul, *words, *flags)
        said = []
        for line in self.gateway.stdout:
            said.append(line)
            if "ready" in line:
                return
        raise SystemExit("a gateway did not start:\n" + "".join(said))

    def on_processor(self):
        """For how long the thread with the packets was on a processor, in nanoseconds."""
        with open(f"/proc/{self.gateway.pid}/task/{self.gateway.pid}/schedstat") as file:
            return int(file.read().split()[0])

    def cost(self, *flags):
        """Nanoseconds of a processor for a byte that a client has had."""
        words = ["ip", "netns", "exec", self.tag + "c", "iperf3", "-c", "10.77.2.2", "-R", "-J", *flags]
        before = self.on_processor()
        end = json.loads(run(*words, timeout=120))["end"]
        received = (end.get("sum_received") or end["sum"])["bytes"]
        return (self.on_processor() - before) / received

    def remove(self):
        for child in self.children:
            child.terminate()
        for child in self.children:
            try:
                child.wait(timeout=60)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for host in "cgs":
            subprocess.run(["ip", "netns", "del", self.tag + host], capture_output=True)


def interval(ratios):
    """The middle one, and its 95 % interval: that of the sign test, which one pair in which something else happened does not move."""
    ratios, count = sorted(ratios), len(ratios)
    likely, below = 0.0, 0
    while below < count // 2 and likely + math.comb(count, below) / 2**count <= 0.025:
        likely += math.comb(count, below) / 2**count
        below += 1
    outer = max(below - 1, 0)
    return ratios[count // 2], ratios[outer], ratios[count - 1 - outer]


def compare(shorthaul, place, sides, workloads, pairs):
    """Rows of what each workload costs with the first and with the second gateway."""
    networks, rows = [], []
    try:
        for number, (text, flags) in enumerate(sides):
            networks.append(Network(f"shc{os.getpid()}{number}"))
            networks[-1].serve(shorthaul, os.path.join(place, f"{len(os.listdir(place))}"), text, *flags)
        time.sleep(0.5)
        for name, bound, flags in workloads:
            seen = []
            for number in range(pairs + 1):
                order = (0, 1) if number % 2 == 0 else (1, 0)
                pair = {side: networks[side].cost(*flags) for side in order}
                if number > 0:  # the first warms up
                    seen.append((pair[0], pair[1]))
            ratio, least, most = interval([one / other for one, other in seen])
            one, other = (sorted(pair[side] for pair in seen)[len(seen) // 2] for side in (0, 1))
            verdict = "holds" if most <= bound else "does not hold" if least > bound else "open"
            print(
                f"{name:34} {one * 1e3:8.0f} {other * 1e3:8.0f}   {ratio:.3f} ({least:.3f} to {most:.3f})"
                f"   at most {bound}: {verdict}",
                flush=True,
            )
            rows.append(
                {"what": name, "us_mb": one * 1e3, "without_us_mb": other * 1e3, "ratio": ratio,
                 "interval": [least, most], "bound": bound, "verdict": verdict,
                 "pairs": [round(one / other, 3) for one, other in seen]}
            )
    finally:
        for network in networks:
            network.remove()
    return rows


def status(rows):
    """1 if a bound does not hold. What is open has not been shown either way."""
    return int(any(row["verdict"] == "does not hold" for row in rows))


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    shorthaul = os.path.realpath(sys.argv[1])
    # Of fewer, no interval has 95 %.
    pairs = max(int(sys.argv[2]) if len(sys.argv) > 2 else 20, 6)
    size = f"{sys.argv[3] if len(sys.argv) > 3 else 100}M"
    tcp = ("-C", "cubic", "-n", size, "-b", RATE)
    print(f"{'':34} {'us/MB':>8} {'without':>8}   ratio (95 %)")
    # On a file system in memory, as /run is.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        rows = compare(
            shorthaul, place, [("", ()), ("custody = false\n", ())],
            [("custody, 1 flow", 1.05, tcp), ("custody, 8 flows", 1.05, (*tcp[:3], size, "-b", "125M", "-P", "8"))], pairs)
        rows += compare(
            shorthaul, place, [(ALL, ()), (ALL, ("--forward-only",))],
            [("traffic = all, UDP", 1.3, ("-u", "-l", "1400", "-b", DATAGRAMS, "-n", f"{int(size[:-1]) // 2}M")),
             ("traffic = all, TCP", 1.3, tcp)], pairs)
    print(f"load {os.getloadavg()[0]:.1f}")
    print(json.dumps({"bench": "cost", "load": os.getloadavg()[0], "rows": rows}))
    return status(rows)


if __name__ == "__main__":
    sys.exit(main())
