package iopolicy

import (
	"fmt"
	"strings"
)

// Policy is a job's choice of how soon its I/O yields to that of others.
type Policy uint8

// The policies, in the order of their tiers; the zero value is Important. Passive is tier 0 and opens no window for
// anybody.
const (
	Important Policy = iota // tier 0: never waits
	Standard                // tier 1: yields to tier 0, for 25 ms
	Utility                 // tier 2: yields to tiers 0 and 1, for 100 ms
	Throttle                // tier 3: yields to all others, for 500 ms
	Passive                 // tier 0: never waits, and no other policy waits for it
)

// Policies returns the policies in the order of their tiers, without Passive, which is for programs and not for a job
// that a person starts.
func Policies() []Policy { return []Policy{Important, Standard, Utility, Throttle} }

// Tier is the rank of one I/O: 0 is best, 3 worst. Only a strictly better tier throttles a worse one.
type Tier uint8

// Tiers is the number of tiers.
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

// String returns the name of p in options and reports.
func (p Policy) String() string {
	words := []string{"important", "standard", "utility", "throttle", "passive"}
	if int(p) < len(words) {
		return words[p]
	}
	return fmt.Sprintf("policy %d", uint8(p))
}

// ParsePolicy parses the name of a policy, in any case.
func ParsePolicy(word string) (Policy, error) {
	for p := Important; p <= Passive; p++ {
		if strings.EqualFold(word, p.String()) {
			return p, nil
		}
	}
	return Important, fmt.Errorf("%w: %q; take important, standard, utility, throttle or passive", ErrPolicy, word)
}
