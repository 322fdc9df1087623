//go:build linux && amd64

package verbs

import (
	"errors"
	"fmt"
	"os"

	"github.com/kvwitness/kvwitness/bpf/target"
	source "github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

// Errors that callers tell apart.
var (
	ErrNoVerbs     = errors.New("libibverbs is not mapped")
	ErrNotProvider = errors.New("the address lies in no verbs provider")
	ErrLayout      = errors.New("the context does not have the layout of rdma-core v44 to v65")
	ErrAbused      = errors.New("what it named before as post_send was none")
)

// function is one that libibverbs or a provider exports. Old and new programs are
// bound to different versions of a name, so each is looked up by version.
type function struct {
	name, version string
	needed        bool   // without it nothing is seen
	entry, exit   string // programs
}

// functions are what is attached to in libibverbs. ibv_reg_mr and
// ibv_reg_mr_iova jump to ibv_reg_mr_iova2, and both ways to open a device pass
// verbs_open_device. The version of the private one names the ABI (34 in Debian
// 12), so it is taken whatever it is.
var functions = []function{
	{"verbs_open_device", "", true, "", probeProgOpened},
	{"ibv_modify_qp", "IBVERBS_1.1", true, probeProgModifyQp, ""},
	{"ibv_reg_mr_iova2", "IBVERBS_1.8", false, probeProgRegMr, probeProgRegMrDone},
	{"ibv_reg_dmabuf_mr", "IBVERBS_1.12", false, probeProgRegDmabufMr, probeProgRegMrDone},
	{"ibv_dereg_mr", "IBVERBS_1.1", false, probeProgDeregMr, ""},
	{"ibv_destroy_qp", "IBVERBS_1.1", false, probeProgDestroyQp, ""},
	{"ibv_close_device", "IBVERBS_1.1", false, probeProgClosed, ""},
	{"ibv_qp_to_qp_ex", "IBVERBS_1.6", false, "", probeProgExtendedQp},
}

// bypasses are what providers export to those who ring doorbells themselves (UCX
// with rc_x or dc_x does): what they then write goes by unseen.
var bypasses = []function{
	{"mlx5dv_init_obj", "", false, probeProgDirectObject, ""},
	{"mlx4dv_init_obj", "", false, probeProgDirectObject, ""},
	{"mlx5dv_devx_obj_create", "", false, probeProgDevxObject, ""},
}

// libraries are the mappings of libibverbs, one for each file.
func libraries(maps []target.Mapping) []target.Mapping {
	var all []target.Mapping
	for _, m := range maps {
		if !m.Executable || !target.IsVerbs(m.Path) {
			continue
		}
		known := false
		for _, o := range all {
			known = known || o.SameFile(m)
		}
		if !known {
			all = append(all, m)
		}
	}
	return all
}

// Watch attaches to libibverbs as a process has it mapped, and returns since when
// all of it is (ns, CLOCK_MONOTONIC): devices that the process opened before are
// found by FindContexts. A process that has not loaded it yet gives ErrNoVerbs.
func (p *Probe) Watch(pid int) (since int64, err error) {
	maps, err := target.Mappings(pid)
	if err != nil {
		return 0, err
	}
	all := libraries(maps)
	for _, m := range all {
		now, known := p.mapped(m)
		if !known {
			if now, err = p.AttachLibrary(m.File(pid)); err != nil {
				return since, fmt.Errorf("process %d, %s: %w", pid, m.Path, err)
			}
			p.note(m, now)
		}
		since = max(since, now)
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("process %d: %w", pid, ErrNoVerbs)
	}
	return since, nil
}

// mapped is since when a library is attached to that some process had mapped: to
// read the file again for each that has would cost more than all the rest.
func (p *Probe) mapped(m target.Mapping) (since int64, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, known = p.libraries[mapping{m.Dev, m.Inode}]
	return since, known
}

func (p *Probe) note(m target.Mapping, since int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.libraries) >= MaxObjects {
		clear(p.libraries)
	}
	p.libraries[mapping{m.Dev, m.Inode}] = since
}

// AttachLibrary attaches to a libibverbs, whoever has it mapped now or later.
func (p *Probe) AttachLibrary(path string) (since int64, err error) {
	l, err := open(path, target.IsVerbs)
	if err != nil {
		return 0, err
	}
	defer l.file.Close()
	return p.attachExports(l, functions)
}

func (p *Probe) attachExports(l *library, all []function) (since int64, err error) {
	for _, f := range all {
		offset, err := l.object.Symbol(f.name, f.version)
		if err != nil {
			if f.needed {
				return since, err
			}
			continue
		}
		now, err := p.on(l, offset, f.name, f.entry, f.exit)
		if err != nil {
			return since, err
		}
		since = max(since, now)
	}
	return since, nil
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
	if p.opts.Completions {
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
	defer l.file.Close()
	around, err := p.attachExports(l, bypasses)
	if err != nil {
		return 0, err
	}
	since, err = p.on(l, offset, role, entry, exit)
	return max(since, around), err
}

// provider opens the file of a provider, and finds the offset of its function. The
// caller closes the file.
func provider(pid int, maps []target.Mapping, addr uint64) (l *library, offset uint64, err error) {
	m, found := target.At(maps, addr)
	if !found || !m.Executable || !target.IsProvider(m.Path) {
		return nil, 0, ErrNotProvider
	}
	if l, err = open(m.File(pid), target.IsProvider); err != nil {
		return nil, 0, err
	}
	offset = addr - m.Start + m.Offset
	if !l.object.Starts(offset) {
		return nil, 0, errors.Join(target.ErrNotAFunction, l.file.Close())
	}
	return l, offset, nil
}

// library is an open file: what is looked at and what is attached to is the same,
// whatever the process maps meanwhile.
type library struct {
	object *target.Object
	file   *os.File
}

func (l *library) path() string { return fmt.Sprintf("/proc/self/fd/%d", l.file.Fd()) }

// open opens a file that must have such a name.
func open(name string, want func(string) bool) (*library, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open the library: %w", err)
	}
	l := &library{file: file}
	itself, err := os.Readlink(l.path())
	if err == nil && !want(itself) {
		err = fmt.Errorf("%w: it is %s", ErrNotProvider, target.FileName(itself))
	}
	if err == nil {
		l.object, err = target.Open(file)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}
