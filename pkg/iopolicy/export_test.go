package iopolicy

// Armed reports whether the timer of g is running.
func (g *Gate) Armed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.armed != never
}

// Flying returns how many operations of g are on the device.
func (g *Gate) Flying() int {
	_, n := g.census()
	return n
}
