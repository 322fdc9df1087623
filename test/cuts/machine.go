package cuts

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// modules are what the kernel needs of its own for a disk with ext4.
var modules = []string{"virtio_pci", "virtio_blk", "crc32c_generic", "ext4"}

// machine is what boots, again and again.
type machine struct {
	dir, kernel, initrd string
}

// newMachine builds the guest and what the kernel begins with.
func newMachine(dir string) (*machine, error) {
	out, err := exec.Command("../vm/ready.sh").Output()
	if err != nil {
		return nil, fmt.Errorf("see to the kernel: %w", err)
	}
	at := strings.TrimSpace(string(out))
	version := strings.TrimPrefix(filepath.Base(at), "linux-image-")
	m := &machine{dir, filepath.Join(dir, "vmlinux"), filepath.Join(dir, "initrd")}
	if err := unpacked(filepath.Join(at, "root/boot/vmlinuz-"+version), m.kernel); err != nil {
		return nil, fmt.Errorf("unpack the kernel: %w", err)
	}
	guest := filepath.Join(dir, "guest")
	build := exec.Command("go", "build", "-o", guest, "./guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the guest: %w: %s", err, out)
	}
	files := [][2]string{{"init", guest}}
	known := map[string]bool{}
	for _, name := range modules {
		out, err := exec.Command("modprobe", "-d", filepath.Join(at, "root"), "-S", version, "--show-depends", name).Output()
		if err != nil {
			return nil, fmt.Errorf("look for module %s: %w", name, err)
		}
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "insmod" && !known[f[1]] {
				known[f[1]] = true
				files = append(files, [2]string{fmt.Sprintf("modules/%02d-%s", len(known), filepath.Base(f[1])), f[1]})
			}
		}
	}
	return m, archive(m.initrd, files)
}

// unpacked writes the kernel that an image of Debian's packs. To unpack it here, once,
// saves an emulated processor most of the time that it takes to boot.
func unpacked(image, to string) error {
	text, err := os.ReadFile(image)
	if err != nil {
		return err
	}
	at := bytes.Index(text, []byte("\xfd7zXZ\x00"))
	if at < 0 {
		return fmt.Errorf("%s is not packed by xz", image)
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	unpack := exec.Command("xz", "-dc", "--single-stream")
	unpack.Stdin, unpack.Stdout, unpack.Stderr = bytes.NewReader(text[at:]), out, os.Stderr
	return errors.Join(unpack.Run(), out.Close())
}

// archive writes a cpio archive (newc) of files, by name and where each is, with the
// folder that the modules are in.
func archive(to string, files [][2]string) error {
	var b strings.Builder
	entry := func(name string, mode, links int, text []byte) {
		fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", b.Len(), mode, 0, 0, links, 0, len(text), 0, 0, 0, 0, len(name)+1, 0)
		for _, part := range []string{name + "\x00", string(text)} {
			b.WriteString(part)
			b.WriteString(strings.Repeat("\x00", -b.Len()&3))
		}
	}
	entry("modules", 0o40755, 2, nil)
	for _, f := range files {
		text, err := os.ReadFile(f[1])
		if err != nil {
			return err
		}
		entry(f[0], 0o100755, 1, text)
	}
	entry("TRAILER!!!", 0, 1, nil)
	return os.WriteFile(to, []byte(b.String()), 0o600)
}

// running is a machine that was switched on.
type running struct {
	cmd    *exec.Cmd
	words  *bufio.Scanner
	served chan error // of the disk
}

// boot switches it on, with a disk; keep: what the guest shall do.
func (m *machine) boot(d *disk, keep string) (*running, error) {
	socket := filepath.Join(m.dir, "disk")
	_ = os.Remove(socket)
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	r := &running{served: make(chan error, 1)}
	go func() {
		defer l.Close()
		r.served <- d.serve(l)
	}()
	r.cmd = exec.Command("qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", "512M", "-no-reboot", "-nographic", "-nodefaults",
		"-kernel", m.kernel, "-initrd", m.initrd,
		"-append", "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off nokaslr nowatchdog random.trust_cpu=on KEEP="+keep,
		"-serial", "file:"+filepath.Join(m.dir, "kernel"), "-serial", "stdio",
		"-drive", "if=none,id=disk,format=raw,cache=writeback,file=nbd+unix:///?socket="+socket,
		"-device", fmt.Sprintf("virtio-blk-pci,drive=disk,logical_block_size=%d,physical_block_size=%d", sector, sector))
	r.cmd.Stderr = os.Stderr
	out, err := r.cmd.StdoutPipe()
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("switch the machine on: %w", err)
	}
	r.words = bufio.NewScanner(out)
	return r, nil
}

// off takes its power away.
func (r *running) off() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	<-r.served
}
