package forget

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// policyExamples ends errors about policies.
const policyExamples = `write time-machine, or pairs such as "last 3 hourly 24 daily 30 weekly 520 within 36h"`

// timeMachine keeps all of a day, the newest of each day of a month, and of each week before that.
func timeMachine() *Policy {
	return &Policy{
		Within: Period{Hours: 24}, Recent: Spans[Period]{Daily: Period{Months: 1}}, Newest: Spans[int]{Weekly: -1},
		Spare: true,
	}
}

// ParsePolicy reads a policy in words: time-machine, or pairs of a rule and its number or time. It thins what jobs
// made, and spares the snapshots that a person made or tagged.
func ParsePolicy(text string) (*Policy, error) {
	fields := strings.Fields(strings.ToLower(text))
	if len(fields) == 1 && fields[0] == "time-machine" {
		return timeMachine(), nil
	}
	if len(fields) == 0 || len(fields)%2 != 0 {
		return nil, fmt.Errorf("%w %q: %s", ErrPolicy, text, policyExamples)
	}
	p := &Policy{Spare: true}
	for i := 0; i < len(fields); i += 2 {
		if err := p.set(fields[i], fields[i+1]); err != nil {
			return nil, fmt.Errorf("%w %q: %s %s: %w", ErrPolicy, text, fields[i], fields[i+1], err)
		}
	}
	if p.Empty() {
		return nil, fmt.Errorf("%w %q: it keeps nothing: %s", ErrPolicy, text, policyExamples)
	}
	return p, nil
}

// set sets the rule of a name.
func (p *Policy) set(name, value string) (err error) {
	switch name {
	case "last":
		p.Last, err = ParseCount(value)
		return err
	case "within":
		p.Within, err = ParsePeriod(value)
		return err
	}
	for _, s := range AllSpans() {
		switch name {
		case s.String():
			p.Newest[s], err = ParseCount(value)
			return err
		case WithinPrefix + s.String():
			p.Recent[s], err = ParsePeriod(value)
			return err
		}
	}
	return errors.New(policyExamples)
}

// ParseCount reads a number of snapshots; -1: unlimited.
func ParseCount(text string) (int, error) {
	if text == "unlimited" {
		return -1, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q: write a number, or unlimited", text)
	}
	return int(n), nil
}
