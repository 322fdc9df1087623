package nvml

import (
	_ "embed" // of the library's source
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed mock/driver.c
var source []byte

// variable names the script's file to the library.
const variable = "MOCK_NVML_SCRIPT"

// Blank is what the driver lists for a process of which it does not know how much it
// holds.
const Blank = -1

// Calls are the functions that may fail, hang, crash or answer nothing.
var Calls = []string{
	"nvmlInit", "nvmlSystemGetDriverVersion", "nvmlSystemGetConfComputeState", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex",
	"nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetBAR1MemoryInfo", "nvmlDeviceGetTotalEccErrors",
	"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
	"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses",
	"nvmlEventSetCreate", "nvmlDeviceRegisterEvents", "nvmlEventSetWait", "nvmlShutdown",
}

// Script is what the library answers, line by line; see mock/driver.c.
type Script []string

// Say adds a line.
func (s Script) Say(format string, args ...any) Script {
	return append(s[:len(s):len(s)], fmt.Sprintf(format, args...))
}

// Driver is the library, and the file that says what it answers.
type Driver struct{ Library, file string }

// Build compiles the library into dir.
func Build(dir string) (*Driver, error) {
	d := &Driver{Library: filepath.Join(dir, "libnvidia-ml.so.1"), file: filepath.Join(dir, "script")}
	from := filepath.Join(dir, "driver.c")
	if err := os.WriteFile(from, source, 0o600); err != nil {
		return nil, fmt.Errorf("build the stand-in: %w", err)
	}
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-O1", "-o", d.Library, from).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the stand-in: %w: %s", err, out)
	}
	return d, nil
}

// Env is the variable that a process needs to have, for the library to find its
// script.
func (d *Driver) Env() (name, value string) { return variable, d.file }

// Answer has the library answer another script from its next call on.
func (d *Driver) Answer(s Script) error {
	next := d.file + ".next"
	if err := os.WriteFile(next, []byte(strings.Join(s, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the script: %w", err)
	}
	return os.Rename(next, d.file)
}

// At is the same library with a script of its own, in dir.
func (d *Driver) At(dir string) (*Driver, error) {
	own := &Driver{Library: d.Library, file: filepath.Join(dir, "script")}
	return own, own.Answer(nil)
}
