package options

import (
	"errors"
	"strconv"
)

// Whole is the value of a flag of one command that is a whole number from 1 on, or not given. pflag's own would take any number, and
// say of other words what the parser of the standard library says.
type Whole struct {
	N    *int
	Want string // what to write, for who wrote something else
}

// PID is the number of a process.
func PID(n *int) *Whole { return &Whole{n, "write the number of a process"} }

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
	if w.N == nil { // pflag asks a zero value
		return "0"
	}
	return strconv.Itoa(*w.N)
}

// Type implements pflag.Value: the word for the value in the help.
func (w *Whole) Type() string { return "int" }
