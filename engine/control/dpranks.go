package control

import (
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/pdwire"
)

const (
	// maxRoomRanks bounds the rooms whose data-parallel rank is remembered; beyond
	// it the one that was told first is forgotten.
	maxRoomRanks = 8192
	// roomRankLife is how long a room's rank is remembered.
	roomRankLife = 2 * time.Minute
)

// dpRanks remembers which data-parallel rank of a prefill took which room: the rank
// tells (SGLang's /register_dp_rank), decode asks (/query_dp_ranks).
type dpRanks struct {
	mu    sync.Mutex
	by    map[int64]roomRank
	order []int64 // as they were told first
}

type roomRank struct {
	rank int
	at   time.Time
}

func (d *dpRanks) register(w http.ResponseWriter, r *http.Request) {
	if told, ok := read(w, r, pdwire.ParseRoomRank); ok {
		d.put(time.Now(), *told)
		_, _ = io.WriteString(w, "OK")
	}
}

func (d *dpRanks) query(w http.ResponseWriter, r *http.Request) {
	if asked, ok := read(w, r, pdwire.ParseRoomQuery); ok {
		answer(w, d.find(time.Now(), asked.Rooms))
	}
}

// put notes a room's rank; one that is told again is the later one's.
func (d *dpRanks) put(now time.Time, told pdwire.RoomRank) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = map[int64]roomRank{}
	}
	if _, known := d.by[told.Room]; !known {
		d.forget(now)
		d.order = append(d.order, told.Room)
	}
	d.by[told.Room] = roomRank{told.DPRank, now}
}

// forget makes room for one more.
func (d *dpRanks) forget(now time.Time) {
	for len(d.order) > 0 {
		first := d.order[0]
		if len(d.order) < maxRoomRanks && now.Sub(d.by[first].at) < roomRankLife {
			return
		}
		delete(d.by, first)
		d.order = d.order[1:]
	}
}

// find gives the ranks of those rooms that are known, by the room in decimal.
func (d *dpRanks) find(now time.Time, rooms []int64) map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := map[string]int{}
	for _, room := range rooms {
		if r, known := d.by[room]; known && now.Sub(r.at) < roomRankLife {
			found[strconv.FormatInt(room, 10)] = r.rank
		}
	}
	return found
}
