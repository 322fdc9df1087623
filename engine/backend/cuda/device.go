//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/kvwitness/kvwitness/kernels"
)

// Built says whether this binary has the backend.
const Built = true

// device is a context on a GPU with the kernels loaded, and one stream.
type device struct {
	context    cu.CUContext
	module     cu.Module
	stream     cu.Stream
	functions  map[string]cu.Function
	processors int
}

// failed names the driver's call in its error; nil stays nil.
func failed(call string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", call, err)
}

// GPU names the first GPU: its name, compute capability and the driver's version.
func GPU() (string, error) {
	d, err := cu.GetDevice(0)
	if err != nil {
		return "", failed("cuDeviceGet(0)", err)
	}
	name, err := d.Name()
	if err != nil {
		return "", failed("cuDeviceGetName", err)
	}
	major, minor, err := d.ComputeCapability()
	if err != nil {
		return "", failed("cuDeviceGetAttribute(compute capability)", err)
	}
	if _, err = kernels.PTX(major, minor); err != nil {
		return "", err
	}
	if managed, err := d.Attribute(cu.ConcurrentManagedAccess); err != nil || managed == 0 {
		return "", errors.Join(failed("cuDeviceGetAttribute(concurrent managed access)", err),
			errors.New("the CPU and this GPU may not use managed memory at the same time"))
	}
	v := cu.Version()
	return fmt.Sprintf("%s, compute capability %d.%d, driver for CUDA %d.%d", name, major, minor, v/1000, v%1000/10), nil
}

// openDevice makes a context on the first GPU and loads the kernels. The caller is
// within enter and leave of the returned device already.
func openDevice() (d *device, err error) {
	runtime.LockOSThread()
	defer func() {
		if err != nil {
			runtime.UnlockOSThread()
		}
	}()
	if _, err = GPU(); err != nil {
		return nil, err
	}
	gpu, err := cu.GetDevice(0)
	if err != nil {
		return nil, failed("cuDeviceGet(0)", err)
	}
	d = &device{functions: map[string]cu.Function{}}
	if d.processors, err = gpu.Attribute(cu.MultiprocessorCount); err != nil {
		return nil, failed("cuDeviceGetAttribute(multiprocessors)", err)
	}
	if d.context, err = gpu.MakeContext(cu.SchedAuto); err != nil {
		return nil, failed("cuCtxCreate", err)
	}
	if err = d.load(gpu); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *device) load(gpu cu.Device) error {
	major, minor, err := gpu.ComputeCapability()
	if err != nil {
		return failed("cuDeviceGetAttribute(compute capability)", err)
	}
	ptx, err := kernels.PTX(major, minor)
	if err != nil {
		return err
	}
	if d.module, err = cu.LoadData(ptx); err != nil {
		return failed("cuModuleLoadData", err)
	}
	if d.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return failed("cuStreamCreate", err)
	}
	return nil
}

// function finds a kernel by its name and remembers it.
func (d *device) function(name string) (cu.Function, error) {
	f, ok := d.functions[name]
	if ok {
		return f, nil
	}
	f, err := d.module.Function(name)
	if err != nil {
		return f, failed("cuModuleGetFunction("+name+")", err)
	}
	d.functions[name] = f
	return f, nil
}

// enter makes the context current on this goroutine's thread, until leave.
func (d *device) enter() error {
	runtime.LockOSThread()
	if err := cu.SetCurrentContext(d.context); err != nil {
		runtime.UnlockOSThread()
		return failed("cuCtxSetCurrent", err)
	}
	return nil
}

func (d *device) leave() { runtime.UnlockOSThread() }

// launch queues a kernel, whose argument lies at args.
func (d *device) launch(name string, grid [3]int, threads int, args kernels.Ptr) error {
	f, err := d.function(name)
	if err != nil {
		return err
	}
	err = f.Launch(grid[0], grid[1], grid[2], threads, 1, 1, 0, d.stream, []unsafe.Pointer{unsafe.Pointer(&args)})
	return failed("cuLaunchKernel("+name+")", err)
}

// wait returns when all that was queued is done; a kernel's fault is told here.
func (d *device) wait() error { return failed("cuStreamSynchronize", d.stream.Synchronize()) }

// close frees what openDevice made.
func (d *device) close() error {
	var errs []error
	if d.stream != (cu.Stream{}) {
		errs = append(errs, failed("cuStreamDestroy", d.stream.Destroy()))
	}
	if d.module != (cu.Module{}) {
		errs = append(errs, failed("cuModuleUnload", d.module.Unload()))
	}
	return errors.Join(append(errs, failed("cuCtxDestroy", d.context.Destroy()))...)
}
