"""Mooncake's transfer engine over RDMA, told what to do one line at a time.

Knows nothing of kvwitness. {"op": "open", "host", "device", "regions": [bytes]}
registers a buffer for each and answers {"code", "session", "regions": [address]};
{"op": "write", "target", "moves": [[from, to, bytes]], "batch"} answers {"code"}:
0 is success; {"op": "digest"} answers the SHA-256 of each buffer.
"""

import ctypes
import hashlib
import json
import sys

from mooncake.engine import TransferEngine


class Peer:
    def open(self, q):
        self.engine = TransferEngine()
        code = self.engine.initialize(q["host"], "P2PHANDSHAKE", "rdma", q["device"])
        self.buffers = [(ctypes.c_ubyte * n)() for n in q["regions"]]
        addresses = [ctypes.addressof(b) for b in self.buffers]
        for address, size in zip(addresses, q["regions"]):
            code = code or self.engine.register_memory(address, size)
        for i, b in enumerate(self.buffers):
            ctypes.memset(b, q["fill"] and i + 1, len(b))
        return {"code": code, "regions": addresses, "session": "%s:%d" % (q["host"], self.engine.get_rpc_port())}

    def write(self, q):
        if q["batch"]:
            return {"code": self.engine.batch_transfer_sync_write(q["target"], *map(list, zip(*q["moves"])))}
        for source, target, size in q["moves"]:
            code = self.engine.transfer_sync_write(q["target"], source, target, size)
            if code:
                return {"code": code}
        return {"code": 0}

    def digest(self, q):
        return {"code": 0, "digests": [hashlib.sha256(bytes(b)).hexdigest() for b in self.buffers]}


peer = Peer()
for line in sys.stdin:
    request = json.loads(line)
    print("answer " + json.dumps(getattr(peer, request["op"])(request)), flush=True)
