package target

import (
	"path"
	"regexp"
	"strings"
)

// Names of the files that take part in RDMA. Those whose direct API is public are
// called by their own name, the others by the ABI's number; wheels of Python carry
// libraries with a hash in their name.
var (
	verbsName    = regexp.MustCompile(`^libibverbs(-[0-9a-f]+)?\.so[0-9.]*$`)
	providerName = regexp.MustCompile(`^lib([a-z0-9_]+-rdmav[0-9]+\.so|(mlx4|mlx5|efa|mana|hns|bnxt_re|irdma)(-[0-9a-f]+)?\.so[0-9.]*)$`)
	ucxName      = regexp.MustCompile(`^libucp(-[0-9a-f]+)?\.so[0-9.]*$`)
	uctName      = regexp.MustCompile(`^libuc[pt](_[a-z0-9_]+)?(-[0-9a-f]+)?\.so[0-9.]*$`)
)

// FileName is the last part of a path, also of one that was deleted meanwhile.
func FileName(of string) string { return path.Base(strings.TrimSuffix(of, " (deleted)")) }

// IsVerbs reports whether a path is of libibverbs, by its name.
func IsVerbs(of string) bool { return verbsName.MatchString(FileName(of)) }

// IsProvider reports whether a path is of a provider of verbs.
func IsProvider(of string) bool { return providerName.MatchString(FileName(of)) }

// IsUCX reports whether a path is of UCX.
func IsUCX(of string) bool { return ucxName.MatchString(FileName(of)) }

// IsTransport reports whether a path is of one of UCX's own transports, by its name: they
// do what UCX is asked for.
func IsTransport(of string) bool { return uctName.MatchString(FileName(of)) }
