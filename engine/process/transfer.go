package process

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/transfer"
	"github.com/kvwitness/kvwitness/engine/transfer/tcp"
	"github.com/kvwitness/kvwitness/engine/transfer/verbs"
)

// Transfer says how pages move: over TCP, or by RDMA through the device that Device
// names.
type Transfer struct {
	Verbs  bool
	Device verbs.Config
}

// way opens what a role needs to move pages.
func (p *Process) way(c Config) (transfer.Way, error) {
	if !c.Transfer.Verbs || c.Worker.Role == scheduler.Unified {
		return tcp.Way{}, nil
	}
	var err error
	if p.device, err = verbs.Open(c.Transfer.Device); err != nil {
		return nil, fmt.Errorf("transfer by verbs: %w", err)
	}
	c.Log.Info("pages go by verbs", "device", p.device.String())
	return p.device, nil
}

// closeDevice is for when every peer's end is closed.
func (p *Process) closeDevice() error {
	if p.device == nil {
		return nil
	}
	d := p.device
	p.device = nil
	return d.Close()
}
