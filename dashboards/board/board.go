package board

import (
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// Board is one dashboard.
type Board struct {
	UID, Title, About string
	oneNode           bool // the node is one, and its series may be asked for
	rows              []row
}

type row struct {
	title  string
	panels []panel
}

// shape is what a panel looks like.
type shape uint8

const (
	graph shape = iota
	stack
	stat
	table
	bars
)

// limit says from which value on a panel is coloured as bad.
type limit struct {
	orange, red float64
	below       bool // bad are the values below
}

// panel is one panel. Twenty-four columns make a row.
type panel struct {
	shape         shape
	title, about  string
	unit          string
	width, height uint32
	asks          []ask
	limit         *limit
	colours       map[string]string // by legend
	number        string            // head of a table's column of numbers; empty: labels say it all
}

// ask is one query.
type ask struct {
	expr, legend string
	exemplars    bool
}

// Boards are all dashboards.
func Boards() []Board { return []Board{ownership, node, fleet} }

// JSON is the dashboard as Grafana reads it.
func (b *Board) JSON() ([]byte, error) {
	//lint:ignore SA1019 the classic schema is what every Grafana that is in use provisions
	d := dashboard.NewDashboardBuilder(b.Title).Uid(b.UID).Description(b.About).Tags([]string{"kvwitness"}).
		Timezone("browser").Time("now-1h", "now").Refresh("30s").Tooltip(dashboard.DashboardCursorSyncCrosshair).Readonly()
	for _, v := range b.variables() {
		d = d.WithVariable(v)
	}
	for _, other := range Boards() {
		if other.UID != b.UID {
			d = d.Link(dashboard.NewDashboardLinkBuilder(other.Title).Type(dashboard.DashboardLinkTypeLink).
				Url("/d/" + other.UID).KeepTime(true).IncludeVars(true).TargetBlank(false))
		}
	}
	id := uint32(1)
	for _, r := range b.rows {
		d = d.WithRow(dashboard.NewRowBuilder(r.title).Id(id))
		id++
		for i := range r.panels {
			d = d.WithPanel(r.panels[i].build(id))
			id++
		}
	}
	built, err := d.Build()
	if err != nil {
		return nil, fmt.Errorf("build the dashboard %s: %w", b.UID, err)
	}
	text, err := json.MarshalIndent(built, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the dashboard %s: %w", b.UID, err)
	}
	return append(text, '\n'), nil
}

// source is the data source that the variable names.
var source = common.DataSourceRef{Type: ptr("prometheus"), Uid: ptr("${datasource}")}

func ptr[T any](v T) *T { return &v }
