package iopolicy

import (
	"fmt"
	"strings"
)

// Policy is what a job asks for: how soon its I/O gives way to that of others.
type Policy uint8

// The policies, in the order of their tiers; the zero value is Important. Passive is tier 0 and opens no window for anybody.
const (
	Important Policy = iota // tier 0: never waits
	Standard                // tier 1: gives way to tier 0 within 25 ms
	Utility                 // tier 2: gives way to tiers 0 and 1 within 100 ms
	Throttle                // tier 3: gives way to all others within 500 ms
	Passive                 // tier 0: never waits, and nobody waits for it
)

// Tier is the rank of one I/O: 0 goes first, 3 last. Only a strictly better tier throttles a worse one.
type Tier uint8

// Tiers is how many tiers there are.
const Tiers = 4

// Tier returns the tier of a job with this policy.
func (p Policy) Tier() Tier {
	switch p {
	case Standard:
		return 1
	case Utility:
		return 2
	case Throttle:
		return 3
	case Important, Passive:
	}
	return 0
}

// String returns the word for p in options and reports.
func (p Policy) String() string {
	words := []string{"important", "standard", "utility", "throttle", "passive"}
	if int(p) < len(words) {
		return words[p]
	}
	return fmt.Sprintf("policy %d", uint8(p))
}

// ParsePolicy returns the policy of a word, in any case.
func ParsePolicy(word string) (Policy, error) {
	for p := Important; p <= Passive; p++ {
		if strings.EqualFold(word, p.String()) {
			return p, nil
		}
	}
	return Important, fmt.Errorf("%w: %q; take important, standard, utility, throttle or passive", ErrPolicy, word)
}
