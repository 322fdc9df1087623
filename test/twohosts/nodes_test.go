package twohosts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/test/live"
)

// The nodes' addresses, on the wire between them.
const (
	addressA = "10.77.0.1"
	addressB = "10.77.0.2"
	peerPort = "9465"
	// ahead is by how many seconds node B's clock is ahead of node A's.
	ahead = "7200"
)

var bin string // where the commands are

func TestMain(m *testing.M) { os.Exit(withCommands(m)) }

func withCommands(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kv2-bin")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	bin = dir
	for _, command := range []string{"kvwitness", "kvengine", "kvwitness-probe"} {
		if _, err := live.Build(context.Background(), "../..", dir, command); err != nil {
			panic(err)
		}
	}
	return m.Run()
}

// node is one of two: what runs on it, and how.
type node struct {
	t       testing.TB
	name    string // node-a, node-b
	address string
	netns   string
	prefix  []string // of every command
	dir     string
	procs   []*live.Process
}

// wire joins two nodes.
type wire struct{ a, b *node }

// twoNodes makes them, and joins them.
func twoNodes(t testing.TB) *wire {
	t.Helper()
	w := &wire{a: newNode(t, "node-a", addressA), b: newNode(t, "node-b", addressB)}
	w.b.prefix = append(w.b.prefix, "unshare", "--time", "--monotonic", ahead, "--fork", "--kill-child", "--")
	link := fmt.Sprintf("kv%d", os.Getpid()%100000)
	ip(t, "link", "add", link+"a", "netns", w.a.netns, "type", "veth", "peer", "name", link+"b", "netns", w.b.netns)
	for n, end := range map[*node]string{w.a: link + "a", w.b: link + "b"} {
		ip(t, "-n", n.netns, "link", "set", end, "name", "wire")
		ip(t, "-n", n.netns, "address", "add", n.address+"/24", "dev", "wire")
		ip(t, "-n", n.netns, "link", "set", "wire", "up")
		ip(t, "-n", n.netns, "link", "set", "lo", "up")
	}
	dialInside(t, map[string]string{addressA: w.a.netns, addressB: w.b.netns})
	return w
}

// cut takes the wire away: what is sent is lost, and nobody is told.
func (w *wire) cut() {
	w.a.t.Helper()
	ip(w.a.t, "-n", w.a.netns, "link", "set", "wire", "down")
}

func (w *wire) mend() {
	w.a.t.Helper()
	ip(w.a.t, "-n", w.a.netns, "link", "set", "wire", "up")
}

func newNode(t testing.TB, name, address string) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "kv2") // names of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, name: name, address: address, netns: fmt.Sprintf("kv2-%s-%d", name, os.Getpid()), dir: dir}
	n.prefix = []string{"nsenter", "--net=/run/netns/" + n.netns, "--"}
	ip(t, "netns", "add", n.netns)
	t.Cleanup(func() {
		for _, p := range n.procs {
			p.Kill()
		}
		ip(t, "netns", "delete", n.netns)
		_ = os.RemoveAll(dir)
	})
	return n
}

func ip(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}

// start runs a command on the node until it logs msg=word.
func (n *node) start(word, command string, args ...string) *live.Process {
	n.t.Helper()
	line := append(append(n.prefix[1:len(n.prefix):len(n.prefix)], filepath.Join(bin, command)), args...)
	p, err := live.Start(n.prefix[0], word, line...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.procs = append(n.procs, p)
	return p
}

// dialInside lets HTTP requests to a node's address begin on the node itself.
func dialInside(t testing.TB, netns map[string]string) {
	transport := http.DefaultTransport.(*http.Transport)
	before := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil || netns[host] == "" {
			return before(ctx, network, address)
		}
		return dialIn(ctx, netns[host], network, address)
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		transport.DialContext = before
	})
}

// dialIn dials from within a network namespace: a socket stays in that of the thread
// that made it.
func dialIn(ctx context.Context, netns, network, address string) (net.Conn, error) {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer home.Close()
	there, err := os.Open("/run/netns/" + netns)
	if err != nil {
		return nil, err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return nil, errors.Join(err, back) // this thread stays locked, and ends with its goroutine
	}
	runtime.UnlockOSThread()
	return conn, err
}

// certify makes certificates with the commands of docs/TWO-NODES.md.
func certify(t testing.TB, dir string, nodes ...*node) {
	t.Helper()
	text, err := os.ReadFile("../../docs/TWO-NODES.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of commands, want that for the authority and that for a node", len(blocks))
	}
	run := func(script string, env ...string) {
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ca.pem")); err != nil {
		run(blocks[0][1])
	}
	for _, n := range nodes {
		run(blocks[1][1], "node="+n.name, "address="+n.address)
	}
}

// peerArgs are what a sidecar is told of its peer.
func (n *node) peerArgs(certs string, other *node) []string {
	file := func(name string) string { return filepath.Join(certs, name) }
	return []string{
		"--node", n.name, "--peer-listen", n.address + ":" + peerPort, "--peers", other.name + "=" + other.address + ":" + peerPort,
		"--peer-cert-file", file(n.name + ".pem"), "--peer-key-file", file(n.name + ".key"), "--peer-ca-file", file("ca.pem"),
		"--peer-patience", "5s",
	}
}

// sidecar runs one on the node, for its engine.
func (n *node) sidecar(engine string, args ...string) *live.Sidecar {
	n.t.Helper()
	all := append([]string{
		"sidecar", "--listen", n.address + ":0", "--poll", "200ms", "--slack", "100ms", "--events-dir", n.dir, "--engines", engine,
	}, args...)
	s := &live.Sidecar{Process: n.start("watching", "kvwitness", all...)}
	if err := s.AwaitSight(); err != nil {
		n.t.Fatal(err)
	}
	return s
}

// kinds are those of findings.
func kinds(all []live.Found) string {
	set := map[string]bool{}
	var names []string
	for _, f := range all {
		if !set[f.Said.Kind] {
			set[f.Said.Kind] = true
			names = append(names, f.Said.Kind)
		}
	}
	return strings.Join(names, " ")
}
