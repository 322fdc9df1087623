package target

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// MaxMappings bounds the mappings of a process that are read. An engine has some
// thousands.
const MaxMappings = 1 << 17

// ErrTooManyMappings says that a process has more than MaxMappings.
var ErrTooManyMappings = errors.New("too many mappings")

// Mapping is a part of a file that a process has mapped.
type Mapping struct {
	Start, End uint64 // addresses in the process, End not included
	Offset     uint64 // in the file, bytes
	Executable bool
	Writable   bool
	Inode      uint64
	Dev        string // major:minor
	Path       string // as the process sees it; "" for anonymous memory
}

// File names the mapped file itself, whatever the mount namespace and even if
// it was deleted: /proc/PID/map_files resolves to its inode.
func (m Mapping) File(pid int) string {
	return fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End)
}

// SameFile reports whether two mappings are of one file.
func (m Mapping) SameFile(o Mapping) bool {
	return m.Inode != 0 && m.Inode == o.Inode && m.Dev == o.Dev
}

// Mappings reads /proc/PID/maps.
func Mappings(pid int) ([]Mapping, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, fmt.Errorf("read the mappings of process %d: %w", pid, err)
	}
	defer f.Close()
	all, err := parseMaps(f)
	if err != nil {
		return nil, fmt.Errorf("read the mappings of process %d: %w", pid, err)
	}
	return all, nil
}

// parseMaps reads the format of proc(5): start-end perms offset dev inode path.
func parseMaps(r io.Reader) ([]Mapping, error) {
	var all []Mapping
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if len(all) == MaxMappings {
			return nil, ErrTooManyMappings
		}
		m, err := parseMapping(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(all)+1, err)
		}
		all = append(all, m)
	}
	return all, lines.Err()
}

func parseMapping(line string) (Mapping, error) {
	var m Mapping
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return m, fmt.Errorf("%d fields, want at least 5", len(fields))
	}
	start, end, dash := strings.Cut(fields[0], "-")
	if !dash || len(fields[1]) != 4 {
		return m, fmt.Errorf("%q is no range with permissions", fields[0])
	}
	numbers := []struct {
		text string
		base int
		to   *uint64
	}{{start, 16, &m.Start}, {end, 16, &m.End}, {fields[2], 16, &m.Offset}, {fields[4], 10, &m.Inode}}
	for _, n := range numbers {
		v, err := strconv.ParseUint(n.text, n.base, 64)
		if err != nil {
			return m, err
		}
		*n.to = v
	}
	if m.End <= m.Start {
		return m, fmt.Errorf("the range %s is empty", fields[0])
	}
	m.Writable, m.Executable = fields[1][1] == 'w', fields[1][2] == 'x'
	m.Dev = fields[3]
	if len(fields) > 5 {
		// The path may hold blanks; it begins where the sixth field does.
		rest := line
		for range 5 {
			rest = strings.TrimLeft(rest, " ")
			_, rest, _ = strings.Cut(rest, " ")
		}
		m.Path = strings.TrimLeft(rest, " ")
	}
	return m, nil
}

// At is the mapping that an address lies in.
func At(all []Mapping, addr uint64) (Mapping, bool) {
	for _, m := range all {
		if m.Start <= addr && addr < m.End {
			return m, true
		}
	}
	return Mapping{}, false
}
