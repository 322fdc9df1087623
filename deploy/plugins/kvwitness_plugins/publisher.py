"""Publishes facts of format v1: PUB with [topic, number, batch], and a ROUTER beside it
for replay and snapshots. The engine never waits: what is not taken in time is dropped,
which a subscriber sees as a gap in the facts' own numbers.
"""

import collections
import os
import threading
import time
import urllib.parse

import msgspec
import zmq

# Facts that hold until their request, or their room, has ended.
HOLD = {"request_admitted", "pages_reserved", "pages_shared", "transfer_started"}
ENDS = {"request_finished", "transfer_completed"}
END = b"\xff" * 8
SNAPSHOT = b"kvw1.snapshot"
MAX_WAITING = 100_000  # facts that wait to be published
MAX_BATCH = 4096  # facts in one batch
MAX_KEPT = 2048  # batches kept for replay
MAX_OPEN = 20_000  # facts kept of requests and rooms that have not ended
TURN = 0.002  # seconds between batches
PULSE = 1.0  # seconds after which something is said


def default_dir():
    if os.path.isdir("/run/kvwitness"):
        return "/run/kvwitness"
    return f"/tmp/kvwitness-{os.geteuid()}"


def endpoints(directory, instance):
    name = os.path.join(directory, urllib.parse.quote(instance, safe="$&+=:@"))
    return f"ipc://{name}.events", f"ipc://{name}.replay"


def runs(pages):
    """Page ids as runs [[first, count], ...] in their order."""
    out = []
    for page in pages:
        page = int(page)
        if out and out[-1][0] + out[-1][1] == page:
            out[-1][1] += 1
        else:
            out.append([page, 1])
    return out


class Publisher:
    """One instance's stream. tell() may be called from any thread."""

    def __init__(self, instance, directory=None, rank=None):
        self.instance, self.rank = instance, rank
        self.epoch = time.time_ns()
        self.waiting = collections.deque(maxlen=MAX_WAITING)
        self.lock = threading.Lock()
        self.seq = 0  # of the next fact
        self.batch = 0  # of the next batch
        self.kept = collections.deque(maxlen=MAX_KEPT)
        self.pools = {}  # name to the fact that opened it
        self.protections = {}
        self.open = {}  # room or request to its facts that hold
        self.opened = 0
        self.encode = msgspec.msgpack.Encoder().encode
        directory = directory or default_dir()
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self.events, self.replay = endpoints(directory, instance)
        self.context = zmq.Context()
        self.pub = self._bind(zmq.PUB, self.events)
        self.router = self._bind(zmq.ROUTER, self.replay)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="kvwitness", daemon=True)
        self.thread.start()

    def _bind(self, kind, endpoint):
        socket = self.context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.bind(endpoint)
        os.chmod(endpoint.removeprefix("ipc://"), 0o600)
        return socket

    def tell(self, ev, **fields):
        """A fact, now. Fields that are None are not said."""
        fact = {"t": time.monotonic_ns(), "inst": self.instance, "src": "engine", "ev": ev, "epoch": self.epoch}
        fact.update((k, v) for k, v in fields.items() if v is not None)
        with self.lock:
            fact["seq"] = self.seq
            self.seq += 1
            if ev == "pool_opened":
                self.pools[fact["pool"]] = fact
            elif ev == "protection":
                self.protections[fact["name"]] = fact
            self._hold(fact)
            self.waiting.append(fact)

    def _hold(self, fact):
        """Notes what a snapshot must say. self.lock is held."""
        whose = fact.get("room") or fact.get("req")
        if fact["ev"] in HOLD and self.opened < MAX_OPEN:
            self.open.setdefault(whose, []).append(fact)
            self.opened += 1
        elif fact["ev"] == "pages_released":
            gone = [f for f in self.open.get(whose, []) if f["ev"] in ("pages_reserved", "pages_shared") and f["pool"] == fact["pool"]]
            for f in gone:  # a request gives back all of a pool at once
                self.open[whose].remove(f)
            self.opened -= len(gone)
        elif fact["ev"] in ENDS:
            self.opened -= len(self.open.pop(whose, []))

    def _watermark(self, last):
        mark = {"t": time.monotonic_ns(), "inst": self.instance, "src": "engine", "ev": "watermark", "of": "engine", "epoch": self.epoch}
        if last is not None:
            mark["seq"] = last
        return mark

    def _take(self):
        with self.lock:
            n = min(len(self.waiting), MAX_BATCH)
            return [self.waiting.popleft() for _ in range(n)]

    def _publish(self, facts):
        payload = self.encode([time.time(), facts, self.rank])
        number = self.batch.to_bytes(8, "big")
        self.kept.append((self.batch, payload))
        self.batch += 1
        self.pub.send_multipart([b"kvw1@" + self.instance.encode(), number, payload], flags=zmq.NOBLOCK)

    def _snapshot(self):
        """What holds after the last batch: pools, protections, and what has not ended,
        without numbers."""
        last = None
        for fact in self.last_told:
            last = fact["seq"]
        facts = [self._watermark(last)]
        with self.lock:
            held = sorted((f for facts in self.open.values() for f in facts), key=lambda f: f["seq"])
            for fact in [*self.pools.values(), *self.protections.values(), *held]:
                if last is not None and fact["seq"] <= last:
                    facts.append({k: v for k, v in fact.items() if k != "seq"})
        return self.batch - 1, self.encode([time.time(), facts, self.rank])

    def _answer(self):
        client, *request = self.router.recv_multipart()
        if len(request) != 2 or request[0] != b"":
            return
        answers = []
        if request[1] == SNAPSHOT:
            answers = [self._snapshot()]
        elif len(request[1]) == 8:
            first = int.from_bytes(request[1], "big")
            answers = [kept for kept in self.kept if kept[0] >= first]
        for number, payload in answers:
            self.router.send_multipart([client, b"", number.to_bytes(8, "big"), payload])
        self.router.send_multipart([client, b"", END, b""])

    def _run(self):
        self.last_told = []
        self._publish([self._pulse()])
        said = time.monotonic()
        while not self.stopping.is_set():
            facts = self._take()
            if not facts and time.monotonic() - said > PULSE:
                facts = [self._pulse()]
            if facts:
                said = time.monotonic()
                self.last_told = [f for f in facts if f["ev"] != "watermark"] or self.last_told
                self._publish(facts)
            try:
                while self.router.poll(0):
                    self._answer()
            except zmq.ZMQError:
                pass  # who asked has left
            time.sleep(TURN)

    def _pulse(self):
        with self.lock:
            last = self.seq - 1 - len(self.waiting) if self.seq else -1
        return self._watermark(last if last >= 0 else None)

    def close(self):
        self.stopping.set()
        self.thread.join()
        self.pub.close()
        self.router.close()
        self.context.term()
