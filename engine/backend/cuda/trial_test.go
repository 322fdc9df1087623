//go:build cuda

package cuda

import (
	"testing"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
	"github.com/kvwitness/kvwitness/test/trial"
)

func open64(t testing.TB, pages, pageTokens int, d reference.DType) *trial.Pool {
	t.Helper()
	b, err := New(model.NewInduction(), Config{Pages: pages, PageTokens: pageTokens, DType: d})
	if err != nil {
		t.Fatal(err)
	}
	return trial.NewPool(t, b)
}

func TestEveryAnswerIsTheOracles(t *testing.T) {
	trial.EveryAnswerIsTheOracles(t, open64, 1, reference.Float16)
}

func TestEverySingleWrongTagIsSeen(t *testing.T) {
	trial.EverySingleWrongTagIsSeen(t, open64, reference.BFloat16, 100)
}

func TestEveryWrongTagStopsAWrite(t *testing.T) {
	trial.EveryWrongTagStopsAWrite(t, open64, reference.BFloat16, 200)
}

func TestALateAppendWritesNothing(t *testing.T) { trial.ALateAppendWritesNothing(t, open64) }

func TestStalePagesBecomeSomebodyElsesText(t *testing.T) {
	trial.StalePagesBecomeSomebodyElsesText(t, open64)
}

func TestScrubbedPagesSayNothing(t *testing.T) { trial.ScrubbedPagesSayNothing(t, open64) }

func TestPageTagsAloneStopTheIncident(t *testing.T) { trial.PageTagsAloneStopTheIncident(t, open64) }

func TestHandoffThroughAddresses(t *testing.T) { trial.HandoffThroughAddresses(t, open64) }

func TestScrubLeavesNeighboursAlone(t *testing.T) { trial.ScrubLeavesNeighboursAlone(t, open64) }

func TestHandoffDigest(t *testing.T) { trial.HandoffDigest(t, open64) }
