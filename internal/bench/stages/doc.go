// Package stages measures each stage of a backup, a restore and a check separately: `make bench`. Times depend on the
// machine and its load. Every stage therefore also reports numbers that do not: system calls per object, memory
// allocated per object, operations of the gate, flushes per GiB, pages of the local index per blob, bytes hashed per
// byte read. Changes are compared by those; see docs/measurements/2026-11-performance.md.
//
// The package contains only benchmarks. Package peers compares tidemark with other programs.
package stages
