// Package cuts holds that evidence survives power cuts. A virtual machine with
// Debian's kernel (test/vm/ready.sh) keeps incidents on an ext4 file system, on a
// disk of this package's own ([disk]) that loses what was not flushed when its power
// goes, sector by sector, as real disks may. Then the machine is killed, boots again
// on what is left, and says what it has (cuts/guest).
//
//	go test -timeout 1h ./test/cuts -args -cuts 20 -seed N
//
// It imports nothing of kvwitness. Emulation in software distorts time: on a machine of
// two cores with nothing else to do a cut takes some seconds.
package cuts
