"""vLLM: a general plugin (entry point group vllm.general_plugins) that tells which blocks
its KV cache manager hands out and takes back, and to whom.

Set KVWITNESS_INSTANCE in the engine's environment. The hooks only add words: each calls
what it wraps first, and returns what that returned.
"""

import functools
import inspect
import logging
import os

from .publisher import Publisher, runs

log = logging.getLogger("kvwitness")

CLAIMS = ["pages_reserved", "pages_shared", "pages_released"]


def pool(group):
    return "kv" if group == 0 else f"kv-{group}"


class Hooks:
    """What the hooks tell. Nothing that goes wrong here reaches the engine."""

    def __init__(self, publisher):
        self.publisher = publisher
        self.managers = set()
        self.held = {}  # request id to the block ids of each group
        self.failed = set()

    def open(self, manager):
        if id(manager) in self.managers:
            return
        self.managers.add(id(manager))
        config = manager.kv_cache_config
        for group, spec in enumerate(config.kv_cache_groups):
            # Block 0 is the null block; all groups draw from one set of blocks.
            self.publisher.tell(
                "pool_opened", pool=pool(group), pages=int(config.num_blocks), page_tokens=int(spec.kv_cache_spec.block_size),
                role=pool(group), null_ids=[[0, 1]], since="attach", claims=CLAIMS, owes="all" if group == 0 else "none",
                context_tokens=int(manager.max_model_len),
            )

    def allocated(self, manager, request, computed):
        """A request has got blocks; computed are those of each group that the prefix cache
        had. A new block's own hash tells nothing: a full one has it by now."""
        self.open(manager)
        req = request.request_id
        if req not in self.held:
            self.publisher.tell("request_admitted", req=req, prompt_tokens=int(request.num_prompt_tokens))
        held = self.held.setdefault(req, {})
        for group, ids in enumerate(manager.get_block_ids(req)):
            before = held.get(group, set())
            new = [int(b) for b in ids if int(b) not in before and int(b) != 0]
            known = {int(b.block_id) for b in computed[group]} if computed else set()
            shared = [b for b in new if b in known]
            fresh = [b for b in new if b not in known]
            if shared:
                self.publisher.tell("pages_shared", req=req, pool=pool(group), pages=runs(shared))
            if fresh:
                self.publisher.tell("pages_reserved", req=req, pool=pool(group), pages=runs(fresh))
            held[group] = before | set(new)

    def freed(self, manager, request):
        req = request.request_id
        for group, ids in self.held.pop(req, {}).items():
            if ids:
                self.publisher.tell("pages_released", req=req, pool=pool(group), pages=runs(sorted(ids)))
        self.publisher.tell("request_finished", req=req)

    @staticmethod
    def computed(places, args, named):
        """The blocks that the scheduler found in the prefix cache, of each group."""
        found = {**dict(zip(places, args)), **named}.get("new_computed_blocks")
        return found.blocks if found is not None else None

    def attempt(self, name, *args):
        try:
            getattr(self, name)(*args)
        except Exception as error:  # an engine must not fail for its witness
            if name not in self.failed:
                self.failed.add(name)
                log.warning("kvwitness: %s tells nothing: %s", name, type(error).__name__)

    def wrap(self, manager_class):
        begin, allocate, free = manager_class.__init__, manager_class.allocate_slots, manager_class.free
        places = list(inspect.signature(allocate).parameters)[2:]  # after self and the request

        @functools.wraps(begin)
        def begin_and_tell(manager, *args, **named):
            begin(manager, *args, **named)
            self.attempt("open", manager)

        @functools.wraps(allocate)
        def allocate_slots(manager, request, *args, **named):
            blocks = allocate(manager, request, *args, **named)
            if blocks is not None:
                self.attempt("allocated", manager, request, self.computed(places, args, named))
            return blocks

        @functools.wraps(free)
        def free_and_tell(manager, request, *args, **named):
            self.attempt("freed", manager, request)
            return free(manager, request, *args, **named)

        manager_class.__init__, manager_class.allocate_slots, manager_class.free = begin_and_tell, allocate_slots, free_and_tell


def register():
    """The entry point. vLLM calls it in each of its processes; only the engine core has a
    manager, and the stream is opened with it."""
    instance = os.environ.get("KVWITNESS_INSTANCE")
    if not instance:
        log.warning("kvwitness: set KVWITNESS_INSTANCE to publish lifecycle events")
        return None
    from vllm.v1.core.kv_cache_manager import KVCacheManager

    hooks = Hooks(Later(instance, os.environ.get("KVWITNESS_DIR")))
    hooks.wrap(KVCacheManager)
    return hooks


class Later:
    """A Publisher that begins when there is something to tell: the other processes that
    load the plugin have nothing, and must not take its endpoints."""

    def __init__(self, *args):
        self.args, self.publisher = args, None

    def tell(self, *args, **fields):
        if self.publisher is None:
            self.publisher = Publisher(*self.args)
        self.publisher.tell(*args, **fields)
