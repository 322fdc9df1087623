"""SGLang: hooks of its registry (entry point group sglang.srt.plugins) that tell what a
prefill/decode engine over Mooncake reserves, sends, receives and rejects.

Set KVWITNESS_INSTANCE in each engine's environment, and KVWITNESS_PEERS to name the
others: BOOTSTRAP_HOST:PORT=INSTANCE for each prefill and IP=INSTANCE for each decode,
separated by commas. The hooks only add words: each calls what it wraps in any case.
"""

import importlib.util
import logging
import os

from .publisher import Publisher, runs

log = logging.getLogger("kvwitness")

CONN = "sglang.srt.disaggregation.mooncake.conn"
# How prefill tells decode of a room's end: in 0.5.23, and before.
SENT = CONN + ".MooncakeKVManager.send_kv_status_message"
SENT_BEFORE = CONN + ".MooncakeKVManager.sync_status_to_decode_endpoint"
TARGETS = {
    CONN + ".MooncakeKVReceiver.send_metadata": "reserved",
    CONN + ".MooncakeKVManager.send_kvcache": "sending",
    "sglang.srt.managers.schedule_batch.Req.set_finish_with_abort": "aborted",
    "sglang.srt.disaggregation.decode.DecodeTransferQueue._commit_transfer_to_req": "committed",
}
SUCCESS, FAILED = 4, 0
CLAIMS = ["request_rejected", "pages_reserved", "transfer_started", "transfer_completed"]


class Hooks:
    """What the hooks tell. Nothing that goes wrong here reaches the engine."""

    def __init__(self, publisher, peers):
        self.publisher, self.peers = publisher, peers
        self.opened = False
        self.failed = set()  # hooks that went wrong, each said once

    def peer(self, *names):
        for name in names:
            if name in self.peers:
                return self.peers[name]
        return str(names[0])

    def open(self, manager):
        """The pool, of the manager's arguments: once."""
        if self.opened:
            return
        self.opened = True
        kv = manager.kv_args
        page = int(kv.page_size)
        lengths = [int(n) for n in kv.kv_item_lens]
        sizes = [int(n) for n in kv.kv_data_lens]
        pages = min(size // length for size, length in zip(sizes, lengths))
        regions = [
            {"base": int(base), "stride": length, "bytes": length, "layer": i, "part": "kv"}
            for i, (base, length) in enumerate(zip(kv.kv_data_ptrs, lengths))
        ]
        self.publisher.tell(
            "pool_opened", pool="kv", pages=pages, page_tokens=page, role="kv", since="attach", claims=CLAIMS, regions=regions
        )

    def reserved(self, receiver, kv_indices, aux_index=None, *more, **named):
        """decode names the pages of a room to prefill."""
        self.open(receiver.kv_mgr)
        room, pages = str(receiver.bootstrap_room), runs(kv_indices)
        req = f"room-{room}"
        self.publisher.tell("pages_reserved", pool="kv", pages=pages, req=req, room=room)
        self.publisher.tell(
            "transfer_started", xfer=room, room=room, side="receiver", pool="kv", pages=pages, peer=self.peer(receiver.bootstrap_addr), req=req
        )

    def sending(self, manager, session, prefill_indices, dst_ptrs, dst_indices, *more, **named):
        """prefill writes pages to a session: which room they are of, the engine says when
        it reports the status."""
        self.open(manager)

    def sent(self, manager, *, targets, bootstrap_room, status, **named):
        """prefill tells decodes how a room ended."""
        for host, port in targets:
            self.sent_before(manager, host, port, bootstrap_room, status)

    def sent_before(self, manager, remote, dst_port, room, status, *more, **named):
        """The same, as versions before 0.5.23 have it."""
        status = int(status)
        if status in (SUCCESS, FAILED):
            self.publisher.tell(
                "transfer_completed", xfer=str(room), room=str(room), peer=self.peer(f"{remote}:{dst_port}", remote),
                status="ok" if status == SUCCESS else "failed",
            )

    def aborted(self, req, error, *more, **named):
        """A request is ended with a mark, before or after it was admitted."""
        room = getattr(req, "bootstrap_room", None)
        if room is not None:
            self.publisher.tell("request_rejected", req=f"room-{room}", room=str(room), status=400)

    def committed(self, queue, decode_req, *more, **named):
        """decode takes a handoff for complete."""
        room = str(decode_req.req.bootstrap_room)
        self.publisher.tell(
            "transfer_completed", xfer=room, room=room, peer=self.peer(decode_req.kv_receiver.bootstrap_addr), status="ok", last=True
        )

    def around(self, name):
        tell = getattr(self, name)

        def hook(original, *args, **named):
            try:
                tell(*args, **named)
            except Exception as error:  # an engine must not fail for its witness
                if name not in self.failed:
                    self.failed.add(name)
                    log.warning("kvwitness: %s tells nothing: %s", name, type(error).__name__)
            return original(*args, **named)

        return hook


def peers():
    pairs = (p.split("=", 1) for p in os.environ.get("KVWITNESS_PEERS", "").split(",") if "=" in p)
    return {name.strip(): instance.strip() for name, instance in pairs}


def defines(module, name):
    """Whether a module's source defines a function, found without importing it: plugins are
    loaded before most of the engine."""
    try:
        spec = importlib.util.find_spec(module)
        with open(spec.origin, encoding="utf-8") as source:
            return f"def {name}(" in source.read()
    except (ImportError, AttributeError, TypeError, ValueError, OSError):
        return False


def targets():
    before = defines(CONN, "sync_status_to_decode_endpoint")
    return {**TARGETS, **({SENT_BEFORE: "sent_before"} if before else {SENT: "sent"})}


def register():
    """The entry point."""
    instance = os.environ.get("KVWITNESS_INSTANCE")
    if not instance:
        log.warning("kvwitness: set KVWITNESS_INSTANCE to publish lifecycle events")
        return None
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    hooks = Hooks(Publisher(instance, os.environ.get("KVWITNESS_DIR")), peers())
    for target, name in targets().items():
        HookRegistry.register(target, hooks.around(name), HookType.AROUND)
    return hooks
