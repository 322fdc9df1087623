"""One half of a disaggregated pair whose pages lie in memory of the CUDA driver.

Knows nothing of kvwitness. {"op": "load", "path"} loads a libcuda; {"op": "alloc",
"bytes"} allocates; {"op": "lend", "address"} gives the handle (hex) by which another
process opens memory; {"op": "share", "bytes"} creates memory and gives the descriptor by
which another process imports it; {"op": "copy", "to", "from", "bytes"} copies; and what messages.py knows.
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

    def share(self, q):
        on_device = (ctypes.c_int * 8)(1, 0, 1, 0)
        handle, fd = ctypes.c_uint64(), ctypes.c_int()
        code = self.driver.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(q["bytes"]), on_device, ctypes.c_uint64(0))
        code = code or self.driver.cuMemExportToShareableHandle(ctypes.byref(fd), handle, 1, ctypes.c_uint64(0))
        return {"code": code, "address": fd.value}

    def copy(self, q):
        args = [ctypes.c_uint64(q["to"]), ctypes.c_uint64(q["from"]), ctypes.c_size_t(q["bytes"]), None]
        return {"code": self.driver.cuMemcpyDtoDAsync_v2(*args)}


messages.serve(Peer())
