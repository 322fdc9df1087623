// Package uprobe attaches the programs of a probe to functions of libraries that
// processes have mapped: the part that is the same for each such probe.
//
// It imports bpf/load and bpf/target. It promises:
//   - a program is attached to a function of a file once, whoever has that file
//     mapped, also where containers of one image have it under inodes of their own;
//   - what is looked at and what is attached to is the same open file, whatever a
//     process maps meanwhile;
//   - a place that was refused is attached to by nobody any more;
//   - nothing is attached any more after Close.
//
// Which file and which function it may be is for the caller to decide (DESIGN
// section 7).
package uprobe
