#!/usr/bin/env python3
"""What a second worker gives a gateway, and what it costs: eight flows of four hosts, two of each worker, by turns with one worker and with
two.

The ends run on the same machine, so that on two cores a second worker adds little to what passes. What says more is the processor time
of the threads with the packets for a megabyte: as long as that does not grow with their number, as many workers on as many cores carry as
many times as much. It is taken as fast as can be, where a round has many packets, and at a rate that none has to hurry for, where each packet
wakes its worker. From the former, and from how evenly hosts are shared, the last line says what 16 would carry. That knows nothing of memory
bandwidth, of locks in the kernel that two do not feel, or of a network card's queues.

Usage: bench/workers.py SHORTHAUL [PAIRS [MEGABYTES [SECONDS]]]. Needs root, iproute2 and iperf3. Ends with one line of JSON.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

from cost import interval, run

HOSTS = 4
FLOWS_OF_EACH = 2
PACED = "125M"  # of each flow: eight make 1 Gbit/s
MANY = 16
GOLDEN = 0x9E3779B97F4A7C15


class Network:
    """Hosts, a gateway and a server, each a namespace; veth pairs between them."""

    def __init__(self, tag, shorthaul, place, *flags):
        self.tag, self.children, self.shorthaul, self.place = tag, [], shorthaul, place
        self.clients = [f"c{number}" for number in range(HOSTS)]
        for host in ["g", "s", *self.clients]:
            run("ip", "netns", "add", tag + host)
            self.ip(host, "link", "set", "lo", "up")
        for number, end in enumerate([*self.clients, "s"], 1):
            device = "to-" + end
            run("ip", "link", "add", "e0", "netns", tag + end, "type", "veth", "peer", "name", device, "netns", tag + "g")
            self.ip(end, "addr", "add", f"10.79.{number}.2/24", "dev", "e0")
            self.ip("g", "addr", "add", f"10.79.{number}.1/24", "dev", device)
            self.ip(end, "link", "set", "e0", "up")
            self.ip("g", "link", "set", device, "up")
            self.ip(end, "route", "add", "default", "via", f"10.79.{number}.1")
        self.server = f"10.79.{HOSTS + 1}.2"
        run("ip", "netns", "exec", tag + "g", "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for number in range(HOSTS):
            self.start("s", "iperf3", "-s", "-p", str(5201 + number))
        access = [word for end in self.clients for word in ("--access", "to-" + end)]
        words = ["gateway", *access, "--wan", "to-s", "--run-dir", place, "--control-group", "0", *flags]
        self.gateway = self.start("g", shorthaul, *words)
        said = []
        for line in self.gateway.stdout:
            said.append(line)
            if line.startswith("ready"):
                return
        raise SystemExit("a gateway did not start:\n" + "".join(said))

    def ip(self, host, *words):
        run("ip", "-n", self.tag + host, *words)

    def start(self, host, *words):
        # What nobody reads would fill a pipe, and hold up whoever writes.
        said = subprocess.PIPE if host == "g" else subprocess.DEVNULL
        child = subprocess.Popen(["ip", "netns", "exec", self.tag + host, *words], stdout=said, stderr=subprocess.STDOUT, text=True)
        self.children.append(child)
        return child

    def on_processor(self):
        """For how long each thread with packets was on a processor, in nanoseconds."""
        tasks, spent = f"/proc/{self.gateway.pid}/task", []
        for task in sorted(os.listdir(tasks), key=int):
            with open(f"{tasks}/{task}/comm") as file:
                has_packets = int(task) == self.gateway.pid or file.read().startswith("worker-")
            if has_packets:
                with open(f"{tasks}/{task}/schedstat") as file:
                    spent.append(int(file.read().split()[0]))
        return spent

    def packets(self):
        """Packets that each worker had."""
        said = run(self.shorthaul, "flows", "--json", "--workers", "--run-dir", self.place)
        return [worker.get("packets_in", 0) for worker in json.loads(said)]

    def measure(self, *flags):
        """All hosts download at once: Gbit/s together, and of each worker nanoseconds of a processor and packets; and bytes."""
        before, had, began = self.on_processor(), self.packets(), time.monotonic()
        clients = []
        for number, end in enumerate(self.clients):
            words = ["iperf3", "-c", self.server, "-p", str(5201 + number), "-R", "-J", "-C", "cubic", "-P", str(FLOWS_OF_EACH), *flags]
            clients.append(subprocess.Popen(["ip", "netns", "exec", self.tag + end, *words], stdout=subprocess.PIPE, text=True))
        ends = [json.loads(client.communicate(timeout=300)[0])["end"]["sum_received"] for client in clients]
        took = time.monotonic() - began
        spent = [after - former for after, former in zip(self.on_processor(), before)]
        packets = [after - former for after, former in zip(self.packets(), had)]
        received = sum(end["bytes"] for end in ends)
        return {"gbit_s": sum(end["bits_per_second"] for end in ends) / 1e9, "spent": spent, "packets": packets, "bytes": received, "took": took}

    def remove(self):
        for child in self.children:
            child.terminate()
        for child in self.children:
            try:
                child.wait(timeout=60)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for host in ["g", "s", *self.clients]:
            subprocess.run(["ip", "netns", "del", self.tag + host], capture_output=True)


def fullest(hosts, workers):
    """How many times its fair part the worker has that has most of so many hosts in a row, as crates/dataplane/src/steering.rs shares them."""
    counts = [0] * workers
    for number in range(hosts):
        product = (0x0A010001 + number) * GOLDEN % 2**64
        counts[(product >> 32) * workers >> 32] += 1
    return max(counts) * workers / hosts


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    shorthaul = os.path.realpath(sys.argv[1])
    pairs, megabytes, seconds = (int(sys.argv[at]) if len(sys.argv) > at else usual for at, usual in ((2, 8), (3, 100), (4, 3)))
    paced = ("-b", PACED, "-n", f"{megabytes // (HOSTS * FLOWS_OF_EACH)}M")
    result = {"bench": "workers", "pairs": pairs}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        networks = []
        try:
            for workers in (1, 2):
                own = os.path.join(place, str(workers))
                networks.append(Network(f"shw{os.getpid()}{workers}", shorthaul, own, "--workers", str(workers)))
            time.sleep(0.5)
            fast, cheap = ([], []), ([], [])
            for number in range(pairs + 1):
                for side in (0, 1) if number % 2 == 0 else (1, 0):
                    one, other = networks[side].measure("-t", str(seconds)), networks[side].measure(*paced)
                    if number > 0:  # the first warms up
                        fast[side].append(one)
                        cheap[side].append(other)
        finally:
            for network in networks:
                network.remove()
    middle = lambda values: sorted(values)[len(values) // 2]
    rates = [[one["gbit_s"] for one in side] for side in fast]
    # Microseconds a megabyte, and nanoseconds a packet.
    hurried, costs = ([[sum(one["spent"]) / one["bytes"] * 1e3 for one in side] for side in runs] for runs in (fast, cheap))
    hurried_packets, packets = ([[sum(one["spent"]) / sum(one["packets"]) for one in side] for side in runs] for runs in (fast, cheap))
    sizes = [middle([one["bytes"] / sum(one["packets"]) for one in side]) for side in fast]
    shares = middle([max(one["packets"]) / sum(one["packets"]) for one in fast[1]])
    full = [middle([sum(one["spent"]) / one["took"] / 1e9 for one in side]) for side in fast]
    rows = (
        ("as fast as can be", "Gbit/s", rates), ("as fast as can be", "us/MB", hurried), ("as fast as can be", "ns/packet", hurried_packets),
        ("paced, 1 Gbit/s", "us/MB", costs), ("paced, 1 Gbit/s", "ns/packet", packets),
    )
    print(f"{'':31} {'1 worker':>9} {'2 workers':>9}   ratio (95 %)")
    for name, unit, (one, two) in rows:
        ratio, least, most = interval([b / a for a, b in zip(one, two)])
        print(f"{name:20} {unit:10} {middle(one):9.2f} {middle(two):9.2f}   {ratio:.3f} ({least:.3f} to {most:.3f})", flush=True)
        result[f"{name}, {unit}"] = {"one": middle(one), "two": middle(two), "ratio": ratio, "interval": [least, most]}
    print(f"the busier of two workers had {shares:.1%} of the packets; processors of all workers: {full[0]:.2f} with one, {full[1]:.2f} with two")
    growth = max(result["as fast as can be, us/MB"]["ratio"], 1.0)
    # What a worker carries that has a processor of its own, and how much more 16 do if each pair's growth came again with each doubling.
    own = 8e3 / result["as fast as can be, us/MB"]["one"]
    spread = fullest(100 * MANY, MANY)
    model = {"one_gbit_s": own, "linear_gbit_s": own * MANY / spread, "growing_gbit_s": own * MANY / spread / growth**4, "fullest": spread}
    print(f"model: a worker with a core of its own {own:.1f} Gbit/s (packets of {sizes[0]:.0f} bytes on average); {MANY} of them {model['linear_gbit_s']:.0f},"
          f" or {model['growing_gbit_s']:.0f} if what two cost more came again with each doubling; the fullest has {spread:.2f} of its fair part")
    result |= {"busier_share": shares, "processors": full, "packet_bytes": sizes, "model": model, "load": os.getloadavg()[0]}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
