"""A model file by its definition: numpy in float64, the tokenizers package, and jinja2
for the file's own chat template; and by llama.cpp, as the cyllama package carries it.

Requests: {"op": "load", "path": str} answers {"name": str}; {"op": "encode", "text":
str} answers {"tokens": [...]}; {"op": "chat", "messages": [...]} too; {"op":
"logits", "texts": [[token, ...], ...]} answers {"logits": [base64 of float64, ...]},
of each text's last token; {"op": "llama.cpp", …} the same of llama.cpp. Each answer is a line "answer " + JSON.
"""

import base64
import json
import struct
import sys
import tempfile

import jinja2
import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
CONTROL = 3


class File:
    """The metadata of a GGUF file, and its tensors where they lie."""

    def __init__(self, path):
        self.data = open(path, "rb").read()
        self.at = 4
        _, tensors, keys = self.scalar("I"), self.scalar("Q"), self.scalar("Q")
        self.keys, self.tensors = {}, {}
        for _ in range(keys):
            key = self.text()
            self.keys[key] = self.value(self.scalar("I"))
        self.infos = self.at
        for _ in range(tensors):
            name = self.text()
            dims = [self.scalar("Q") for _ in range(self.scalar("I"))]
            self.tensors[name] = (dims, self.scalar("I"), self.scalar("Q"))
        self.start = (self.at + 31) // 32 * 32

    def scalar(self, form):
        (v,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return v

    def text(self):
        n = self.scalar("Q")
        self.at += n
        return self.data[self.at - n : self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            element, n = self.scalar("I"), self.scalar("Q")
            return [self.value(element) for _ in range(n)]
        return self.scalar(SCALARS[kind])

    def tensor(self, name):
        """The tensor as float64, rows first."""
        dims, kind, offset = self.tensors[name]
        n = int(np.prod(dims))

        def blocks(size, bytes_):
            raw = np.frombuffer(self.data, np.uint8, n // size * bytes_, self.start + offset)
            return raw.reshape(-1, bytes_)

        if kind == 0:
            out = blocks(1, 4).view("<f4").astype(np.float64)
        elif kind == 3:
            b = blocks(32, 20)
            scales = b[:, :4].copy().view("<f2").astype(np.float64)
            numbers = np.concatenate([b[:, 4:] & 15, b[:, 4:] >> 4], axis=1)
            out = numbers * scales[:, :1] + scales[:, 1:]
        elif kind == 8:
            b = blocks(32, 34)
            out = b[:, 2:].copy().view(np.int8) * b[:, :2].copy().view("<f2").astype(np.float64)
        else:
            raise ValueError(f"tensor type {kind}")
        return out.reshape(dims[::-1])


    def widen(self, path):
        """Writes the same file with every tensor as float32."""
        infos, offset = b"", 0
        for name, (dims, _, _) in self.tensors.items():
            infos += struct.pack("<Q", len(name)) + name.encode()
            infos += struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0, offset)
            offset += (int(np.prod(dims)) * 4 + 31) // 32 * 32
        with open(path, "wb") as out:
            out.write(self.data[: self.infos] + infos)
            out.write(bytes(-out.tell() % 32))
            for name in self.tensors:
                raw = self.tensor(name).astype("<f4").tobytes()
                out.write(raw + bytes(-len(raw) % 32))


def llama_cpp_logits(f, texts):
    """What llama.cpp computes with all weights, keys and values as float32: with those of
    the file it would round what it multiplies them with to eight bits."""
    from cyllama.llama import llama_cpp

    class Model(llama_cpp.LlamaModel):
        n_vocab = len(f.keys["tokenizer.ggml.tokens"])  # get_logits_ith asks for it

    llama_cpp.llama_backend_init()
    out = []
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/float32.gguf"
        f.widen(path)
        settings = llama_cpp.LlamaModelParams()
        settings.n_gpu_layers = 0
        model = Model(path, params=settings, verbose=False)
        for text in texts:
            settings = llama_cpp.LlamaContextParams()
            settings.n_ctx, settings.n_threads, settings.n_threads_batch = 256, 1, 1
            settings.type_k, settings.type_v, settings.flash_attn_type = 0, 0, 0
            context = llama_cpp.LlamaContext(model, settings, False)
            batch = llama_cpp.LlamaBatch(n_tokens=len(text), embd=0, n_seq_max=1)
            batch.set_batch(text, 0, False)
            context.decode(batch)
            out.append(np.array(context.get_logits_ith(-1), np.float64))
    return np.array(out)


def norm(x, weights, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weights


def turn(x, base):
    """x: positions × heads × numbers; neighbours are a complex number."""
    positions, _, size = x.shape
    angles = np.outer(np.arange(positions), base ** (-np.arange(0, size, 2) / size))
    c = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)[:, None]
    return np.stack([c.real, c.imag], -1).reshape(x.shape)


def attend(q, k, v):
    """Causal; each query head reads the kv head of its group."""
    n, heads, size = q.shape
    group = heads // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(size)
    scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("hqk,khd->qhd", weights, v).reshape(n, -1)


def logits(f, texts):
    key = lambda name: f.keys["llama." + name]
    heads, kv_heads = key("attention.head_count"), key("attention.head_count_kv")
    epsilon, base = key("attention.layer_norm_rms_epsilon"), key("rope.freq_base")
    embedding = f.tensor("token_embd.weight")
    ends = np.cumsum([len(t) for t in texts])
    x = embedding[np.concatenate(texts)]
    for layer in range(key("block_count")):
        w = lambda name: f.tensor(f"blk.{layer}.{name}.weight")
        h = norm(x, w("attn_norm"), epsilon)
        q, k, v = h @ w("attn_q").T, h @ w("attn_k").T, h @ w("attn_v").T
        attended = []
        for end, text in zip(ends, texts):
            one = slice(end - len(text), end)
            by = lambda a, n: a[one].reshape(len(text), n, -1)
            attended.append(attend(turn(by(q, heads), base), turn(by(k, kv_heads), base), by(v, kv_heads)))
        x = x + np.concatenate(attended) @ w("attn_output").T
        h = norm(x, w("ffn_norm"), epsilon)
        gate = h @ w("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w("ffn_up").T)) @ w("ffn_down").T
    return norm(x[ends - 1], f.tensor("output_norm.weight"), epsilon) @ embedding.T


def tokenizer(f):
    tokens = f.keys["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ")) for m in f.keys["tokenizer.ggml.merges"]]
    t = Tokenizer(models.BPE({s: i for i, s in enumerate(tokens)}, merges))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return t


class Model:
    def __init__(self, path):
        self.file = File(path)
        self.plain, self.special = tokenizer(self.file), tokenizer(self.file)
        kinds = self.file.keys["tokenizer.ggml.token_type"]
        self.special.add_special_tokens([s for s, k in zip(self.file.keys["tokenizer.ggml.tokens"], kinds) if k == CONTROL])
        self.template = jinja2.Environment().from_string(self.file.keys["tokenizer.chat_template"])

    def answer(self, request):
        if request["op"] == "encode":
            return {"tokens": self.plain.encode(request["text"]).ids}
        if request["op"] == "chat":
            text = self.template.render(messages=request["messages"], add_generation_prompt=True)
            return {"tokens": self.special.encode(text).ids}
        compute = llama_cpp_logits if request["op"] == "llama.cpp" else logits
        return {"logits": [base64.b64encode(row.tobytes()).decode() for row in compute(self.file, request["texts"])]}


def main():
    model = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "load":
            model = Model(request["path"])
            answer = {"name": model.file.keys["general.name"]}
        else:
            answer = model.answer(request)
        print("answer " + json.dumps(answer), flush=True)


main()
