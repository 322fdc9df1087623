package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/kvwitness/kvwitness/test/boards"
	"github.com/kvwitness/kvwitness/test/monitoring"
)

// answered is what Prometheus answered to the panels of a dashboard.
type answered struct {
	From, To int64                              // milliseconds
	Step     int64                              // milliseconds between the points of a range
	Answers  map[int]map[string]json.RawMessage // by panel and refId
}

// step is the time between the points of a graph.
const step = time.Second

// ask asks for all panels of all dashboards, and returns the answers by uid.
func ask(p *monitoring.Server, root string, from, to time.Time) (all map[string]answered, err error) {
	list, err := boards.Read(root)
	if err != nil {
		return nil, err
	}
	all = map[string]answered{}
	for _, b := range list {
		a := answered{From: from.UnixMilli(), To: to.UnixMilli(), Step: step.Milliseconds(), Answers: map[int]map[string]json.RawMessage{}}
		b.Each(func(panel *boards.Panel) {
			a.Answers[panel.ID] = map[string]json.RawMessage{}
			for _, t := range panel.Targets {
				if err == nil {
					err = a.ask(p, panel.ID, t, b.With(t.Expr, boards.All))
				}
			}
		})
		if err != nil {
			return nil, fmt.Errorf("ask for %s: %w", b.UID, err)
		}
		all[b.UID] = a
	}
	return all, nil
}

func (a *answered) ask(p *monitoring.Server, panel int, t boards.Target, expr string) error {
	seconds := func(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64) }
	path, values := "/api/v1/query_range", url.Values{"query": {expr}, "start": {seconds(a.From)}, "end": {seconds(a.To)}, "step": {seconds(a.Step)}}
	if t.Instant {
		path, values = "/api/v1/query", url.Values{"query": {expr}, "time": {seconds(a.To)}}
	}
	var data json.RawMessage
	if err := p.Get(path, values, &data); err != nil {
		return fmt.Errorf("panel %d: %w", panel, err)
	}
	a.Answers[panel][t.RefID] = data
	return nil
}
