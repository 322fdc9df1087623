"""One half of a disaggregated pair that writes over RDMA verbs, of a stub.

Knows nothing of kvwitness. Its folder of libraries is its first argument. Besides
what messages.py knows: {"op": "device", "provider"} opens a device; {"op": "pair",
"device", "number", "to"} connects a queue pair; {"op": "post", "pair", "moves",
"read"} hands it [from, to, bytes] as one chain; {"op": "ring", ...} writes without
post_send; {"op": "flood", "times", "moves"}; {"op": "poll"}, {"op": "close"},
{"op": "destroy"}, {"op": "register"}; {"op": "direct"} asks the provider for a doorbell,
{"op": "transport"} lets a library do so that is called as one of UCX's; {"op": "load"}
loads a library.
"""

import ctypes
import itertools
import socket
import sys

import messages

folder = sys.argv[1]


def library(name):
    lib = ctypes.CDLL(folder + "/" + name)
    lib.stub_new_qp.restype = ctypes.c_void_p
    lib.stub_new_qp.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    lib.stub_ring.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    return lib


class Peer(messages.Messages):
    def device(self, q):
        if not hasattr(self, "lib"):
            self.lib = ctypes.CDLL(folder + "/libpeer.so")
            self.lib.peer_open.restype = ctypes.c_void_p
            self.lib.peer_open.argtypes = [ctypes.c_void_p]
            for name in ("peer_close", "peer_connect", "peer_destroy", "peer_post", "peer_flood", "peer_poll"):
                f = getattr(self.lib, name)
                f.argtypes = {
                    "peer_connect": [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p],
                    "peer_post": [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int],
                    "peer_flood": [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p],
                }.get(name, [ctypes.c_void_p])
            self.lib.peer_register.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
            self.devices, self.pairs = {}, {}
        provider = library(q.get("provider", "libstub-rdmav34.so"))
        make = ctypes.cast(provider.stub_new_context, ctypes.c_void_p)
        self.devices[q["device"]] = (provider, self.lib.peer_open(make))

    def pair(self, q):
        provider, context = self.devices[q["device"]]
        qp = provider.stub_new_qp(context, q["number"])
        gid = bytes(10) + b"\xff\xff" + socket.inet_aton(q.get("host", "127.0.0.1"))
        self.lib.peer_connect(qp, q["to"], gid)
        self.pairs[q["pair"]] = (provider, qp)

    def moves(self, q):
        flat = list(itertools.chain.from_iterable(q["moves"]))
        return len(q["moves"]), (ctypes.c_uint64 * len(flat))(*flat)

    def post(self, q):
        n, moves = self.moves(q)
        return {"code": self.lib.peer_post(self.pairs[q["pair"]][1], n, moves, 4 if q.get("read") else 0)}

    def flood(self, q):
        n, moves = self.moves(q)
        self.lib.peer_flood(self.pairs[q["pair"]][1], q["times"], n, moves)

    def ring(self, q):
        provider, qp = self.pairs[q["pair"]]
        for _ in q["moves"]:
            provider.stub_ring(qp, 99)

    def load(self, q):
        ctypes.CDLL(q["library"])

    def transport(self, q):
        ctypes.CDLL(folder + "/libuct_stub.so").transport_direct()

    def direct(self, q):
        self.devices[q["device"]][0].mlx5dv_init_obj(None, ctypes.c_uint64(1))

    def poll(self, q):
        self.lib.peer_poll(self.devices[q["device"]][1])

    def register(self, q):
        self.lib.peer_register(q["address"], q["bytes"])

    def destroy(self, q):
        self.lib.peer_destroy(self.pairs.pop(q["pair"])[1])

    def close(self, q):
        self.lib.peer_close(self.devices.pop(q["device"])[1])


messages.serve(Peer())
