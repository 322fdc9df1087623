package cpu

import (
	"fmt"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/kernels/reference"
	"github.com/kvwitness/kvwitness/test/trial"
)

// BenchmarkDecode is one token of one sequence.
func BenchmarkDecode(b *testing.B) {
	for _, context := range []int{1 << 10, 1 << 12, 1 << 16} {
		for _, d := range []reference.DType{reference.Float32, reference.BFloat16} {
			b.Run(fmt.Sprintf("context=%d/%v", context, d), func(b *testing.B) {
				p := newPool(b, context/64+1, 64, d)
				q := trial.NewRequest(p.Text(context), 1)
				q.Table = p.HandOut(context, 0)
				p.Pass(q.Next(context))
				q.Done = context - 1
				batch, results := []backend.Sequence{q.Next(1)}, make([]backend.Result, 1)
				for b.Loop() {
					if err := p.Forward(batch, results); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkPrefill is a prompt in chunks of 2048.
func BenchmarkPrefill(b *testing.B) {
	for _, context := range []int{1 << 10, 1 << 14} {
		for _, d := range []reference.DType{reference.Float32, reference.BFloat16} {
			b.Run(fmt.Sprintf("prompt=%d/%v", context, d), func(b *testing.B) {
				p := newPool(b, context/64, 64, d)
				q := trial.NewRequest(p.Text(context), 1)
				q.Table = p.HandOut(context, 0)
				results := make([]backend.Result, 1)
				for b.Loop() {
					for q.Done = 0; q.Done < context; q.Done += 2048 {
						if err := p.Forward([]backend.Sequence{q.Next(2048)}, results); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(context)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}
