"""One half of a disaggregated pair that writes with UCX, by what is compiled from
bpf/ucp/testdata/peer.c.

Knows nothing of kvwitness. Its folder is its first argument: there lies the library,
and there the halves find each other. Besides what messages.py knows: {"op": "open",
"bytes"} registers memory; {"op": "write", "target", "moves"} puts [from, to, bytes] and
flushes; {"op": "flood", "times"} puts one of them many times; {"op": "around"}
asks for an address at which the other's memory can be written; {"op": "join",
"target"} and {"op": "leave"} make and close the endpoint.
"""

import ctypes
import os
import pathlib
import sys

import messages

folder = pathlib.Path(sys.argv[1])
PUT, FLUSH = 0, 0


class Peer(messages.Messages):
    def open(self, q):
        self.lib = ctypes.CDLL(str(folder / "libucxpeer.so"))
        self.lib.peer_map.restype = ctypes.c_void_p
        self.lib.peer_move.argtypes = [ctypes.c_int] + 3 * [ctypes.c_void_p] + [ctypes.c_uint64, ctypes.c_size_t]
        self.lib.peer_flood.argtypes = 3 * [ctypes.c_void_p] + [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int]
        self.lib.peer_flush.argtypes = [ctypes.c_int, ctypes.c_void_p]
        self.lib.peer_around.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        self.lib.peer_close_endpoint.argtypes = 2 * [ctypes.c_void_p]
        self.endpoint = None
        code = self.lib.peer_open()
        address, key, handle = ctypes.create_string_buffer(8192), ctypes.create_string_buffer(8192), ctypes.c_void_p()
        length = self.lib.peer_address(1, address, ctypes.c_size_t(len(address)))
        room = ctypes.c_size_t(len(key))
        self.base = self.lib.peer_map(ctypes.c_size_t(q["bytes"]), ctypes.byref(handle), key, ctypes.byref(room))
        session = "127.0.0.1:%d" % (os.getpid() % 60000 + 1)
        (folder / (session + ".address")).write_bytes(address.raw[:length])
        (folder / (session + ".key")).write_bytes(key.raw[: room.value])
        return {"code": code, "address": self.base, "session": session}

    def join(self, q):
        if self.endpoint is not None:
            return {}
        endpoint, key = ctypes.c_void_p(), ctypes.c_void_p()
        address, packed = (folder / (q["target"] + end) for end in (".address", ".key"))
        code = self.lib.peer_connect(address.read_bytes(), packed.read_bytes(), ctypes.byref(endpoint), ctypes.byref(key))
        self.endpoint, self.key = endpoint, key
        return {"code": code}

    def leave(self, q):
        code = self.lib.peer_close_endpoint(self.endpoint, self.key)
        self.endpoint = None
        return {"code": code}

    def move(self, q):
        self.join(q)
        code = 0
        for own, other, size in q["moves"]:
            code = code or self.lib.peer_move(PUT, self.endpoint, self.key, self.base + own, other, size)
        return code

    def write(self, q):
        return {"code": self.move(q) or self.lib.peer_flush(FLUSH, self.endpoint)}

    def flood(self, q):
        own, other, size = q["moves"][0]
        return {"code": self.lib.peer_flood(self.endpoint, self.key, self.base + own, other, size, q["times"])}

    def around(self, q):
        self.lib.peer_around(self.key, q["moves"][0][1])


messages.serve(Peer())
