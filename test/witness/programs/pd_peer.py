"""One half of a disaggregated pair: Mooncake moves its pages, and it says to its peer
what SGLang, or vLLM's Mooncake connector, says.

Knows nothing of kvwitness. Reads a JSON object a line and answers with one:
{"op": "open", "host", "protocol", "device", "bytes"} registers a buffer; {"op":
"renew"} registers it anew; {"op": "map", "value"} sends vLLM's map; {"op": "write",
"target", "moves"} lets Mooncake write [from, to, bytes]; and what messages.py knows.
"""

import ctypes
from typing import Optional

import messages
import msgspec
from mooncake.engine import TransferEngine


class Transfer(msgspec.Struct, omit_defaults=True):
    remote_hostname: str
    remote_port: int
    remote_tp_size: int
    remote_tp_rank: int
    req_blocks: dict[str, tuple[str, list[list[int]]]]
    kv_caches_base_addr: list[int]
    block_lens: list[int]
    kv_block_lens: list[int]


class Reply(msgspec.Struct, omit_defaults=True):
    status: int
    ok_reqs: Optional[list[str]] = None
    err_reqs: Optional[list[str]] = None
    err_msg: Optional[str] = None


class Peer(messages.Messages):
    def open(self, q):
        self.engine = TransferEngine()
        code = self.engine.initialize(q["host"], "P2PHANDSHAKE", q["protocol"], q["device"])
        self.buffer = (ctypes.c_ubyte * q["bytes"])()
        self.base = ctypes.addressof(self.buffer)
        code = code or self.engine.register_memory(self.base, q["bytes"])
        return {"code": code, "address": self.base, "session": "%s:%d" % (q["host"], self.engine.get_rpc_port())}

    def renew(self, q):
        code = self.engine.unregister_memory(self.base)
        return {"code": code or self.engine.register_memory(self.base, len(self.buffer))}

    def map(self, q):
        body = msgspec.msgpack.encode(msgspec.convert(q["value"], Reply if "status" in q["value"] else Transfer))
        if self.identity is None:
            self.outward.send(body)
        else:
            self.inward.send_multipart([self.identity, body])

    def write(self, q):
        for source, target, size in q["moves"]:
            code = self.engine.transfer_sync_write(q["target"], self.base + source, target, size)
            if code:
                return {"code": code}
        return {"code": 0}


messages.serve(Peer())
