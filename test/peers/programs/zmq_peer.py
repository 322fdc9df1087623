"""A libzmq socket that does what it is told, one line of JSON at a time.

Requests: {"op": "socket", "type": "PUB", "bind"|"connect": endpoint,
"identity": str}, {"op": "subscribe", "prefix": hex}, {"op": "send", "frames":
[...]}, {"op": "recv", "ms": int}. A frame is {"hex": str} or {"size": n,
"seed": s}: n bytes of a pattern. Each answer is a line "answer " + JSON.
"""

import hashlib
import json
import sys

import zmq


def pattern(size, seed):
    block = bytes((i * 7 + seed) & 255 for i in range(256))
    return (block * (size // 256 + 1))[:size]


def frame(spec):
    return bytes.fromhex(spec["hex"]) if "hex" in spec else pattern(spec["size"], spec["seed"])


def describe(body):
    out = {"size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    if len(body) <= 1024:
        out["hex"] = body.hex()
    return out


def main():
    context = zmq.Context()
    sock = None
    for line in sys.stdin:
        req = json.loads(line)
        op = req["op"]
        answer = {}
        if op == "socket":
            sock = context.socket(getattr(zmq, req["type"]))
            sock.setsockopt(zmq.LINGER, 5000)
            if "identity" in req:
                sock.setsockopt(zmq.IDENTITY, req["identity"].encode())
            if req.get("heartbeat"):
                sock.setsockopt(zmq.HEARTBEAT_IVL, req["heartbeat"])
                sock.setsockopt(zmq.HEARTBEAT_TIMEOUT, 5 * req["heartbeat"])
            if "bind" in req:
                sock.bind(req["bind"])
                answer["endpoint"] = sock.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
            else:
                sock.connect(req["connect"])
        elif op == "subscribe":
            sock.setsockopt(zmq.SUBSCRIBE, bytes.fromhex(req["prefix"]))
        elif op == "unsubscribe":
            sock.setsockopt(zmq.UNSUBSCRIBE, bytes.fromhex(req["prefix"]))
        elif op == "send":
            for _ in range(req.get("times", 1)):
                sock.send_multipart([frame(f) for f in req["frames"]])
        elif op == "recv":
            if sock.poll(req.get("ms", 10000)):
                answer["frames"] = [describe(f) for f in sock.recv_multipart()]
        elif op == "close":
            sock.close()
            context.term()
        print("answer " + json.dumps(answer), flush=True)


main()
