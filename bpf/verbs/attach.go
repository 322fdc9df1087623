//go:build linux && amd64

package verbs

import (
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"

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

// Names of the files that are attached to, and of no others: a target's memory
// may name any address.
var (
	libraryName  = regexp.MustCompile(`^libibverbs\.so(\.[0-9.]+)?$`)
	providerName = regexp.MustCompile(`^lib([a-z0-9_]+-rdmav[0-9]+\.so|(mlx4|mlx5|efa|mana|hns|bnxt_re|irdma)\.so[0-9.]*)$`)
)

// libraries are the mappings of libibverbs, one for each file.
func libraries(maps []target.Mapping) []target.Mapping {
	var all []target.Mapping
	for _, m := range maps {
		if !m.Executable || !libraryName.MatchString(path.Base(m.Path)) {
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

// Watch attaches to libibverbs as a process has it mapped. fresh reports whether
// one of its libraries was not attached to before: devices that the process opened
// until then are found by FindContexts. A process that has not loaded it yet gives
// ErrNoVerbs.
func (p *Probe) Watch(pid int) (fresh bool, err error) {
	maps, err := target.Mappings(pid)
	if err != nil {
		return false, err
	}
	all := libraries(maps)
	for _, m := range all {
		now, err := p.AttachLibrary(m.File(pid))
		if err != nil {
			return fresh, fmt.Errorf("process %d, %s: %w", pid, m.Path, err)
		}
		fresh = fresh || now
	}
	if len(all) == 0 {
		return false, fmt.Errorf("process %d: %w", pid, ErrNoVerbs)
	}
	return fresh, nil
}

// AttachLibrary attaches to a libibverbs, whoever has it mapped now or later.
func (p *Probe) AttachLibrary(path string) (fresh bool, err error) {
	object, file, err := open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	return p.attachExports(object, path, functions)
}

func (p *Probe) attachExports(object *target.Object, path string, all []function) (fresh bool, err error) {
	for _, f := range all {
		offset, err := object.Symbol(f.name, f.version)
		if err != nil {
			if f.needed {
				return fresh, err
			}
			continue
		}
		now, err := p.on(path, offset, f.name, f.entry, f.exit)
		if err != nil {
			return fresh, err
		}
		fresh = fresh || now
	}
	return fresh, nil
}

// AttachContext attaches to post_send (and poll_cq, if wanted) of a context's
// provider, and to its ways around post_send. The addresses come out of the
// target's memory: they are taken only where a function starts in a verbs
// provider. fresh reports whether post_send was not attached to before: what the
// context posted until then was not seen.
func (p *Probe) AttachContext(c source.Context) (fresh bool, err error) {
	if !c.Known {
		return false, fmt.Errorf("process %d, context %#x: %w", c.PID, c.Context, ErrLayout)
	}
	if p.opts.Completions {
		if _, err := p.attachAddress(int(c.PID), c.PollCQ, "poll_cq", probeProgPollCq, probeProgPollCqDone); err != nil {
			return false, err
		}
	}
	return p.attachAddress(int(c.PID), c.PostSend, "post_send", probeProgPostSend, "")
}

// Indexes in Extended.Functions.
const (
	fnRead, fnWrite, fnWriteImm = 0, 1, 2
	fnSetSGE, fnSetSGEList      = 11, 12
	fnComplete                  = 14
)

// AttachExtended attaches to the extended API of a QP's provider, as
// AttachContext does.
func (p *Probe) AttachExtended(x source.Extended) (fresh bool, err error) {
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
			return fresh, err
		}
		fresh = fresh || now
	}
	return fresh, nil
}

func (p *Probe) attachAddress(pid int, addr uint64, role, entry, exit string) (fresh bool, err error) {
	maps, err := target.Mappings(pid)
	if err != nil {
		return false, err
	}
	m, offset, err := provider(pid, maps, addr)
	if err != nil {
		return false, fmt.Errorf("process %d, %s at %#x: %w", pid, role, addr, err)
	}
	if fresh, err = p.on(m.File(pid), offset, role, entry, exit); err != nil || !fresh {
		return fresh, err
	}
	object, file, err := open(m.File(pid))
	if err != nil {
		return fresh, err
	}
	defer file.Close()
	_, err = p.attachExports(object, m.File(pid), bypasses)
	return fresh, err
}

// provider finds the file and offset of a provider's function.
func provider(pid int, maps []target.Mapping, addr uint64) (target.Mapping, uint64, error) {
	m, found := target.At(maps, addr)
	if !found || !m.Executable || !providerName.MatchString(path.Base(m.Path)) {
		return m, 0, ErrNotProvider
	}
	object, file, err := open(m.File(pid))
	if err != nil {
		return m, 0, err
	}
	defer file.Close()
	offset := addr - m.Start + m.Offset
	if !object.Starts(offset) {
		return m, 0, target.ErrNotAFunction
	}
	return m, offset, nil
}

func open(path string) (*target.Object, *os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("open the library: %w", err)
	}
	object, err := target.Open(file)
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return object, file, nil
}
