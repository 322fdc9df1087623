"""A subscriber to lifecycle facts, with pyzmq and msgspec, as a consumer of KV
events is written: it knows the three frames and the replay, and nothing else.

Requests: {"op": "connect", "events": endpoint, "replay": endpoint, "topic": str},
{"op": "recv", "batches": n}, {"op": "replay", "from": n}, {"op": "snapshot"}.
Each answer is a line "answer " + JSON.
"""

import json
import sys
from typing import Any, Optional

import msgspec
import zmq

END = b"\xff" * 8


class Batch(msgspec.Struct, array_like=True):
    """As vLLM declares its EventBatch; events are maps."""

    ts: float
    events: list[dict[str, Any]]
    data_parallel_rank: Optional[int] = None


decoder = msgspec.msgpack.Decoder(Batch)


def batch(seq, payload):
    b = decoder.decode(payload)
    return {"seq": int.from_bytes(seq, "big"), "ts": b.ts, "rank": b.data_parallel_rank, "events": b.events}


def ask(sock, what):
    sock.send_multipart([b"", what])
    out = []
    while sock.poll(10000):
        empty, seq, payload = sock.recv_multipart()
        assert empty == b"", empty
        if seq == END:
            assert payload == b"", payload
            return out
        out.append(batch(seq, payload))
    raise TimeoutError("the answer does not end")


def main():
    context = zmq.Context()
    sub = replay = None
    for line in sys.stdin:
        req = json.loads(line)
        op = req["op"]
        answer = {}
        if op == "connect":
            sub = context.socket(zmq.SUB)
            sub.setsockopt(zmq.SUBSCRIBE, req["topic"].encode())
            sub.connect(req["events"])
            replay = context.socket(zmq.DEALER)
            replay.connect(req["replay"])
        elif op == "recv":
            answer["batches"] = []
            for _ in range(req["batches"]):
                if not sub.poll(10000):
                    break
                topic, seq, payload = sub.recv_multipart()
                answer["batches"].append({"topic": topic.decode(), **batch(seq, payload)})
        elif op == "replay":
            answer["batches"] = ask(replay, req["from"].to_bytes(8, "big"))
        elif op == "snapshot":
            answer["batches"] = ask(replay, b"kvw1.snapshot")
        print("answer " + json.dumps(answer), flush=True)


main()
