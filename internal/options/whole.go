package options

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Whole is a flag value that is a whole number, 1 or more. pflag's own accepts any number, and its errors name
// functions of package strconv.
type Whole struct {
	N    *int
	Want string // error message for other values
}

// PID is a process ID.
func PID(n *int) *Whole { return &Whole{n, "write a process ID"} }

// Set implements pflag.Value.
func (w *Whole) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return errors.New(w.Want)
	}
	*w.N = n
	return nil
}

// String implements pflag.Value.
func (w *Whole) String() string {
	if w.N == nil { // pflag calls String on a zero value
		return "0"
	}
	return strconv.Itoa(*w.N)
}

// Type implements pflag.Value.
func (w *Whole) Type() string { return "int" }

// PercentFlag is a flag value that is a percentage.
type PercentFlag struct {
	Value float64 // from 0 to 100
	Given bool
}

// Set implements pflag.Value.
func (p *PercentFlag) Set(text string) (err error) {
	p.Value, err = parsePercent(text)
	p.Given = err == nil
	return err
}

// String implements pflag.Value.
func (p *PercentFlag) String() string {
	if !p.Given {
		return ""
	}
	return strconv.FormatFloat(p.Value, 'f', -1, 64) + "%"
}

// Type implements pflag.Value.
func (p *PercentFlag) Type() string { return "percent" }

// DurationFlag is a flag value that is a time, at least a second.
type DurationFlag struct {
	Value time.Duration // 0: not given
	Most  time.Duration
}

// Set implements pflag.Value.
func (d *DurationFlag) Set(text string) error {
	value, err := parseDuration(text)
	if err != nil {
		return err
	}
	if value < time.Second || value > d.Most {
		return fmt.Errorf("%w: %q is not a time from 1s to %s", ErrValue, text, formatDuration(d.Most))
	}
	d.Value = value
	return nil
}

// String implements pflag.Value.
func (d *DurationFlag) String() string {
	if d.Value == 0 {
		return ""
	}
	return formatDuration(d.Value)
}

// Type implements pflag.Value.
func (d *DurationFlag) Type() string { return "duration" }
