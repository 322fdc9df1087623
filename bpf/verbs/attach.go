//go:build linux && amd64

package verbs

import (
	"errors"
	"fmt"

	"github.com/kvwitness/kvwitness/bpf/target"
	"github.com/kvwitness/kvwitness/bpf/uprobe"
	source "github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

// Errors that callers tell apart.
var (
	ErrNoVerbs     = errors.New("libibverbs is not mapped")
	ErrNotProvider = errors.New("the address lies in no verbs provider")
	ErrLayout      = errors.New("the context does not have the layout of rdma-core v44 to v65")
	ErrAbused      = errors.New("what it named before as post_send was none")
)

// functions are what is attached to in libibverbs. ibv_reg_mr and
// ibv_reg_mr_iova jump to ibv_reg_mr_iova2, and both ways to open a device pass
// verbs_open_device. The version of the private one names the ABI (34 in Debian
// 12), so it is taken whatever it is. Old and new programs are bound to different
// versions of a name, so each is looked up by version.
var functions = []uprobe.Function{
	{Name: "verbs_open_device", Needed: true, Exit: probeProgOpened},
	{Name: "ibv_modify_qp", Version: "IBVERBS_1.1", Needed: true, Entry: probeProgModifyQp},
	{Name: "ibv_reg_mr_iova2", Version: "IBVERBS_1.8", Entry: probeProgRegMr, Exit: probeProgRegMrDone},
	{Name: "ibv_reg_dmabuf_mr", Version: "IBVERBS_1.12", Entry: probeProgRegDmabufMr, Exit: probeProgRegMrDone},
	{Name: "ibv_dereg_mr", Version: "IBVERBS_1.1", Entry: probeProgDeregMr},
	{Name: "ibv_destroy_qp", Version: "IBVERBS_1.1", Entry: probeProgDestroyQp},
	{Name: "ibv_close_device", Version: "IBVERBS_1.1", Entry: probeProgClosed},
	{Name: "ibv_qp_to_qp_ex", Version: "IBVERBS_1.6", Exit: probeProgExtendedQp},
}

// bypasses are what providers export to those who ring doorbells themselves (UCX
// with rc_x or dc_x does): what they then write goes by unseen.
var bypasses = []uprobe.Function{
	{Name: "mlx5dv_init_obj", Entry: probeProgDirectObject},
	{Name: "mlx4dv_init_obj", Entry: probeProgDirectObject},
	{Name: "mlx5dv_devx_obj_create", Entry: probeProgDevxObject},
}

// Watch attaches to libibverbs as a process has it mapped, and returns since when
// all of it is (ns, CLOCK_MONOTONIC): devices that the process opened before are
// found by FindContexts. A process that has not loaded it yet gives ErrNoVerbs. maps
// are its mappings.
func (p *Probe) Watch(pid int, maps []target.Mapping) (since int64, err error) {
	since, n, err := p.sites.Each(pid, maps, func(m target.Mapping) bool { return target.IsVerbs(m.Path) }, p.AttachLibrary)
	if err == nil && n == 0 {
		err = fmt.Errorf("process %d: %w", pid, ErrNoVerbs)
	}
	return since, err
}

// AttachLibrary attaches to a libibverbs, whoever has it mapped now or later.
func (p *Probe) AttachLibrary(path string) (since int64, err error) {
	l, err := uprobe.OpenLibrary(path, target.IsVerbs)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return p.sites.Exports(l, functions)
}

// AttachContext attaches to post_send (and poll_cq, if wanted) of a context's
// provider, and to its ways around post_send. The addresses come out of the
// target's memory: they are taken only where a function starts in a verbs
// provider. since is when the last of them was: what the context posted before was
// not seen.
func (p *Probe) AttachContext(c source.Context) (since int64, err error) {
	if !c.Known {
		return 0, fmt.Errorf("process %d, context %#x: %w", c.PID, c.Context, ErrLayout)
	}
	if p.completions {
		if since, err = p.attachAddress(int(c.PID), c.PollCQ, "poll_cq", probeProgPollCq, probeProgPollCqDone); err != nil {
			return 0, err
		}
	}
	posting, err := p.attachAddress(int(c.PID), c.PostSend, "post_send", probeProgPostSend, "")
	return max(since, posting), err
}

// Indexes in Extended.Functions.
const (
	fnRead, fnWrite, fnWriteImm = 0, 1, 2
	fnSetSGE, fnSetSGEList      = 11, 12
	fnComplete                  = 14
)

// AttachExtended attaches to the extended API of a QP's provider, as
// AttachContext does.
func (p *Probe) AttachExtended(x source.Extended) (since int64, err error) {
	for _, f := range []struct {
		index         int
		role, program string
	}{
		{fnComplete, "wr_complete", probeProgExtComplete},
		{fnSetSGE, "wr_set_sge", probeProgExtSetSge},
		{fnSetSGEList, "wr_set_sge_list", probeProgExtSetSgeList},
		{fnRead, "wr_rdma_read", probeProgExtRead},
		{fnWrite, "wr_rdma_write", probeProgExtWrite},
		{fnWriteImm, "wr_rdma_write_imm", probeProgExtWriteImm},
	} {
		if x.Functions[f.index] == 0 {
			continue // the QP was not made for it
		}
		now, err := p.attachAddress(int(x.PID), x.Functions[f.index], f.role, f.program, "")
		if err != nil {
			return since, err
		}
		since = max(since, now)
	}
	return since, nil
}

func (p *Probe) attachAddress(pid int, addr uint64, role, entry, exit string) (since int64, err error) {
	maps, err := target.Mappings(pid)
	if err != nil {
		return 0, err
	}
	l, offset, err := provider(pid, maps, addr)
	if err != nil {
		return 0, fmt.Errorf("process %d, %s at %#x: %w", pid, role, addr, err)
	}
	defer l.Close()
	around, err := p.sites.Exports(l, bypasses)
	if err != nil {
		return 0, err
	}
	since, err = p.sites.Attach(l, offset, role, entry, exit)
	if errors.Is(err, uprobe.ErrRefused) {
		err = ErrAbused
	}
	return max(since, around), err
}

// provider opens the file of a provider, and finds the offset of its function. The
// caller closes the file.
func provider(pid int, maps []target.Mapping, addr uint64) (l *uprobe.Library, offset uint64, err error) {
	m, found := target.At(maps, addr)
	if !found || !m.Executable || !target.IsProvider(m.Path) {
		return nil, 0, ErrNotProvider
	}
	if l, err = uprobe.OpenLibrary(m.File(pid), target.IsProvider); err != nil {
		return nil, 0, err
	}
	offset = addr - m.Start + m.Offset
	if !l.Object.Starts(offset) {
		return nil, 0, errors.Join(target.ErrNotAFunction, l.Close())
	}
	return l, offset, nil
}
