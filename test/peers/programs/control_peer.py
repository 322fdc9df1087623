"""Control messages in the layouts of SGLang and vLLM, built and read in Python.

The layouts are written out here a second time, with struct, msgspec and the
same calls to pyzmq that the engines make, so that the Go side is held against
something that is not itself. One line of JSON a request:
{"op": "bind"} answers {"endpoint"} of a PULL; {"op": "connect", "to"} makes a
PUSH; {"op": "send", "kind", ...fields}; {"op": "recv"} answers the fields of
the next message; {"op": "encode"|"decode", "struct", ...} speaks msgspec.
"""

import json
import struct
import sys
from typing import Optional

import msgspec
import zmq


class Transfer(msgspec.Struct, omit_defaults=True):
    remote_hostname: str
    remote_port: int
    remote_tp_size: int
    remote_tp_rank: int
    req_blocks: dict[str, tuple[str, list[list[int]]]]
    kv_caches_base_addr: list[int]
    block_lens: list[int]
    kv_block_lens: list[int]
    registered_layer_names: list[str] = msgspec.field(default_factory=list)
    registered_layer_indices: list[int] = msgspec.field(default_factory=list)
    registered_group_indices: list[int] = msgspec.field(default_factory=list)


class Reply(msgspec.Struct, omit_defaults=True):
    status: int
    ok_reqs: Optional[list[str]] = None
    err_reqs: Optional[list[str]] = None
    err_msg: Optional[str] = None


STRUCTS = {"transfer": Transfer, "reply": Reply}


def text(value):
    return str(value).encode("ascii")


def flat(fmt, values):
    return struct.pack("<%d%s" % (len(values), fmt), *values)


def nested(fmt, lists):
    if not lists:
        return b""
    bodies = [flat(fmt, values) for values in lists]
    return flat("I", [len(bodies)] + [len(b) for b in bodies]) + b"".join(bodies)


def unflat(fmt, body):
    return list(struct.unpack("<%d%s" % (len(body) // struct.calcsize(fmt), fmt), body))


def unnested(fmt, body):
    if not body:
        return []
    (count,) = struct.unpack("<I", body[:4])
    sizes = unflat("I", body[4 : 4 + 4 * count])
    out, at = [], 4 + 4 * count
    for size in sizes:
        out.append(unflat(fmt, body[at : at + size]))
        at += size
    return out


def registration(q):
    return [
        b"None", text(q["host"]), text(q["port"]), text(q["session"]),
        flat("Q", q["kv_ptrs"]), flat("Q", q["aux_ptrs"]), nested("Q", q["state_ptrs"]),
        text(q["tp_rank"]), text(q["tp_size"]), text(q["item"]),
        nested("I", q["state_items"]), nested("I", q["state_dims"]),
        flat("I", q["layers"]), nested("I", q["state_layers"]),
        struct.pack("<Q", q["staging"]), text(q["staging_size"]), text(2), text(1), flat("Q", q["slots"]),
    ]


def request(q):
    return [
        text(q["room"]), text(q["host"]), text(q["port"]), text(q["session"]),
        flat("i", q["pages"]), text(q["aux"]), nested("i", q["state"]),
        text(1), text(q["prefix"]), flat("i", q["device"]),
    ]


def read(m):
    tag = m[0].decode("ascii")
    if tag == "None":
        return {
            "kind": "registration", "host": m[1].decode(), "port": int(m[2]), "session": m[3].decode(),
            "kv_ptrs": unflat("Q", m[4]), "aux_ptrs": unflat("Q", m[5]), "state_ptrs": unnested("Q", m[6]),
            "tp_rank": int(m[7]), "tp_size": int(m[8]), "item": int(m[9]),
            "state_items": unnested("I", m[10]), "state_dims": unnested("I", m[11]),
            "layers": unflat("I", m[12]), "state_layers": unnested("I", m[13]),
            "staging": struct.unpack("<Q", m[14])[0], "staging_size": int(m[15]),
            "dcp": [int(m[16]), int(m[17])], "slots": unflat("Q", m[18]),
        }
    if tag == "ABORT":
        return {"kind": "abort", "room": int(m[1]), "host": m[2].decode(), "port": int(m[3])}
    if tag == "ABORT_ACK":
        return {"kind": "ack", "room": int(m[1]), "rank": int(m[2]) if len(m) > 2 else None}
    if tag == "CHUNK_READY":
        return {"kind": "chunk", "room": int(m[1]), "chunk": int(m[2]), "start": int(m[3]), "pages": int(m[4]),
                "session": m[5].decode(), "rank": int(m[6])}
    if tag == "AUX_DATA":
        return {"kind": "aux", "room": int(m[1]), "length": struct.unpack(">I", m[4])[0], "body": len(m[5])}
    if len(m) <= 4:
        return {"kind": "status", "room": int(m[0]), "status": int(m[1]), "rank": int(m[2])}
    return {
        "kind": "request", "room": int(m[0]), "host": m[1].decode(), "port": int(m[2]), "session": m[3].decode(),
        "pages": unflat("i", m[4]), "aux": int(m[5]) if m[5] else None, "state": unnested("i", m[6]),
        "required": int(m[7]), "prefix": int(m[8]), "device": unflat("i", m[9]), "dummy": m[4] == b"" and m[5] == b"",
    }


BUILD = {
    "registration": registration,
    "request": request,
    "dummy": lambda q: [text(q["room"]), b"h", b"1", b"s", b"", b"", b"", b"1", b"0", b""],
    "abort": lambda q: [b"ABORT", text(q["room"]), text(q["host"]), text(q["port"])],
    "status": lambda q: [text(q["room"]), text(q["status"]), text(q["rank"])],
    "ack": lambda q: [b"ABORT_ACK", text(q["room"]), text(q["rank"])],
    "aux": lambda q: [b"AUX_DATA", text(q["room"]), b"0", b"7", struct.pack(">I", q["length"]), bytes(q["length"])],
    "chunk": lambda q: [b"CHUNK_READY", text(q["room"]), b"1", b"64", b"8", b"s", b"3"],
    "staging": lambda q: [b"STAGING_REQ", text(q["room"]), b"1", b"8", b"s", b"0"],
    "grant": lambda q: [b"STAGING_RSP", text(q["room"]), b"1", b"4096", b"2", b"8192", b"s"],
    "watermark": lambda q: [b"WATERMARK", b"2", b"4096", b"s"],
}


def answer(state, req):
    op = req["op"]
    if op == "bind":
        state["pull"] = state["context"].socket(zmq.PULL)
        state["pull"].bind("tcp://127.0.0.1:*")
        return {"endpoint": state["pull"].getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()}
    if op == "connect":
        state["push"] = state["context"].socket(zmq.PUSH)
        state["push"].connect(req["to"])
    elif op == "send":
        state["push"].send_multipart(BUILD[req["kind"]](req))
    elif op == "recv":
        if state["pull"].poll(10000):
            return read(state["pull"].recv_multipart())
        return {"kind": "nothing"}
    elif op == "encode":
        return {"hex": msgspec.msgpack.encode(msgspec.convert(req["value"], STRUCTS[req["struct"]])).hex()}
    elif op == "decode":
        value = msgspec.msgpack.decode(bytes.fromhex(req["hex"]), type=STRUCTS[req["struct"]])
        return {"value": msgspec.to_builtins(value)}
    return {}


def main():
    state = {"context": zmq.Context()}
    for line in sys.stdin:
        print("answer " + json.dumps(answer(state, json.loads(line))), flush=True)


main()
