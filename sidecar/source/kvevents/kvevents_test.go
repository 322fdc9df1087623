package kvevents

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// pack is a value as msgpack: nil, int, uint64, float64, string, []byte, []any, and
// pairs for a map in order.
func pack(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return msgp.AppendNil(b)
	case []any:
		b = msgp.AppendArrayHeader(b, uint32(len(v)))
		for _, e := range v {
			b = pack(b, e)
		}
		return b
	case pairs:
		b = msgp.AppendMapHeader(b, uint32(len(v)/2))
		for _, e := range v {
			b = pack(b, e)
		}
		return b
	}
	b, err := msgp.AppendIntf(b, v)
	if err != nil {
		panic(err)
	}
	return b
}

type pairs []any

func batch(events ...any) []byte { return pack(nil, []any{1.5, []any(events), 0}) }

func decode(t testing.TB, payload []byte) (all []Event, b Batch) {
	t.Helper()
	b, err := NewDecoder().Decode(payload, func(e *Event) {
		c := *e
		c.Hashes, c.Salt = slices.Clone(e.Hashes), bytes.Clone(e.Salt)
		all = append(all, c)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, b
}

// The bytes are written down in the notes on SGLang's events.
func TestTheExampleIsRead(t *testing.T) {
	raw, err := hex.DecodeString("93cb3ff80000000000009197ab426c6f636b53746f7265649107c092010202c0a347505500")
	if err != nil {
		t.Fatal(err)
	}
	all, b := decode(t, raw)
	if b.TS != 1.5 || !b.HasRank || b.Rank != 0 || b.Events != 1 || len(all) != 1 {
		t.Fatalf("%+v %+v", b, all)
	}
	if e := all[0]; e.Kind != Stored || !slices.Equal(e.Hashes, []uint64{7}) || e.HasParent || e.BlockSize != 2 || !e.OnGPU || e.Salt != nil {
		t.Errorf("%+v", e)
	}
}

func TestEveryFormOfAnEventIsRead(t *testing.T) {
	tokens := []any{1, 2, 300, 70000}
	for name, c := range map[string]struct {
		event any
		want  string
	}{
		"SGLang":                       {[]any{"BlockStored", []any{-7, 8}, 3, tokens, 2, nil, "GPU"}, "stored [18446744073709551609 8] after 3 of 2 gpu "},
		"SGLang, no medium":            {[]any{"BlockStored", []any{7}, nil, tokens, 2, nil}, "stored [7] after 0 of 2 gpu "},
		"SGLang, salted":               {[]any{"BlockStored", []any{7}, nil, tokens, 2, nil, "GPU", pairs{"cache_salt", "s1"}}, "stored [7] after 0 of 2 gpu s1"},
		"SGLang, salted, no medium":    {[]any{"BlockStored", []any{7}, nil, tokens, 2, nil, pairs{"cache_salt", "s1"}}, "stored [7] after 0 of 2 gpu s1"},
		"SGLang, on the host":          {[]any{"BlockStored", []any{7}, nil, tokens, 2, nil, "CPU_PINNED"}, "stored [7] after 0 of 2 elsewhere "},
		"SGLang, removed":              {[]any{"BlockRemoved", []any{7, 9}, "DISK"}, "removed [7 9] after 0 of 0 elsewhere "},
		"SGLang, removed, no medium":   {[]any{"BlockRemoved", []any{7}}, "removed [7] after 0 of 0 gpu "},
		"cleared":                      {[]any{"AllBlocksCleared"}, "cleared [] after 0 of 0 gpu "},
		"vLLM, array":                  {[]any{"BlockStored", []any{uint64(1 << 63)}, nil, tokens, 16, nil, "GPU", nil}, "stored [9223372036854775808] after 0 of 16 gpu "},
		"vLLM, array, salted":          {[]any{"BlockStored", []any{7, 8}, nil, tokens, 16, nil, "GPU", nil, []any{[]any{"s1"}, nil}, 0}, "stored [7 8] after 0 of 16 gpu s1"},
		"vLLM, map":                    {pairs{"type", "BlockStored", "block_hashes", []any{7}, "parent_block_hash", 6, "token_ids", tokens, "block_size", 16, "lora_id", nil, "medium", "GPU", "lora_name", nil}, "stored [7] after 6 of 16 gpu "},
		"vLLM, map, salted":            {pairs{"type", "BlockStored", "block_hashes", []any{7}, "token_ids", tokens, "block_size", 16, "extra_keys", []any{[]any{"s1"}}, "group_idx", 0, "kv_cache_spec_kind", "full", "locality", "local"}, "stored [7] after 0 of 16 gpu s1"},
		"SGLang, map, salted":          {pairs{"type", "BlockStored", "block_hashes", []any{7}, "parent_block_hash", 6, "token_ids", tokens, "block_size", 2, "lora_id", nil, "medium", "GPU", "cache_salt", "s1", "session_id", "x"}, "stored [7] after 6 of 2 gpu s1"},
		"vLLM, map, an adapter":        {pairs{"type", "BlockStored", "block_hashes", []any{7}, "block_size", 16, "lora_name", "lora", "extra_keys", []any{[]any{"lora"}}}, "stored [7] after 0 of 16 gpu "},
		"vLLM, map, all of it":         {pairs{"type", "BlockStored", "block_hashes", []any{7}, "block_size", 16, "extra_keys", []any{[]any{"lora", []any{"image", 3}, "s1", []byte("digest")}}, "lora_name", "lora"}, "stored [7] after 0 of 16 gpu s1"},
		"vLLM, map, more than a salt":  {pairs{"type", "BlockStored", "block_hashes", []any{7}, "block_size", 16, "extra_keys", []any{[]any{"lora", "s1"}}}, "stored [7] after 0 of 16 gpu "},
		"vLLM, map, no extra keys":     {pairs{"type", "BlockStored", "block_hashes", []any{7}, "block_size", 16, "extra_keys", []any{nil, nil}}, "stored [7] after 0 of 16 gpu "},
		"vLLM, map, removed":           {pairs{"type", "BlockRemoved", "block_hashes", []any{7}, "medium", "STORAGE"}, "removed [7] after 0 of 0 elsewhere "},
		"vLLM, map, cleared":           {pairs{"type", "AllBlocksCleared"}, "cleared [] after 0 of 0 gpu "},
		"one that is not known":        {[]any{"BlockMoved", []any{7}, 3, pairs{"x", []any{1}}}, "unknown [] after 0 of 0 gpu "},
		"one that is not known, a map": {pairs{"type", "BlockMoved", "whither", 3}, "unknown [] after 0 of 0 gpu "},
	} {
		all, b := decode(t, batch(c.event))
		if b.Bad != 0 || len(all) != 1 {
			t.Errorf("%s: %+v", name, b)
			continue
		}
		e := all[0]
		where := map[bool]string{true: "gpu", false: "elsewhere"}[e.OnGPU]
		if got := fmt.Sprintf("%s %v after %d of %d %s %s", e.Kind, e.Hashes, e.Parent, e.BlockSize, where, e.Salt); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestHashesThatAreBytesAreToldApart(t *testing.T) {
	all, _ := decode(t, batch([]any{"BlockStored", []any{[]byte("one of 32 bytes"), []byte("another"), []byte("one of 32 bytes")}, []byte("another"), []any{}, 2, nil}))
	h := all[0].Hashes
	if h[0] == h[1] || h[0] != h[2] || all[0].Parent != h[1] || !all[0].HasParent {
		t.Errorf("%+v", all[0])
	}
}

func TestABatchWithoutARankAndOneThatIsNoneAreRead(t *testing.T) {
	for _, raw := range [][]byte{pack(nil, []any{2, []any{}}), pack(nil, []any{2, []any{}, nil}), pack(nil, []any{2, []any{}, nil, "more"})} {
		if _, b := decode(t, raw); b.TS != 2 || b.HasRank {
			t.Errorf("%+v", b)
		}
	}
	_, b := decode(t, batch([]any{"BlockStored", 7}, []any{}, 3, []any{"BlockRemoved", []any{"7", 1.5}}, []any{"AllBlocksCleared"}))
	if b.Events != 5 || b.Bad != 4 {
		t.Errorf("%+v", b)
	}
	for _, raw := range [][]byte{nil, {0xc0}, pack(nil, []any{1.5}), pack(nil, []any{"x", []any{}}), make([]byte, MaxBatch+1)} {
		if _, err := NewDecoder().Decode(raw, func(*Event) {}); err == nil {
			t.Errorf("%.8x is a batch", raw)
		}
	}
}

// judged plays events and returns what the ledger finds, and all facts as text.
func judged(t *testing.T, events ...any) (found []finding.Finding, text string, c Counts) {
	t.Helper()
	l := ledger.New(ledger.DefaultConfig())
	at := int64(0)
	table := newTable(func(f *lifecycle.Fact) {
		at++
		f.T, f.Inst, f.Src, f.Node = at*1e6, "e", lifecycle.Engine, "n"
		text += string(f.AppendJSON(nil)) + "\n"
		found = append(found, l.Step(f)...)
	})
	d := NewDecoder()
	b, err := d.Decode(batch(events...), table.apply)
	if err != nil || b.Bad > 0 {
		t.Fatalf("%+v, %v", b, err)
	}
	found = append(found, l.Advance(at*1e6+10e9)...)
	return found, text, table.counts
}

func stored(salt string, parent any, hashes ...any) any {
	return []any{"BlockStored", hashes, parent, []any{424242, 434343}, 2, nil, "GPU", pairs{"cache_salt", salt}}
}

func TestBlocksOfOneSaltThatAnotherUsesCross(t *testing.T) {
	removed := []any{"BlockRemoved", []any{1, 2, 3}, "GPU"}
	keys := func(salt string) []any { return []any{[]any{salt}, nil} }
	vllm := func(salt string, hashes ...any) any {
		return pairs{"type", "BlockStored", "block_hashes", hashes, "block_size", 16, "token_ids", []any{424242}, "extra_keys", keys(salt)}
	}
	for name, c := range map[string]struct {
		events []any
		want   int
	}{
		"each its own":                  {[]any{stored("a", nil, 1, 2), stored("b", nil, 3, 4), stored("a", 2, 5), stored("b", 4, 6)}, 0},
		"stored again by its own":       {[]any{stored("a", nil, 1, 2), stored("a", nil, 1, 2, 3)}, 0},
		"stored again under another":    {[]any{stored("a", nil, 1, 2), stored("b", nil, 1, 2)}, 1},
		"built upon under another":      {[]any{stored("a", nil, 1, 2), stored("b", 2, 3)}, 1},
		"removed before":                {[]any{stored("a", nil, 1, 2), removed, stored("b", nil, 1, 2)}, 0},
		"cleared before":                {[]any{stored("a", nil, 1, 2), []any{"AllBlocksCleared"}, stored("b", nil, 1, 2)}, 0},
		"in vLLM's form":                {[]any{vllm("a", 1, 2), vllm("b", 1)}, 1},
		"vLLM's, each its own":          {[]any{vllm("a", 1, 2), vllm("b", 3)}, 0},
		"without a salt, nothing known": {[]any{stored("a", nil, 1), []any{"BlockStored", []any{1}, nil, []any{1}, 2, nil, "GPU"}}, 0},
		"on the host, a copy":           {[]any{stored("a", nil, 1), []any{"BlockStored", []any{1}, nil, []any{1}, 2, nil, "DISK", pairs{"cache_salt", "b"}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			found, text, counts := judged(t, c.events...)
			crossing := 0
			for _, f := range found {
				if f.Kind != finding.TenantCrossing || f.Synthetic {
					t.Errorf("%+v", f)
				}
				crossing++
			}
			if crossing != c.want || (counts.Crossings > 0) != (c.want > 0) {
				t.Errorf("%d crossings, want %d: %+v\n%s", crossing, c.want, counts, text)
			}
			// A domain is a hash under a key of this process alone.
			if strings.Contains(text, "424242") || strings.Contains(text, `"a"`) || strings.Contains(text, `"b"`) {
				t.Errorf("a token or a salt is in the facts: %s", text)
			}
		})
	}
}

func TestSaltedBlocksAreBounded(t *testing.T) {
	table := newTable(func(*lifecycle.Fact) {})
	e := &Event{Kind: Stored, OnGPU: true, Salt: []byte("s"), Hashes: make([]uint64, MaxBlocks/4)}
	for n := range uint64(8) {
		for i := range e.Hashes {
			e.Hashes[i] = n<<32 + uint64(i)
		}
		table.apply(e)
	}
	if len(table.blocks) != MaxBlocks || table.counts.Forgotten != MaxBlocks {
		t.Errorf("%d blocks, %+v", len(table.blocks), table.counts)
	}
	table.apply(&Event{Kind: Removed, OnGPU: true, Hashes: []uint64{1, 2}})
	table.apply(&Event{Kind: Stored, OnGPU: true, Salt: []byte("s"), Hashes: []uint64{1 << 60}})
	if _, kept := table.blocks[1<<60]; !kept {
		t.Error("a slot that is free again is not used")
	}
}

func TestNumbersOfBatchesAreFollowed(t *testing.T) {
	var s sequence
	for _, c := range []struct {
		seq  uint64
		want turn
	}{{5, inTurn}, {6, inTurn}, {6, twice}, {9, gap}, {10, inTurn}, {8, twice}, {0, restart}, {1, inTurn}, {5000, gap}, {2, restart}} {
		if got := s.see(c.seq); got != c.want {
			t.Errorf("%d: %d, want %d", c.seq, got, c.want)
		}
		if c.want != twice {
			s.took(c.seq)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(batch(stored("a", nil, 1, 2), []any{"AllBlocksCleared"}))
	f.Add(batch(pairs{"type", "BlockStored", "block_hashes", []any{[]byte("x")}, "extra_keys", []any{[]any{"s"}}}))
	f.Add([]byte{0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		table := newTable(func(fact *lifecycle.Fact) {
			if fact.Pages.Pages() > MaxBlocks || len(fact.Domain.V) > 2*domainLen {
				t.Fatalf("%+v", fact)
			}
		})
		n := 0
		b, err := NewDecoder().Decode(raw, func(e *Event) {
			n++
			if len(e.Hashes) > len(raw) || len(e.Salt) > maxSalt {
				t.Fatalf("%+v", e)
			}
			table.apply(e)
		})
		if err == nil && n+b.Bad != b.Events {
			t.Fatalf("%d events, %d read, %d bad", b.Events, n, b.Bad)
		}
	})
}

// BenchmarkDecode reads blocks of 16 tokens as vLLM and SGLang tell of them, salted.
func BenchmarkDecode(b *testing.B) {
	tokens := make([]any, 16)
	for i := range tokens {
		tokens[i] = 10_000 + i
	}
	for name, event := range map[string]func(h int) any{
		"array": func(h int) any {
			return []any{"BlockStored", []any{h}, h - 1, tokens, 16, nil, "GPU", pairs{"cache_salt", "tenant"}}
		},
		"map": func(h int) any {
			return pairs{"type", "BlockStored", "block_hashes", []any{h}, "parent_block_hash", h - 1, "token_ids", tokens, "block_size", 16, "lora_id", nil, "medium", "GPU", "extra_keys", []any{[]any{"tenant"}}}
		},
	} {
		b.Run(name, func(b *testing.B) {
			const events = 64
			payloads := make([][]byte, 256)
			for n := range payloads {
				var all []any
				for i := range events {
					all = append(all, event(n*events+i+1))
				}
				payloads[n] = batch(all...)
			}
			table, d := newTable(func(*lifecycle.Fact) {}), NewDecoder()
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if _, err := d.Decode(payloads[n%len(payloads)], table.apply); err != nil {
					b.Fatal(err)
				}
				n++
			}
			b.ReportMetric(float64(n*events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
