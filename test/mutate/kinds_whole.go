package main

import (
	"fmt"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// wholeKinds switches each kind of finding off altogether, where findings are
// published. The tables kinds_*.go switch off one way at a time.
func wholeKinds() []mutant {
	const publish = "func (l *Ledger) publish(b *breach, t int64, node string) {\n"
	all := make([]mutant, 0, finding.NumKind)
	for k := range finding.NumKind {
		all = append(all, mutant{
			rule: k.String(), clause: "whole", file: "breach.go",
			off: "the whole rule",
			old: publish,
			new: publish + fmt.Sprintf("\tif b.kind.String() == %q {\n\t\treturn\n\t}\n", k),
		})
	}
	return all
}
