package metrics

import "github.com/kvwitness/kvwitness/sidecar/source/proven"

// Copies is what was copied by calls of the CUDA driver.
type Copies struct {
	Of        map[string]proven.Copied // by the instance whose pools it touches
	Uncounted uint64                   // copies that are not in these
}

var (
	ofDirection = Label{"direction", []string{"into", "out_of", "within"}}

	poolCopied      = counter("pool_copied_bytes_total", "Bytes of the engine's pools that its process copied by calls of the CUDA driver, from elsewhere, to elsewhere or from page to page: at least so many, see cuda_copies_uncounted_total. Where watch_cuda_copies is on.", ofEngine, ofDirection)
	copiesUncounted = counter("cuda_copies_uncounted_total", "Copies by calls of the CUDA driver that no engine's bytes hold: for which there was no room, whose function is not followed, or of a pool whose size is not known.")
)

// copies says what an engine copied.
func (e emitter) copies(name, instance string) {
	if e.Copies == nil {
		return
	}
	c := e.Copies.Of[instance]
	for i, n := range [...]uint64{c.Into, c.OutOf, c.Within} {
		e.put(poolCopied, float64(n), name, ofDirection.Values[i])
	}
}
