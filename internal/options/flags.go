package options

import (
	"slices"
	"strconv"

	"github.com/spf13/pflag"
)

// Register adds the flags of the groups to the set; without groups, all flags. Values are checked as they are parsed,
// and read by Resolve. It returns the options of these flags.
func Register(flags *pflag.FlagSet, groups ...Group) (added []Option) {
	for _, o := range Table() {
		if o.Barred&NotFlag != 0 || len(groups) > 0 && !slices.Contains(groups, o.Group) {
			continue
		}
		f := flags.VarPF(&flagValue{option: o}, o.Name, o.Short, o.Help)
		f.Hidden = o.Hidden
		switch o.Type.Kind {
		case Bool:
			f.NoOptDefVal = "true"
		case Count:
			f.NoOptDefVal = "+1"
		}
		added = append(added, o)
	}
	return added
}

// flagValue is a pflag.Value that keeps what was given, checked but not converted.
type flagValue struct {
	option Option
	given  []string
}

// Set checks and keeps text. A list keeps all, the others the last.
func (v *flagValue) Set(text string) error {
	if v.option.Type.Kind == Count && text == "+1" {
		n, _ := strconv.Atoi(v.String())
		text = strconv.Itoa(n + 1)
	}
	if _, err := v.option.Type.parse(text); err != nil {
		return err
	}
	if !v.option.multiple() {
		v.given = nil
	}
	v.given = append(v.given, text)
	return nil
}

// String returns the last value given, else the default, for help texts.
func (v *flagValue) String() string {
	if len(v.given) > 0 {
		return v.given[len(v.given)-1]
	}
	if v.option.Type.Kind == Bool && v.option.Default == "no" || v.option.Type.Kind == Count {
		return "" // nothing worth showing
	}
	return v.option.Default
}

// Type names the kind of value in help texts.
func (v *flagValue) Type() string {
	switch v.option.Type.Kind {
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
	}
	return "string"
}

// given returns what was given for the flag on the command line, nil when it was not.
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
		return nil // a flag of that name that is not ours
	}
	return v.given
}
