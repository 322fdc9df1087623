package sim

import "testing"

func TestSmoke(t *testing.T) {
	for _, m := range Mixes() {
		h := Hard{}
		n := 0
		for seed := range uint64(200) {
			tr := New(seed, m).Run(20)
			n += len(tr.Facts)
			h.Add(tr.Hard)
		}
		t.Log(m.Name, n)
		h.Print(t.Output())
	}
}
