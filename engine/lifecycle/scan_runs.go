package lifecycle

import "bytes"

// plainRuns reads a checked list of runs, [[first, count], …], in one pass. It
// declines whatever is not plain or out of bounds; the caller's slower reading
// then says what is wrong.
func plainRuns(raw []byte) (Runs, bool) {
	n := bytes.Count(raw, []byte{'['}) - 1
	if n < 1 || n > MaxRuns {
		return nil, false
	}
	runs := make(Runs, 0, n)
	i := 0
	for len(runs) < n {
		first, at := plainPage(raw, i+1, '[')
		count, end := plainPage(raw, at, ',')
		end = blank(raw, max(end, 0))
		if at < 0 || end == len(raw) || raw[end] != ']' || count == 0 || first+count > MaxPages {
			return nil, false
		}
		runs = append(runs, Run{first, count})
		i = blank(raw, end+1) // at the comma, or at the end of the list
	}
	if i == len(raw) || raw[i] != ']' {
		return nil, false // something else than a run follows
	}
	return runs, true
}

// plainPage reads a number of at most MaxPages after the mark that must stand
// at i, blanks aside; it returns where the number ends, -1 if it is none.
func plainPage(raw []byte, i int, mark byte) (v uint32, end int) {
	if i < 0 {
		return 0, -1
	}
	i = blank(raw, i)
	if i == len(raw) || raw[i] != mark {
		return 0, -1
	}
	i = blank(raw, i+1)
	start := i
	for ; i < len(raw) && '0' <= raw[i] && raw[i] <= '9' && v <= MaxPages; i++ {
		v = v*10 + uint32(raw[i]-'0')
	}
	if i == start || v > MaxPages {
		return 0, -1
	}
	return v, i
}
