// Package load puts a probe into the kernel and takes out what it says: the
// part that is the same for every probe of system calls.
//
// It imports the loader of BPF programs. It promises:
//   - nothing is attached unless everything was loaded, and Close undoes all;
//   - Drain reads what was there when it was called and no more, so that a
//     busy producer cannot hold it for ever;
//   - maps that the kernel's side only fills are pruned here, by inode.
//
// The programs hang on the raw tracepoint sys_exit, which needs no tracefs and
// no debugfs.
package load
