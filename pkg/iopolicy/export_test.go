package iopolicy

// Armed reports whether the timer of g is running.
func (g *Gate) Armed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.queue.armed != never
}

// Flying returns how many operations of g are on the device.
func (g *Gate) Flying() int {
	_, n := g.operations()
	return n
}

// Hesitate counts an operation of a tier as begun, as Begin does before it looks whether it may go, or takes it back.
func (g *Gate) Hesitate(t Tier, by int) { g.lanes[t].begun.Add(uint64(by)) }
