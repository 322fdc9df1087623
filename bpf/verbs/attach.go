//go:build linux && amd64

package verbs

import (
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"

	"github.com/kvwitness/kvwitness/bpf/target"
)

// Errors that callers tell apart.
var (
	ErrNoVerbs     = errors.New("libibverbs is not mapped")
	ErrNotProvider = errors.New("the address lies in no verbs provider")
	ErrLayout      = errors.New("the context does not have the layout of rdma-core v44 to v65")
)

// function is one that libibverbs exports. Old and new programs are bound to
// different versions of a name, so each is looked up by version.
type function struct {
	name, version string
	needed        bool // without it nothing is seen
	programs      func(*verbsObjects) (entry, exit *ebpf.Program)
}

// functions are what is attached to in libibverbs. ibv_reg_mr and
// ibv_reg_mr_iova jump to ibv_reg_mr_iova2, and both ways to open a device pass
// verbs_open_device. The version of the private one names the ABI (34 in Debian
// 12), so it is taken whatever it is.
var functions = []function{
	{"verbs_open_device", "", true, func(o *verbsObjects) (*ebpf.Program, *ebpf.Program) { return nil, o.Opened }},
	{"ibv_modify_qp", "IBVERBS_1.1", true, func(o *verbsObjects) (*ebpf.Program, *ebpf.Program) { return o.ModifyQp, nil }},
	{"ibv_reg_mr_iova2", "IBVERBS_1.8", false, func(o *verbsObjects) (*ebpf.Program, *ebpf.Program) { return o.RegMr, o.RegMrDone }},
	{"ibv_reg_dmabuf_mr", "IBVERBS_1.12", false, func(o *verbsObjects) (*ebpf.Program, *ebpf.Program) { return o.RegDmabufMr, o.RegMrDone }},
	{"ibv_dereg_mr", "IBVERBS_1.1", false, func(o *verbsObjects) (*ebpf.Program, *ebpf.Program) { return o.DeregMr, nil }},
	{"ibv_destroy_qp", "IBVERBS_1.1", false, func(o *verbsObjects) (*ebpf.Program, *ebpf.Program) { return o.DestroyQp, nil }},
	{"ibv_close_device", "IBVERBS_1.1", false, func(o *verbsObjects) (*ebpf.Program, *ebpf.Program) { return o.Closed, nil }},
	{"ibv_qp_to_qp_ex", "IBVERBS_1.6", false, func(o *verbsObjects) (*ebpf.Program, *ebpf.Program) { return nil, o.ExtendedQp }},
}

// Names of the files that are attached to, and of no others: a target's memory
// may name any address.
var (
	libraryName  = regexp.MustCompile(`^libibverbs\.so(\.[0-9.]+)?$`)
	providerName = regexp.MustCompile(`^lib[a-z0-9_]+-rdmav[0-9]+\.so$`)
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

// AttachLibrary attaches to a libibverbs, whoever has it mapped now or later.
func (p *Probe) AttachLibrary(path string) error {
	object, file, err := open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for _, f := range functions {
		offset, err := object.Symbol(f.name, f.version)
		if err != nil {
			if f.needed {
				return err
			}
			continue
		}
		entry, exit := f.programs(&p.objects)
		if err := p.on(path, offset, f.name, entry, exit); err != nil {
			return err
		}
	}
	return nil
}

// AttachContext attaches to post_send (and poll_cq, if wanted) of a context's
// provider. The addresses come out of the target's memory: they are taken only
// where a function starts in a verbs provider.
func (p *Probe) AttachContext(c Context) error {
	if !c.Known {
		return fmt.Errorf("process %d, context %#x: %w", c.PID, c.Context, ErrLayout)
	}
	if err := p.attachAddress(int(c.PID), c.PostSend, "post_send", p.objects.PostSend, nil); err != nil {
		return err
	}
	if !p.opts.Completions {
		return nil
	}
	return p.attachAddress(int(c.PID), c.PollCQ, "poll_cq", p.objects.PollCq, p.objects.PollCqDone)
}

// Indexes in Extended.Functions.
const (
	fnRead, fnWrite, fnWriteImm = 0, 1, 2
	fnSetSGE, fnSetSGEList      = 11, 12
	fnComplete                  = 14
)

// AttachExtended attaches to the extended API of a QP's provider, as
// AttachContext does.
func (p *Probe) AttachExtended(x Extended) error {
	o := &p.objects
	for _, f := range []struct {
		index   int
		role    string
		program *ebpf.Program
	}{
		{fnComplete, "wr_complete", o.ExtComplete},
		{fnSetSGE, "wr_set_sge", o.ExtSetSge},
		{fnSetSGEList, "wr_set_sge_list", o.ExtSetSgeList},
		{fnRead, "wr_rdma_read", o.ExtRead},
		{fnWrite, "wr_rdma_write", o.ExtWrite},
		{fnWriteImm, "wr_rdma_write_imm", o.ExtWriteImm},
	} {
		if x.Functions[f.index] == 0 {
			continue // the QP was not made for it
		}
		if err := p.attachAddress(int(x.PID), x.Functions[f.index], f.role, f.program, nil); err != nil {
			return err
		}
	}
	return nil
}

func (p *Probe) attachAddress(pid int, addr uint64, role string, entry, exit *ebpf.Program) error {
	maps, err := target.Mappings(pid)
	if err != nil {
		return err
	}
	m, offset, err := provider(pid, maps, addr)
	if err != nil {
		return fmt.Errorf("process %d, %s at %#x: %w", pid, role, addr, err)
	}
	return p.on(m.File(pid), offset, role, entry, exit)
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

func hasLoop() bool {
	return features.HaveProgramHelper(ebpf.Kprobe, asm.FnLoop) == nil
}
