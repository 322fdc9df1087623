"""What the halves of a pair have in common: ZeroMQ sockets, and a loop that reads a
JSON object a line and answers with one.

{"op": "bind", "kind"} and {"op": "connect", "kind", "to"} make sockets; {"op":
"send", "frames"} sends frames (hex); {"op": "recv"} takes a message.
"""

import json
import sys

import zmq


class Messages:
    def __init__(self):
        self.context = zmq.Context()
        self.identity = None

    def bind(self, q):
        self.inward = self.context.socket(getattr(zmq, q["kind"]))
        return {"port": self.inward.bind_to_random_port("tcp://127.0.0.1")}

    def connect(self, q):
        self.outward = self.context.socket(getattr(zmq, q["kind"]))
        self.outward.connect("tcp://" + q["to"])

    def send(self, q):
        self.outward.send_multipart([bytes.fromhex(f) for f in q["frames"]])

    def recv(self, q):
        socket = self.outward if q.get("outward") else self.inward
        if not socket.poll(20000):
            return {"frames": 0}
        frames = socket.recv_multipart()
        if socket.type == zmq.ROUTER:
            self.identity = frames[0]
        return {"frames": len(frames)}


def serve(peer):
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(peer, request["op"])(request) or {}
        print("answer " + json.dumps(answer), flush=True)
