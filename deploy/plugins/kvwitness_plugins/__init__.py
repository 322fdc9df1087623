"""Plugins that have SGLang and vLLM publish lifecycle events for a kvwitness sidecar.

They need nothing that these engines lack: pyzmq and msgspec.
"""
