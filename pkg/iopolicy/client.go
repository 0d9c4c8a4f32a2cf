package iopolicy

import (
	"sync"
	"sync/atomic"
)

// Client is a job that does I/O. Its policy holds at every gate that it uses, and may change at any time. The zero
// value has policy Important. It must not be copied.
type Client struct {
	policy atomic.Uint32

	mu    sync.Mutex
	gates map[*Gate]struct{}
}

// NewClient makes a client.
func NewClient(p Policy) *Client {
	c := &Client{}
	c.policy.Store(uint32(p))
	return c
}

// Policy returns the policy that holds now.
func (c *Client) Policy() Policy { return Policy(c.policy.Load()) }

// SetPolicy changes the policy. Waiting operations are re-evaluated before SetPolicy returns; operations in flight end
// as what they began.
func (c *Client) SetPolicy(p Policy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Policy() == p {
		return
	}
	was := c.Policy()
	for g := range c.gates {
		g.admit(p, 1)
	}
	c.policy.Store(uint32(p))
	for g := range c.gates {
		g.reconsider(c)
		g.admit(was, -1)
	}
}

// join registers c at g.
func (c *Client) join(g *Gate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gates == nil {
		c.gates = map[*Gate]struct{}{}
	}
	if _, known := c.gates[g]; !known {
		c.gates[g] = struct{}{}
		g.admit(c.Policy(), 1)
	}
}
