package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of live views.
const (
	// MaxViews is how many views are live at a time.
	MaxViews = 16
	// lookEvery is how often the pools are looked at while somebody watches.
	lookEvery = 500 * time.Millisecond
	// slow is how long a view may take for what it is sent.
	slow = 5 * time.Second
	// beat is how often something is sent at least.
	beat = 10 * time.Second
	// longestLook bounds what one look may take.
	longestLook = 10 * time.Second
)

// Now is what a live view is sent.
type Now struct {
	At       string         `json:"at"`
	States   []string       `json:"states"`
	Pools    []PoolMap      `json:"pools"`
	Handoffs []Handoff      `json:"handoffs"`
	Open     []Row          `json:"open"`  // disclosures that nobody has closed
	State    jsontext.Value `json:"state"` // of engines, witness and judge
}

// hub looks while somebody watches, once for all.
type hub struct {
	look func(ctx context.Context) (*Now, error)

	mu      sync.Mutex
	views   map[chan []byte]bool
	last    []byte
	at      time.Time
	stop    context.CancelFunc
	refused uint64
}

func newHub(look func(ctx context.Context) (*Now, error)) *hub {
	return &hub{look: look, views: map[chan []byte]bool{}}
}

var errViews = errors.New("too many live views are open; close one, or read /api/v1/now")

// join begins a view.
func (h *hub) join() (chan []byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.views) >= MaxViews {
		h.refused++
		return nil, errViews
	}
	v := make(chan []byte, 1)
	h.views[v] = true
	if len(h.views) == 1 {
		ctx, stop := context.WithCancel(context.Background())
		h.stop = stop
		go h.run(ctx)
	}
	return v, nil
}

func (h *hub) leave(v chan []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.views, v)
	if len(h.views) == 0 {
		h.stop()
	}
}

// run looks until nobody watches.
func (h *hub) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if text, err := h.now(ctx); err == nil {
			h.send(text)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// now is what a look shows, at most lookEvery old.
func (h *hub) now(ctx context.Context) ([]byte, error) {
	h.mu.Lock()
	last, at := h.last, h.at
	h.mu.Unlock()
	if last != nil && time.Since(at) < lookEvery/2 {
		return last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, longestLook)
	defer cancel()
	seen, err := h.look(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(seen, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.at = text, time.Now()
	return text, nil
}

// send hands the latest look to each view; one that has not taken the last gets this
// in its place.
func (h *hub) send(text []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for v := range h.views {
		select {
		case <-v:
		default:
		}
		v <- text
	}
}

// ServeHTTP sends a view what is seen, as server-sent events, until it leaves.
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	view, err := h.join()
	if err != nil {
		w.Header().Set("Retry-After", "30")
		fail(w, http.StatusServiceUnavailable, err)
		return
	}
	defer h.leave(view)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	idle := time.NewTicker(beat)
	defer idle.Stop()
	for {
		text := []byte(":\n\n")
		select {
		case <-r.Context().Done():
			return
		case now := <-view:
			text = append(append([]byte("data: "), now...), "\n\n"...)
		case <-idle.C:
		}
		_ = out.SetReadDeadline(time.Time{})
		if out.SetWriteDeadline(time.Now().Add(slow)) != nil {
			return
		}
		if _, err := w.Write(text); err != nil || out.Flush() != nil {
			return
		}
	}
}
