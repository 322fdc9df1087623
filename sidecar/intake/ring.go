package intake

import "sort"

// arrivals is of how many facts of a source it is known when they came.
const arrivals = 1 << 13

// ring keeps when facts came, by their times, which rise.
type ring struct {
	all  []came
	next int // where the next one goes, once the ring is full
}

type came struct{ t, at int64 }

func (r *ring) add(t, at int64) {
	if len(r.all) < arrivals {
		r.all = append(r.all, came{t, at})
		return
	}
	r.all[r.next] = came{t, at}
	r.next = (r.next + 1) % arrivals
}

// at is when the first fact of time t came.
func (r *ring) at(t int64) (at int64, known bool) {
	n := len(r.all)
	i := sort.Search(n, func(i int) bool { return r.all[(r.next+i)%n].t >= t })
	if i == n {
		return 0, false
	}
	c := r.all[(r.next+i)%n]
	return c.at, c.t == t
}
