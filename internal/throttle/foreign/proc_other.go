//go:build !linux

package foreign

func hostProcesses() processOpener { return noProcesses{} }

// noProcesses is a system without visible processes.
type noProcesses struct{}

func (noProcesses) open(int, uint64) (process, error) { return nil, errEnded }
func (noProcesses) children(_ int, to []int) []int    { return to }

func hostTable() processTable { return noProcesses{} }

func (noProcesses) scan(map[int]usage) map[int]usage { return map[int]usage{} }
func (noProcesses) where(int, OnDevice) location     { return unknownLocation }
func (noProcesses) name(int) string                  { return "" }
