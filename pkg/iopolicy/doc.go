// Package iopolicy is a tiered I/O policy in user space: jobs of a worse tier give way to the I/O of better ones, per
// device, by windows and I/O periods as in the kernel of macOS.
package iopolicy
