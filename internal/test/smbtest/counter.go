package smbtest

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"
)

const (
	// pending is the status of an interim answer that another one follows, from [MS-ERREF] 2.3.1.
	pending = 0x103
	// codes is how many commands the protocol has, from [MS-SMB2] 2.2.1.2.
	codes = 0x13
)

// commandName is the name of a command in the tables.
func commandName(code uint16) string {
	switch code {
	case 0, 1, 2, 3, 4:
		return "session"
	case 5:
		return "create"
	case 6:
		return "close"
	case 7:
		return "flush"
	case 8:
		return "read"
	case 9:
		return "write"
	case 0xd:
		return "echo"
	case 0xe:
		return "list"
	case 0x10:
		return "query"
	case 0x11:
		return "set"
	}
	return "other"
}

// CommandNames are all of them.
func CommandNames() (names []string) {
	for code := range uint16(codes) {
		if name := commandName(code); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Counter counts the frames that pass a proxy, which delays all frames equally.
type Counter struct {
	oneWay time.Duration

	mu      sync.Mutex
	asked   [codes]int
	sent    map[[2]uint64]int // by connection and number: 1 + the deepest answer that was there when it was sent
	arrived []arrival         // answers on their way, or there, and not yet in depth
	depth   int
}

// arrival is an answer that is there from a moment on.
type arrival struct {
	at    time.Time
	depth int
}

// Watch makes a Counter of what passes p from now on.
func Watch(p *Proxy, roundTrip time.Duration) *Counter {
	c := &Counter{oneWay: roundTrip / 2, sent: map[[2]uint64]int{}}
	p.Filter(c.look)
	return c
}

func (c *Counter) look(f *Frame) Verdict {
	if !f.Clear() || int(f.Command()) >= codes {
		return Pass
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]uint64{uint64(f.Connection), f.Message()}
	if f.ToServer {
		c.asked[f.Command()]++
		c.sent[key] = c.waited(now) + 1
		return Pass
	}
	depth, known := c.sent[key]
	if !known || binary.LittleEndian.Uint32(f.Data[8:]) == pending {
		return Pass
	}
	delete(c.sent, key)
	c.arrived = append(c.arrived, arrival{now.Add(c.oneWay), depth})
	return Pass
}

// waited returns how many sequential answers were awaited up to a moment. c.mu is held.
func (c *Counter) waited(now time.Time) int {
	n := 0
	for ; n < len(c.arrived) && !c.arrived[n].at.After(now); n++ {
		c.depth = max(c.depth, c.arrived[n].depth)
	}
	c.arrived = c.arrived[n:]
	return c.depth
}

// RoundTrips is how many answers in a row have been waited for so far.
func (c *Counter) RoundTrips() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waited(time.Now())
}

// Each returns how many requests of each command there were; those with which sessions begin and end count together.
func (c *Counter) Each() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	for code, times := range c.asked {
		if times > 0 {
			out[commandName(uint16(code))] += times
		}
	}
	return out
}

// Requests returns how many requests there were.
func (c *Counter) Requests() (n int) {
	for _, times := range c.Each() {
		n += times
	}
	return n
}

// Settle waits until every request is answered and no frame has arrived for a while.
func (c *Counter) Settle() {
	for calm := 0; calm < 3; {
		before := c.Requests()
		time.Sleep(2 * c.oneWay)
		c.mu.Lock()
		open := len(c.sent)
		c.mu.Unlock()
		calm++
		if open > 0 || c.Requests() != before {
			calm = 0
		}
	}
}
