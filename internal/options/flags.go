package options

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// Register adds the flags of groups to the set, without groups all flags, and returns their options. Values are checked
// when they are parsed; Resolve reads them.
func Register(flags *pflag.FlagSet, groups ...Group) (added []Option) {
	for _, o := range Table() {
		if o.Barred&NotFlag != 0 || len(groups) > 0 && !slices.Contains(groups, o.Group) {
			continue
		}
		f := flags.VarPF(&flagValue{option: o}, o.Name, o.Short, o.Help)
		f.Hidden, f.Annotations = o.Hidden, o.annotations()
		switch o.Kind {
		case Bool:
			f.NoOptDefVal = "true"
		case Count:
			f.NoOptDefVal = "+1"
		}
		added = append(added, o)
	}
	return added
}

// GroupOf returns the group of the option of a flag, "" if it is none.
func GroupOf(f *pflag.Flag) Group {
	if v, ok := f.Value.(*flagValue); ok {
		return v.option.Group
	}
	return ""
}

// flagValue is a pflag.Value that stores the given texts, checked but not converted.
type flagValue struct {
	option Option
	given  []string
}

// Set checks and stores text. A list keeps all texts, others the last.
func (v *flagValue) Set(text string) error {
	if v.option.Kind == Count && text == "+1" {
		n, _ := strconv.Atoi(v.String())
		text = strconv.Itoa(n + 1)
	}
	if _, err := v.option.parse(text); err != nil {
		return err
	}
	if !v.option.multiple() {
		v.given = nil
	}
	v.given = append(v.given, text)
	return nil
}

// String returns the last value given, otherwise the default, for help texts.
func (v *flagValue) String() string {
	if len(v.given) > 0 {
		return v.given[len(v.given)-1]
	}
	if v.option.Kind == Bool && v.option.Default == "no" || v.option.Kind == Count {
		return "" // help shows no default
	}
	return v.option.Default
}

// Type names the kind of value in help texts.
func (v *flagValue) Type() string {
	return [...]string{String: "string", Path: "path", Bool: "bool", Int: "n", Size: "size", Duration: "duration",
		Choice: "word", List: "string", Count: "count", Percent: "percent", Domain: "string"}[v.option.Kind]
}

// given returns the values of a flag on the command line, nil without it.
func given(flags *pflag.FlagSet, name string) []string {
	if flags == nil {
		return nil
	}
	f := flags.Lookup(name)
	if f == nil || !f.Changed {
		return nil
	}
	v, ok := f.Value.(*flagValue)
	if !ok {
		return nil // a foreign flag of that name
	}
	return v.given
}

// flagOf is the value of a flag that is no option.
type flagOf[T any] struct {
	to    *T
	kind  string
	parse func(text string) (T, error)
	show  func(T) string
}

// Flag returns the value of a flag that is no option, which sets to. kind names the kind of value in help texts, and
// show formats the default there.
func Flag[T any](to *T, kind string, parse func(text string) (T, error), show func(T) string) pflag.Value {
	return &flagOf[T]{to, kind, parse, show}
}

// Set implements pflag.Value.
func (f *flagOf[T]) Set(text string) error {
	value, err := f.parse(text)
	if err == nil {
		*f.to = value
	}
	return err
}

func (f *flagOf[T]) String() string { return f.show(*f.to) }

// Type implements pflag.Value.
func (f *flagOf[T]) Type() string { return f.kind }

// Whole is a flag that is a whole number, 1 or more; want is the error message for other values. pflag's own accepts
// any number, and its errors name functions of package strconv.
func Whole(n *int, want string) pflag.Value {
	return Flag(n, "int", func(text string) (int, error) {
		value, err := strconv.Atoi(text)
		if err != nil || value < 1 {
			return 0, errors.New(want)
		}
		return value, nil
	}, strconv.Itoa)
}

// PID is a flag that is a process ID.
func PID(n *int) pflag.Value { return Whole(n, "write a process ID") }

// PercentFlag is a flag that is a percentage from 0 to 100; nil: not given.
func PercentFlag(to **float64) pflag.Value {
	return Flag(to, "percent", func(text string) (*float64, error) {
		value, err := parsePercent(text)
		return &value, err
	}, func(value *float64) string {
		if value == nil {
			return ""
		}
		return (&Option{}).format(*value)
	})
}

// DurationFlag is a flag that is a time, at least a second; 0: not given.
func DurationFlag(to *time.Duration, most time.Duration) pflag.Value {
	return Flag(to, "duration", func(text string) (time.Duration, error) {
		value, err := parseDuration(text)
		if err == nil && (value < time.Second || value > most) {
			err = fmt.Errorf("%w: %q is not a time from 1s to %s", ErrValue, text, formatDuration(most))
		}
		return value, err
	}, func(value time.Duration) string {
		if value == 0 {
			return ""
		}
		return formatDuration(value)
	})
}
