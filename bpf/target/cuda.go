package target

import (
	"regexp"
	"strings"
)

// cudaName is what the CUDA driver's library is called: by the number of its interface,
// or by the version of the driver.
var cudaName = regexp.MustCompile(`^libcuda\.so((\.[0-9]+)*)$`)

// IsCUDA reports whether a path is of the CUDA driver's library, by its name.
func IsCUDA(of string) bool { return cudaName.MatchString(FileName(of)) }

// CUDAVersion is the version of the driver that a path says, as 550.54.15; empty: it says
// none.
func CUDAVersion(of string) string {
	parts := cudaName.FindStringSubmatch(FileName(of))
	if parts == nil || strings.Count(parts[1], ".") < 2 {
		return ""
	}
	return strings.TrimPrefix(parts[1], ".")
}
