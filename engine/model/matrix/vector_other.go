//go:build !amd64

package matrix

import "github.com/kvwitness/kvwitness/engine/model/gguf"

func widener(t gguf.Type) func(dst []float32, src []byte) { return wideners[t] }

func dots(out *[quad]float32, a, b []float32) { dotsGo(out, a, b) }
