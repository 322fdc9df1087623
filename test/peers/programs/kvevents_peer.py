"""A publisher of KV events with pyzmq and msgspec, in the forms of SGLang and vLLM.

Requests: {"op": "bind", "replay_form": "sglang"|"vllm"} answers {"events": endpoint,
"replay": endpoint}; {"op": "send", "form": form, "seq": n, "hashes": [...], "salt":
str|null, "parent": n|null, "silent": bool} keeps a batch for replay and, unless it is
silent, publishes it. Each answer is a line "answer " + JSON.
"""

import json
import sys
import threading
from typing import Any, Optional, Union

import msgspec
import zmq

END = b"\xff" * 8
TOKENS = [101, 70001, 5]


class SGStored(msgspec.Struct, array_like=True, omit_defaults=True, tag="BlockStored"):
    block_hashes: list[int]
    parent_block_hash: Optional[int]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str] = None
    extra: Optional[dict[str, str]] = None


class SGMapStored(msgspec.Struct, omit_defaults=True, tag="BlockStored"):
    """The same in 0.5.23: maps."""

    block_hashes: list[int]
    parent_block_hash: Optional[int]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str] = None
    cache_salt: Optional[str] = None
    session_id: Optional[str] = None


class SGBatch(msgspec.Struct, array_like=True, omit_defaults=True):
    ts: float
    events: list[Any]
    attn_dp_rank: Optional[int] = None


Hash = Union[bytes, int]


class VStored(msgspec.Struct, array_like=True, omit_defaults=True, tag="BlockStored"):
    """vLLM's events before June 2026."""

    block_hashes: list[Hash]
    parent_block_hash: Optional[Hash]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str] = None
    lora_name: Optional[str] = None
    extra_keys: Optional[list[Optional[tuple[Any, ...]]]] = None


class VMapStored(msgspec.Struct, omit_defaults=True, tag="BlockStored"):
    """The same since: maps."""

    block_hashes: list[Hash]
    token_ids: list[int]
    block_size: int
    parent_block_hash: Optional[Hash] = None
    lora_id: Optional[int] = None
    medium: Optional[str] = None
    extra_keys: Optional[list[Optional[tuple[Any, ...]]]] = None
    group_idx: Optional[int] = None


class VBatch(msgspec.Struct, array_like=True, omit_defaults=True):
    ts: float
    events: list[Any]
    data_parallel_rank: Optional[int] = None


def batch(req):
    hashes, parent, salt = req["hashes"], req["parent"], req["salt"]
    form = req["form"]
    if form == "sglang":
        extra = {"cache_salt": salt} if salt else None
        return SGBatch(1.5, [SGStored(hashes, parent, TOKENS, 3, None, "GPU", extra)], 0)
    if form == "sglang-map":
        return SGBatch(1.5, [SGMapStored(hashes, parent, TOKENS, 3, None, "GPU", salt, "s")], 0)
    if form == "sglang-old":
        return SGBatch(1.5, [SGStored(hashes, parent, TOKENS, 3, None)])
    keys = [(salt,)] + [None] * (len(hashes) - 1) if salt else None
    raw = [h.to_bytes(32, "big") for h in hashes]
    if form == "vllm":
        return VBatch(1.5, [VMapStored(raw, TOKENS, 3, parent and parent.to_bytes(32, "big"), None, "GPU", keys, 0)], 0)
    if form == "vllm-integers":
        return VBatch(1.5, [VMapStored(hashes, TOKENS, 3, parent, None, "GPU", keys)], 0)
    if form == "vllm-old":
        return VBatch(1.5, [VStored(raw, parent and parent.to_bytes(32, "big"), TOKENS, 3, None, "GPU", None, keys)])
    raise ValueError(form)


kept = {}


def serve_replay(router, form):
    while True:
        client, empty, start = router.recv_multipart()
        first = int.from_bytes(start, "big")
        topic = [b""] if form == "vllm" else []
        for seq in sorted(kept):
            if seq >= first:
                router.send_multipart([client, b"", *topic, seq.to_bytes(8, "big"), kept[seq]])
        router.send_multipart([client, b"", *topic, END, b""])


def main():
    context = zmq.Context()
    pub = None
    encoder = msgspec.msgpack.Encoder()
    for line in sys.stdin:
        req = json.loads(line)
        answer = {}
        if req["op"] == "bind":
            pub = context.socket(zmq.PUB)
            port = pub.bind_to_random_port("tcp://127.0.0.1")
            router = context.socket(zmq.ROUTER)
            replay = router.bind_to_random_port("tcp://127.0.0.1")
            threading.Thread(target=serve_replay, args=(router, req["replay_form"]), daemon=True).start()
            answer = {"events": f"tcp://127.0.0.1:{port}", "replay": f"tcp://127.0.0.1:{replay}"}
        elif req["op"] == "send":
            payload = encoder.encode(batch(req))
            if req.get("restart"):
                kept.clear()
            kept[req["seq"]] = payload
            if req.get("forget"):
                del kept[req["seq"]]
            if not req.get("silent"):
                pub.send_multipart([b"", req["seq"].to_bytes(8, "big"), payload])
        print("answer " + json.dumps(answer), flush=True)


main()
