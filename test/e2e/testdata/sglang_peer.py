"""One half of a disaggregated pair, laid out as SGLang lays out its control messages.

Knows nothing of kvengine: pyzmq for the messages, a few lines of TCP for Mooncake's
transfer protocol. Reads a JSON object a line, answers with one.
"""
import json
import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import zmq

ctx = zmq.Context()
pull = ctx.socket(zmq.PULL)
control = pull.bind_to_random_port("tcp://127.0.0.1")
memory, writes, lock = {}, [], threading.Lock()


def exactly(conn, n):
    out = b""
    while len(out) < n:
        part = conn.recv(n - len(out))
        if not part:
            raise EOFError
        out += part
    return out


def serve(conn):
    try:
        while True:
            size, addr, op = struct.unpack("<QQB7x", exactly(conn, 24))
            if op == 1:
                body = exactly(conn, size)
                with lock:
                    writes.append((addr, size))
                    memory[addr + size - 1] = body[-1:]
            else:
                with lock:
                    body = memory.get(addr, b"\0" * size)
                conn.sendall(body)
    except (EOFError, OSError):
        conn.close()


def listen():
    s = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            conn, _ = s.accept()
            threading.Thread(target=serve, args=(conn,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return s.getsockname()[1]


session = listen()
info = {"attn_tp_size": 1, "attn_cp_size": 1, "dp_size": 1, "pp_size": 1, "page_size": 16,
        "kv_cache_dtype": "float32", "follow_bootstrap_room": False}


class Route(BaseHTTPRequestHandler):
    def do_GET(self):
        body = info if "target_pp_rank=-1" in self.path else {"rank_ip": "127.0.0.1", "rank_port": control}
        raw = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


web = HTTPServer(("127.0.0.1", 0), Route)
threading.Thread(target=web.serve_forever, daemon=True).start()
pushes = {}


def push(address, frames):
    if address not in pushes:
        pushes[address] = ctx.socket(zmq.PUSH)
        pushes[address].connect("tcp://" + address)
    pushes[address].send_multipart(frames)


def receive():
    if not pull.poll(20000):
        return None
    return pull.recv_multipart()


def ascii(n):
    return str(n).encode()


def me():
    return [b"127.0.0.1", ascii(control), b"127.0.0.1:%d" % session]


def register(r):
    bases = struct.pack("<%dQ" % r["regions"], *[(i + 1) << 32 for i in range(r["regions"])])
    aux = struct.pack("<Q", 1 << 50)
    if r["old"]:
        frames = [b"None", *me(), bases, aux, b"0", b"1", ascii(r["item"])]
    else:
        layers = struct.pack("<%dI" % r["regions"], *[i // 2 for i in range(r["regions"])])
        frames = [b"None", *me(), bases, aux, b"", b"0", b"1", ascii(r["item"]), b"", b"", layers, b"", b"", b"", b"1", b"0"]
    push(r["to"], frames)


def request(r):
    pages = struct.pack("<%di" % len(r["pages"]), *r["pages"])
    frames = [ascii(r["room"]), *me(), pages, b"3"]
    frames += [b"1"] if r["old"] else [b"", b"1", b"0", b""]
    push(r["to"], frames)


def transfer(r):
    """Write zeros to every page of every region, as Mooncake does, and read back."""
    host, port = r["session"].rsplit(":", 1)
    with socket.create_connection((host, int(port))) as s:
        for base in r["bases"]:
            for page in r["pages"]:
                addr = base + page * r["item"]
                s.sendall(struct.pack("<QQB7x", r["item"], addr, 1) + b"\0" * r["item"])
        s.sendall(struct.pack("<QQB7x", 1, addr + r["item"] - 1, 0))
        exactly(s, 1)


for line in sys.stdin:
    r = json.loads(line)
    out = {}
    if r["do"] == "hello":
        out = {"control": "127.0.0.1:%d" % control, "bootstrap": "127.0.0.1:%d" % web.server_port}
    elif r["do"] == "register":
        register(r)
    elif r["do"] == "request":
        request(r)
    elif r["do"] == "receive":
        frames = receive()
        out = {"frames": [f.hex() for f in frames] if frames else None}
    elif r["do"] == "writes":
        with lock:
            out = {"writes": writes}
    elif r["do"] == "send":
        push(r["to"], [bytes.fromhex(f) for f in r["frames"]])
    elif r["do"] == "transfer":
        transfer(r)
    print(json.dumps(out), flush=True)
