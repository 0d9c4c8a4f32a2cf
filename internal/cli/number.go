package cli

import (
	"errors"
	"strconv"
)

// whole is the value of a flag that is a whole number from 1 on, or not given. pflag's own would take any number, and
// say of other words what the parser of the standard library says.
type whole struct {
	n    *int
	want string // what to write, for who wrote something else
}

// pid is the number of a process.
func pid(n *int) *whole { return &whole{n, "write the number of a process"} }

// Set implements pflag.Value.
func (w *whole) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return errors.New(w.want)
	}
	*w.n = n
	return nil
}

// String implements pflag.Value.
func (w *whole) String() string {
	if w.n == nil { // pflag asks a zero value
		return "0"
	}
	return strconv.Itoa(*w.n)
}

// Type implements pflag.Value: the word for the value in the help.
func (w *whole) Type() string { return "int" }
