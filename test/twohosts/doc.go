// Package twohosts is a handoff between two nodes: prefill and its sidecar in one
// network namespace, decode and its sidecar in another, whose clock is two hours
// ahead, and a wire between them that a test can cut.
//
// Its tests run commands as they are shipped, as root: they make network and time
// namespaces (ip of iproute2, nsenter and unshare of util-linux), load the probe into
// the kernel, and fail where they cannot. Certificates are made as docs/TWO-NODES.md
// says.
//
// One thing stands in for another here. Over RDMA the writes are seen where they are
// posted, on prefill's node; kvengine's own transport is TCP, whose bytes are seen in
// the process that takes them from the socket. The two nodes are one kernel, so that
// the probe of prefill's node, and it alone, is told to watch both processes: it sees
// what prefill's node would see of RDMA, and decode's node sees no bytes.
package twohosts
