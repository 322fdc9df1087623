"""One half of a disaggregated pair whose pages lie in memory of the CUDA driver.

Knows nothing of kvwitness. {"op": "load", "path"} loads a libcuda; {"op": "alloc",
"bytes"} allocates; {"op": "lend", "address"} gives the handle (hex) by which another
process opens memory; and what messages.py knows.
"""

import ctypes

import messages


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Peer(messages.Messages):
    def load(self, q):
        self.driver = ctypes.CDLL(q["path"])

    def alloc(self, q):
        at = ctypes.c_uint64()
        code = self.driver.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(q["bytes"]))
        return {"code": code, "address": at.value}

    def lend(self, q):
        handle = Handle()
        code = self.driver.cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(q["address"]))
        return {"code": code, "session": bytes(handle.bytes).hex()}


messages.serve(Peer())
