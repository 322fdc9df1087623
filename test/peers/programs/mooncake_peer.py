"""Mooncake's transfer engine over TCP, told what to do one line at a time.

{"op": "open", "bytes": n} answers {"endpoint", "address"} of a registered
buffer; {"op": "fill", "value": v}; {"op": "digest"}; {"op": "write"|"read",
"target", "from", "to", "bytes"} answers {"code"}: 0 is success.
"""

import ctypes
import hashlib
import json
import sys

from mooncake.engine import TransferEngine


def main():
    engine = TransferEngine()
    buffer, base = None, 0
    for line in sys.stdin:
        req = json.loads(line)
        op, answer = req["op"], {}
        if op == "open":
            code = engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "")
            buffer = (ctypes.c_ubyte * req["bytes"])()
            base = ctypes.addressof(buffer)
            code = code or engine.register_memory(base, req["bytes"])
            answer = {"code": code, "address": base, "endpoint": "127.0.0.1:%d" % engine.get_rpc_port()}
        elif op == "fill":
            pattern = bytes((i * 7 + i // 256 + req["value"]) & 255 for i in range(len(buffer)))
            ctypes.memmove(base, pattern, len(buffer))
        elif op == "digest":
            answer = {"sha256": hashlib.sha256(bytes(buffer)).hexdigest()}
        elif op == "write":
            answer = {"code": engine.transfer_sync_write(req["target"], base + req["from"], req["to"], req["bytes"])}
        elif op == "read":
            answer = {"code": engine.transfer_sync_read(req["target"], base + req["to"], req["from"], req["bytes"])}
        print("answer " + json.dumps(answer), flush=True)


main()
