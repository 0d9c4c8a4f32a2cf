package options

import (
	"slices"
	"strconv"

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

// Registered reports whether Register added f.
func Registered(f *pflag.Flag) bool {
	_, ok := f.Value.(*flagValue)
	return ok
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
	switch v.option.Kind {
	case Path:
		return "path"
	case Bool:
		return "bool"
	case Int:
		return "n"
	case Size:
		return "size"
	case Duration:
		return "duration"
	case Choice:
		return "word"
	case Count:
		return "count"
	case Percent:
		return "percent"
	}
	return "string"
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
