// Package load puts a probe into the kernel and takes out what it says: the
// part that is the same for every probe.
//
// It imports the loader of BPF programs. It promises:
//   - nothing is attached unless everything was loaded, and Close undoes all;
//   - Drain reads what was there when it was called and no more, so that a
//     busy producer cannot hold it for ever;
//   - maps that the kernel's side only fills are pruned here, by inode.
//
// The programs hang on raw tracepoints, which need no tracefs and no debugfs; those
// that hang elsewhere are attached by their own package.
package load
