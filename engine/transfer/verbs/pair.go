//go:build linux && cgo

package verbs

// #include "shim.h"
import "C"

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
)

// How the NIC retries: an answer that does not come within 4.096 µs × 2^ackTimeout,
// which is half a second, is asked for ackRetries times. A peer that is gone is so
// told after four seconds, or more where the NIC takes the time to be a least one.
const (
	ackTimeout = 17
	ackRetries = 7
	hopLimit   = 64
)

// domain is a protection domain with a completion queue, and what is registered in
// it.
type domain struct {
	d       *device
	pd      *C.struct_abi_pd
	channel *C.struct_abi_comp_channel // nil: nobody waits
	cq      *C.struct_abi_cq
	mrs     []*C.struct_abi_mr
	pins    runtime.Pinner
}

func (d *device) domain(depth int, waits bool) (*domain, error) {
	m := &domain{d: d}
	var err error
	if m.pd, err = C.shim_alloc_pd(d.lib, d.ctx); m.pd == nil {
		return nil, missing("make a protection domain", err)
	}
	if waits {
		if m.channel, err = C.shim_create_channel(d.lib, d.ctx); m.channel == nil {
			return nil, errors.Join(missing("make a completion channel", err), m.close())
		}
	}
	if m.cq, err = C.shim_create_cq(d.lib, d.ctx, C.int(depth), m.channel); m.cq == nil {
		return nil, errors.Join(missing("make a completion queue", err), m.close())
	}
	return m, nil
}

// register gives the NIC access to memory, which must stay until close.
func (m *domain) register(base, size uint64, access C.int) (*C.struct_abi_mr, error) {
	mr, err := C.shim_register(m.d.lib, m.pd, C.uintptr_t(base), C.size_t(size), access)
	if mr == nil {
		return nil, missing(fmt.Sprintf("register %d bytes at %#x with %s", size, base, m.d.name), err)
	}
	m.mrs = append(m.mrs, mr)
	return mr, nil
}

// close releases everything, once no queue pair is left.
func (m *domain) close() error {
	var errs []error
	for _, mr := range m.mrs {
		errs = append(errs, failed("deregister memory", C.shim_deregister(m.d.lib, mr)))
	}
	m.pins.Unpin()
	if m.cq != nil {
		errs = append(errs, failed("destroy a completion queue", C.shim_destroy_cq(m.d.lib, m.cq)))
	}
	if m.channel != nil {
		errs = append(errs, failed("destroy a completion channel", C.shim_destroy_channel(m.d.lib, m.channel)))
	}
	return errors.Join(append(errs, failed("release a protection domain", C.shim_dealloc_pd(m.d.lib, m.pd)))...)
}

// pair is a queue pair.
type pair struct {
	d   *device
	qp  *C.struct_abi_qp
	psn uint32
}

// pair makes a queue pair that can be connected. writable: its peer may write.
func (m *domain) pair(depth int, writable bool) (*pair, error) {
	qp, err := C.shim_create_qp(m.d.lib, m.pd, m.cq, C.uint32_t(depth))
	if qp == nil {
		return nil, missing("make a queue pair", err)
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	p := &pair{d: m.d, qp: qp, psn: binary.LittleEndian.Uint32(b[:]) & maxQPN}
	a := C.struct_abi_qp_attr{qp_state: C.ABI_QPS_INIT, port_num: C.uint8_t(m.d.port)}
	if writable {
		a.qp_access_flags = C.ABI_ACCESS_REMOTE_WRITE
	}
	const which = C.ABI_QP_STATE | C.ABI_QP_PKEY_INDEX | C.ABI_QP_PORT | C.ABI_QP_ACCESS_FLAGS
	if err := p.modify("prepare a queue pair", &a, which); err != nil {
		return nil, errors.Join(err, p.destroy())
	}
	return p, nil
}

func (p *pair) modify(what string, a *C.struct_abi_qp_attr, which C.int) error {
	return failed(what, C.shim_modify_qp(p.d.lib, p.qp, a, which))
}

// end is what the other side must know.
func (p *pair) end() end {
	return end{Version: version, QPN: uint32(p.qp.qp_num), PSN: p.psn, GID: p.d.gid, LID: p.d.lid, MTU: p.d.mtu}
}

// receive connects to the other side's queue pair, as far as writes from there
// need.
func (p *pair) receive(e end) error {
	a := C.struct_abi_qp_attr{
		qp_state: C.ABI_QPS_RTR, path_mtu: C.uint32_t(min(p.d.mtu, e.MTU)), dest_qp_num: C.uint32_t(e.QPN), rq_psn: C.uint32_t(e.PSN),
		max_dest_rd_atomic: 1, min_rnr_timer: 12,
	}
	a.ah_attr = C.struct_abi_ah_attr{dlid: C.uint16_t(e.LID), port_num: C.uint8_t(p.d.port)}
	if p.d.global {
		a.ah_attr.is_global, a.ah_attr.hop_limit, a.ah_attr.sgid_index = 1, hopLimit, C.uint8_t(p.d.at)
		for i, b := range e.GID.As16() {
			a.ah_attr.dgid[i] = C.uint8_t(b)
		}
	}
	const which = C.ABI_QP_STATE | C.ABI_QP_AV | C.ABI_QP_PATH_MTU | C.ABI_QP_DEST_QPN | C.ABI_QP_RQ_PSN |
		C.ABI_QP_MAX_DEST_RD_ATOMIC | C.ABI_QP_MIN_RNR_TIMER
	return p.modify(fmt.Sprintf("connect %v to queue pair %d at %s", p.d, e.QPN, e.GID), &a, which)
}

// send lets a queue pair that can receive send too.
func (p *pair) send() error {
	a := C.struct_abi_qp_attr{
		qp_state: C.ABI_QPS_RTS, sq_psn: C.uint32_t(p.psn), timeout: ackTimeout, retry_cnt: ackRetries, rnr_retry: ackRetries, max_rd_atomic: 1,
	}
	const which = C.ABI_QP_STATE | C.ABI_QP_TIMEOUT | C.ABI_QP_RETRY_CNT | C.ABI_QP_RNR_RETRY | C.ABI_QP_SQ_PSN | C.ABI_QP_MAX_QP_RD_ATOMIC
	return p.modify("let a queue pair send", &a, which)
}

// fail ends what is under way: its requests complete with an error.
func (p *pair) fail() error {
	a := C.struct_abi_qp_attr{qp_state: C.ABI_QPS_ERR}
	return p.modify("end a queue pair", &a, C.ABI_QP_STATE)
}

func (p *pair) destroy() error {
	return failed("destroy a queue pair", C.shim_destroy_qp(p.d.lib, p.qp))
}
