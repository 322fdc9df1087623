package cuts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// The network block device protocol, by which QEMU reads and writes a disk of ours:
// fixed newstyle negotiation and simple replies. Source: the NBD project's
// doc/proto.md.
const (
	nbdMagic      = 0x4e42444d41474943 // NBDMAGIC
	optMagic      = 0x49484156454f5054 // IHAVEOPT
	optReplyMagic = 0x3e889045565a9
	requestMagic  = 0x25609513
	replyMagic    = 0x67446698

	fixedNewstyle  = 1 // of the handshake
	hasFlags       = 1 // of the export
	sendsFlush     = 4
	optGo          = 7
	replyAck       = 1
	replyInfo      = 3
	replyUnknown   = 1<<31 + 1
	infoExport     = 0
	commandRead    = 0
	commandWrite   = 1
	commandLeave   = 2
	commandFlush   = 3
	errInvalid     = 22 // EINVAL
	maxOption      = 4 << 10
	maxRequest     = 32 << 20
	requestBytes   = 28
	optReplyPrefix = 20
)

var errLeft = errors.New("the client left")

// serve lets the one client that connects use the disk, until it leaves or the power
// goes.
func (d *disk) serve(l net.Listener) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := d.greet(c); err != nil {
		return fmt.Errorf("agree with the client of the disk: %w", err)
	}
	for {
		if err := d.request(c); errors.Is(err, errLeft) {
			return nil
		} else if err != nil {
			return fmt.Errorf("serve the disk: %w", err)
		}
	}
}

// greet goes through the options until the client asks to begin.
func (d *disk) greet(c net.Conn) error {
	hello := binary.BigEndian.AppendUint64(nil, nbdMagic)
	hello = binary.BigEndian.AppendUint64(hello, optMagic)
	hello = binary.BigEndian.AppendUint16(hello, fixedNewstyle)
	if _, err := c.Write(hello); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, make([]byte, 4)); err != nil { // its flags: nothing hangs on them
		return err
	}
	for {
		var head [16]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return err
		}
		option, size := binary.BigEndian.Uint32(head[8:]), binary.BigEndian.Uint32(head[12:])
		if binary.BigEndian.Uint64(head[:]) != optMagic || size > maxOption {
			return fmt.Errorf("option %d of %d bytes", option, size)
		}
		if _, err := io.CopyN(io.Discard, c, int64(size)); err != nil {
			return err
		}
		if option != optGo {
			if err := optReply(c, option, replyUnknown, nil); err != nil {
				return err
			}
			continue
		}
		export := binary.BigEndian.AppendUint16(nil, infoExport)
		export = binary.BigEndian.AppendUint64(export, uint64(len(d.kept)))
		export = binary.BigEndian.AppendUint16(export, hasFlags|sendsFlush)
		return errors.Join(optReply(c, option, replyInfo, export), optReply(c, option, replyAck, nil))
	}
}

func optReply(c net.Conn, option, kind uint32, data []byte) error {
	b := make([]byte, 0, optReplyPrefix+len(data))
	b = binary.BigEndian.AppendUint64(b, optReplyMagic)
	b = binary.BigEndian.AppendUint32(b, option)
	b = binary.BigEndian.AppendUint32(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	_, err := c.Write(append(b, data...))
	return err
}

// request does one thing that the client asks for. Without power there is no answer.
func (d *disk) request(c net.Conn) error {
	var head [requestBytes]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	command := binary.BigEndian.Uint16(head[6:])
	cookie, at := head[8:16], int64(binary.BigEndian.Uint64(head[16:]))
	size := int64(binary.BigEndian.Uint32(head[24:]))
	switch {
	case binary.BigEndian.Uint32(head[:]) != requestMagic:
		return fmt.Errorf("a request begins with %x", head[:4])
	case command == commandLeave:
		return errLeft
	case size > maxRequest:
		return fmt.Errorf("a request of %d bytes", size)
	case at < 0 || at > int64(len(d.kept))-size || command == commandWrite && (at%sector != 0 || size%sector != 0):
		return fmt.Errorf("command %d on %d bytes at %d", command, size, at)
	}
	data := make([]byte, size)
	var failed uint32
	powered := true
	switch command {
	case commandRead:
		d.read(data, at)
	case commandWrite:
		if _, err := io.ReadFull(c, data); err != nil {
			return err
		}
		powered = d.write(data, at)
		data = nil
	case commandFlush:
		powered = d.flush()
	default:
		failed = errInvalid
		data = nil
	}
	if !powered {
		return nil
	}
	b := binary.BigEndian.AppendUint32(nil, replyMagic)
	b = binary.BigEndian.AppendUint32(b, failed)
	_, err := c.Write(append(append(b, cookie...), data...))
	return err
}
