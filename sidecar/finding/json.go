package finding

import (
	"strconv"

	"github.com/go-json-experiment/json"
)

// MarshalJSON writes [[first, count], …].
func (p Pages) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, r := range p {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = strconv.AppendUint(b, uint64(r.First), 10)
		b = append(b, ',')
		b = strconv.AppendUint(b, uint64(r.Count), 10)
		b = append(b, ']')
	}
	return append(b, ']'), nil
}

// IsZero reports whether no page is named.
func (p Pages) IsZero() bool { return len(p) == 0 }

// MarshalJSON leaves an unknown domain out: absent and empty differ.
func (p Party) MarshalJSON() ([]byte, error) {
	if p.Domain.Has {
		return json.Marshal(struct {
			Inst   string `json:"inst"`
			Req    string `json:"req,omitzero"`
			Domain string `json:"domain"`
		}{p.Inst, p.Req, p.Domain.V})
	}
	return json.Marshal(struct {
		Inst string `json:"inst"`
		Req  string `json:"req,omitzero"`
	}{p.Inst, p.Req})
}
