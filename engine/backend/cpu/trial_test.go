package cpu

import (
	"testing"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
	"github.com/kvwitness/kvwitness/test/trial"
)

// pool is a trial's pool whose inside can be reached.
type pool struct {
	*trial.Pool
	*Backend
}

func newPool(t testing.TB, pages, pageTokens int, d reference.DType) *pool {
	b, err := New(model.NewInduction(), Config{Pages: pages, PageTokens: pageTokens, DType: d})
	if err != nil {
		t.Fatal(err)
	}
	return &pool{trial.NewPool(t, b), b}
}

func open(t testing.TB, pages, pageTokens int, d reference.DType) *trial.Pool {
	return newPool(t, pages, pageTokens, d).Pool
}

func TestStalePagesBecomeSomebodyElsesText(t *testing.T) {
	trial.StalePagesBecomeSomebodyElsesText(t, open)
}

func TestScrubbedPagesSayNothing(t *testing.T) { trial.ScrubbedPagesSayNothing(t, open) }

func TestPageTagsAloneStopTheIncident(t *testing.T) { trial.PageTagsAloneStopTheIncident(t, open) }

func TestHandoffThroughAddresses(t *testing.T) { trial.HandoffThroughAddresses(t, open) }

func TestScrubLeavesNeighboursAlone(t *testing.T) { trial.ScrubLeavesNeighboursAlone(t, open) }

func TestHandoffDigest(t *testing.T) { trial.HandoffDigest(t, open) }
