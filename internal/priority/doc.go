// Package priority lowers the CPU priority and the kernel-side I/O priority of this process or another.
package priority
