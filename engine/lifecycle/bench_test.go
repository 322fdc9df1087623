package lifecycle

import (
	"bytes"
	"io"
	"testing"
)

// oneRequest is the life of one request at a receiver and its sender, in the
// proportions of a production trace.
var oneRequest = []string{
	`{"t":1000000001,"node":"n1","inst":"decode-0/tp0","src":"engine","ev":"request_admitted","epoch":1,"seq":120,"step":44,"req":"req-8213","room":"1182734","domain":"9f86d081884c7d65","prompt_tokens":512,"prefix_tokens":0}`,
	`{"t":1000000002,"node":"n1","inst":"decode-0/tp0","src":"engine","ev":"pages_reserved","epoch":1,"seq":121,"step":44,"pool":"kv","pages":[[81,8]],"req":"req-8213","room":"1182734"}`,
	`{"t":1000000003,"node":"n1","inst":"decode-0/tp0","src":"engine","ev":"transfer_started","epoch":1,"seq":122,"step":44,"xfer":"x-8213","room":"1182734","side":"receiver","pool":"kv","pages":[[81,8]],"peer":"prefill-0/tp0","op":"push","req":"req-8213"}`,
	`{"t":1000000004,"node":"n1","inst":"decode-0/tp0","src":"rdma","ev":"bytes_moved","seq":5120,"addr":140187732541440,"bytes":65536,"from":"prefill-0/tp0","from_addr":139838243913728,"op":"write","rkey":8193,"qp":77,"status":"ok"}`,
	`{"t":1000000005,"node":"n1","inst":"decode-0/tp0","src":"rdma","ev":"bytes_moved","seq":5121,"addr":140187732606976,"bytes":65536,"from":"prefill-0/tp0","from_addr":139838243979264,"op":"write","rkey":8193,"qp":77,"status":"ok"}`,
	`{"t":1000000006,"node":"n1","inst":"decode-0/tp0","src":"engine","ev":"transfer_completed","epoch":1,"seq":123,"step":45,"xfer":"x-8213","room":"1182734","peer":"prefill-0/tp0","status":"ok","pages":[[81,8]],"tokens":512,"last":true}`,
	`{"t":1000000007,"node":"n1","inst":"decode-0/tp0","src":"engine","ev":"pages_written","epoch":1,"seq":124,"step":45,"pool":"kv","pages":[[81,8]],"by":"transfer","req":"req-8213","tokens":64}`,
	`{"t":1000000008,"node":"n1","inst":"decode-0/tp0","src":"engine","ev":"pages_read","epoch":1,"seq":125,"step":46,"req":"req-8213","pool":"kv","pages":[[81,8]]}`,
	`{"t":1000000009,"node":"n1","inst":"decode-0/tp0","src":"engine","ev":"pages_released","epoch":1,"seq":126,"step":46,"req":"req-8213","pool":"kv","pages":[[81,8]]}`,
	`{"t":1000000010,"node":"n1","inst":"decode-0/tp0","src":"engine","ev":"request_finished","epoch":1,"seq":127,"step":46,"req":"req-8213","room":"1182734","status":200,"finish":"stop"}`,
}

func benchFacts(b *testing.B) []*Fact {
	b.Helper()
	dec := NewJSONDecoder()
	facts := make([]*Fact, len(oneRequest))
	for i, line := range oneRequest {
		f, err := dec.Decode([]byte(line))
		if err != nil {
			b.Fatal(err)
		}
		facts[i] = f
	}
	return facts
}

func perFact(b *testing.B, facts int) {
	b.Helper()
	b.ReportMetric(float64(b.N)*float64(facts)/b.Elapsed().Seconds(), "facts/s")
}

func BenchmarkDecodeJSON(b *testing.B) {
	dec := NewJSONDecoder()
	lines := make([][]byte, len(oneRequest))
	for i, line := range oneRequest {
		lines[i] = []byte(line)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, line := range lines {
			if _, err := dec.Decode(line); err != nil {
				b.Fatal(err)
			}
		}
	}
	perFact(b, len(lines))
}

func BenchmarkDecodeMsgpack(b *testing.B) {
	var encoded [][]byte
	for _, f := range benchFacts(b) {
		encoded = append(encoded, f.AppendMsgpack(nil))
	}
	dec := NewMsgpackDecoder()
	b.ReportAllocs()
	for b.Loop() {
		for _, raw := range encoded {
			if _, err := dec.Decode(raw); err != nil {
				b.Fatal(err)
			}
		}
	}
	perFact(b, len(encoded))
}

func BenchmarkReader(b *testing.B) {
	var trace bytes.Buffer
	for range 1000 {
		for _, line := range oneRequest {
			trace.WriteString(line + "\n")
		}
	}
	b.SetBytes(int64(trace.Len()))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(bytes.NewReader(trace.Bytes()), "bench")
		for {
			if _, err := r.Next(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
	perFact(b, 1000*len(oneRequest))
}

func BenchmarkEncodeJSON(b *testing.B) {
	benchEncode(b, (*Fact).AppendJSON)
}

func BenchmarkEncodeMsgpack(b *testing.B) {
	benchEncode(b, (*Fact).AppendMsgpack)
}

func benchEncode(b *testing.B, encode func(*Fact, []byte) []byte) {
	facts := benchFacts(b)
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		for _, f := range facts {
			buf = encode(f, buf[:0])
		}
	}
	perFact(b, len(facts))
}
