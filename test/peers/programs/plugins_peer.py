"""Engines of few words that load the plugins of deploy/plugins as SGLang and vLLM do:
through their entry points, with classes of the same names and members as the hooks use.

Requests: {"op": "sglang", "instance": str, "dir": str, "peers": str} and {"op": "vllm",
"instance": str, "dir": str} load a plugin; {"op": "receive", "room": n, "pages": [...]},
{"op": "abort", "room": n}, {"op": "status", "room": n, "status": n}, {"op": "commit",
"room": n}, {"op": "allocate", "req": str, "blocks": [...], "cached": [...]}, {"op":
"free", "req": str} play. Each answer is a line "answer " + JSON.
"""

import json
import os
import sys
import types

sys.path.insert(0, os.environ["PLUGINS"])


class Thing:
    def __init__(self, **members):
        self.__dict__.update(members)


def module(name, **members):
    m = types.ModuleType(name)
    m.__dict__.update(members)
    sys.modules[name] = m
    return m


class Registry:
    """As SGLang's: hooks by dotted path, each called with what it wraps."""

    hooks = {}

    @classmethod
    def register(cls, target, fn, kind):
        assert kind == "around", kind
        cls.hooks[target] = fn

    @classmethod
    def call(cls, end, *args, **named):
        [fn] = [fn for target, fn in cls.hooks.items() if target.endswith("." + end)]
        return fn(lambda *a, **n: "original", *args, **named)


class KVCacheManager:
    """As vLLM's, as far as the plugin goes."""

    def __init__(self):
        group = Thing(kv_cache_spec=Thing(block_size=16))
        self.max_model_len = 1024
        self.kv_cache_config = Thing(num_blocks=100, kv_cache_groups=[group])
        self.block_pool = Thing(blocks=[Thing(ref_cnt=0, block_hash=None) for _ in range(100)])
        self.tables = {}

    def allocate_slots(self, request, num_new_tokens, num_new_computed_tokens=0, new_computed_blocks=None):
        blocks, cached = num_new_tokens, [b.block_id for b in new_computed_blocks.blocks[0]]
        for b in blocks + cached:
            self.block_pool.blocks[b].ref_cnt += 1
            self.block_pool.blocks[b].block_hash = "known"  # of a new one that is full too
        self.tables.setdefault(request.request_id, []).extend(cached + blocks)
        return blocks

    def get_block_ids(self, req):
        return (self.tables[req],)

    def free(self, request):
        for b in self.tables.pop(request.request_id):
            self.block_pool.blocks[b].ref_cnt -= 1


def load_sglang(req):
    os.environ.update(KVWITNESS_INSTANCE=req["instance"], KVWITNESS_DIR=req["dir"], KVWITNESS_PEERS=req["peers"])
    module("sglang.srt.plugins.hook_registry", HookRegistry=Registry, HookType=Thing(AROUND="around"))
    from kvwitness_plugins import sglang

    assert sglang.register() is not None
    assert set(Registry.hooks) == {*sglang.TARGETS, sglang.SENT}


def load_vllm(req):
    os.environ.update(KVWITNESS_INSTANCE=req["instance"], KVWITNESS_DIR=req["dir"])
    for name in ("vllm", "vllm.v1", "vllm.v1.core"):
        module(name)
    module("vllm.v1.core.kv_cache_manager", KVCacheManager=KVCacheManager)
    from kvwitness_plugins import vllm

    assert vllm.register() is not None
    return KVCacheManager()


def main():
    kv = Thing(page_size=16, kv_item_lens=[4096, 4096], kv_data_lens=[4096 * 50, 4096 * 50], kv_data_ptrs=[1 << 32, 1 << 33])
    conn = Thing(kv_args=kv)
    for line in sys.stdin:
        req = json.loads(line)
        op, answer = req["op"], {}
        if op == "sglang":
            load_sglang(req)
        elif op == "vllm":
            manager = load_vllm(req)
        elif op == "receive":
            receiver = Thing(kv_mgr=conn, bootstrap_room=req["room"], bootstrap_addr="10.0.0.1:8998")
            answer["returned"] = Registry.call("send_metadata", receiver, req["pages"], 3)
        elif op == "abort":
            answer["returned"] = Registry.call("set_finish_with_abort", Thing(bootstrap_room=req["room"]), "a text that is nobody's business")
        elif op == "status":
            answer["returned"] = Registry.call(
                "send_kv_status_message", conn, targets=[("10.0.0.2", 4711)], bootstrap_room=req["room"], status=req["status"]
            )
        elif op == "commit":
            decode_req = Thing(req=Thing(bootstrap_room=req["room"]), kv_receiver=Thing(bootstrap_addr="10.0.0.1:8998"))
            answer["returned"] = Registry.call("_commit_transfer_to_req", None, decode_req)
        elif op == "break":
            answer["returned"] = Registry.call("send_metadata", None, [1])
        elif op == "allocate":
            computed = Thing(blocks=([Thing(block_id=b) for b in req["cached"]],))
            manager.allocate_slots(Thing(request_id=req["req"], num_prompt_tokens=40), req["blocks"], 0, computed)
        elif op == "free":
            manager.free(Thing(request_id=req["req"]))
        print("answer " + json.dumps(answer), flush=True)


main()
