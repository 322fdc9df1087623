package daemon

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// gidsOfNode are the files with the addresses of this node's RDMA devices.
const gidsOfNode = "/sys/class/infiniband/*/ports/*/gids/*"

// gidsAgain is how often they are read anew at most, for an address that is not
// known: devices come and go.
const gidsAgain = 10 * time.Second

// maxGIDs bounds the files that are read.
const maxGIDs = 1 << 14

// gids knows which addresses of RDMA devices are of this node. It is for one
// goroutine.
type gids struct {
	files string
	known map[netip.Addr]bool
	read  time.Time
}

func newGIDs(files string) *gids { return &gids{files: files} }

// local reports whether an address is of one of this node's devices.
func (g *gids) local(a netip.Addr) bool {
	if g.known[a] {
		return true
	}
	if !g.read.IsZero() && time.Since(g.read) < gidsAgain {
		return false
	}
	g.look()
	return g.known[a]
}

func (g *gids) look() {
	g.known, g.read = map[netip.Addr]bool{}, time.Now()
	names, _ := filepath.Glob(g.files) // the pattern is right
	for _, name := range names[:min(len(names), maxGIDs)] {
		// A place that holds none cannot be read, or holds zeros.
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if a, err := netip.ParseAddr(strings.TrimSpace(string(text))); err == nil && !a.IsUnspecified() {
			g.known[a.Unmap()] = true
		}
	}
}
