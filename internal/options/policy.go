package options

import (
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// policyOptions say how a job shares its devices with the rest of the machine.
func policyOptions() []Option {
	all := []Option{
		{Name: "policy", Group: GroupPolicy, Default: "auto",
			Type: Type{Kind: Choice, Choices: []string{"auto", "important", "standard", "utility", "throttle"}},
			Help: "how soon I/O gives way to that of others: important (never), standard, utility or throttle (to all); " +
				"auto is utility for the first backup of a source, throttle for later ones, and important for all else"},
		{Name: "medium", Group: GroupPolicy, Default: "auto",
			Type: Type{Kind: Choice, Choices: []string{"auto", "ssd", "hdd", "remote", "memory"}},
			Help: "what sources and repository lie on: ssd, hdd, remote, or memory, where nobody is given way to; auto asks the system"},
		{Name: "blame", Group: GroupPolicy, Type: Type{Kind: Bool}, Default: "no",
			Help: "find out which processes the job gave way to, where the system tells; yes looks from the beginning"},
	}
	return append(all, numberOptions()...)
}

// numberOptions are the numbers of the policy, each under the name that the kernel of macOS has for it. What values they
// may have is for the policy to say.
func numberOptions() []Option {
	var all []Option
	for _, number := range iopolicy.Default().All() {
		o := Option{Name: strings.ReplaceAll(number.Name, "_", "-"), Group: GroupPolicy, Type: Type{Kind: Int},
			Default: number.Value, Help: number.Help, Sysctl: number.Name, Hidden: true}
		switch number.Name {
		case "lowpri_throttle_enabled":
			o.Type, o.Default = Type{Kind: Bool}, (&Type{}).format(number.Value == "1")
		case "lowpri_throttle_max_iosize":
			o.Type = Type{Kind: Size, Unit: 1}
			o.Default = FormatSize(int64(iopolicy.Default().MaxIOSize))
		}
		all = append(all, o)
	}
	return all
}

// Use is what a job does, which decides what "auto" stands for.
type Use uint8

// The uses.
const (
	Attended    Use = iota // somebody waits for it: a restore, a check, a listing
	FirstBackup            // all of a source is read and stored; nobody waits, and yet it should end some day
	LaterBackup            // nobody notices when it ends
)

// IO is how a job shares devices with others.
type IO struct {
	Policy   iopolicy.Policy // unless Auto
	Auto     bool
	Medium   string // "auto", "ssd", "hdd", "remote", "memory"
	Settings iopolicy.Settings
	Blame    bool
}

// Choose returns the policy of a job: the one that was named, else the one that fits its use.
func (io IO) Choose(use Use) iopolicy.Policy {
	switch {
	case !io.Auto:
		return io.Policy
	case use == FirstBackup:
		return iopolicy.Utility
	case use == LaterBackup:
		return iopolicy.Throttle
	}
	return iopolicy.Important
}

// IO returns how a job shares devices with others.
func (s *Spec) IO() IO {
	io := IO{Medium: s.string("medium"), Blame: s.bool("blame"), Settings: s.numbers(func(string, error) {})}
	word := s.string("policy")
	if io.Auto = word == "auto"; !io.Auto {
		io.Policy, _ = iopolicy.ParsePolicy(word) // the choices are among its words
	}
	return io
}

// numbers returns the settings, and tells refuse of the origins of those that cannot be.
func (s *Spec) numbers(refuse func(origin string, err error)) iopolicy.Settings {
	set := iopolicy.Default()
	for i := range s.table {
		o := &s.table[i]
		one := s.get(o.Name)
		if o.Sysctl == "" || one.value == nil || one.level == fromDefault {
			continue // what the settings begin with are the defaults
		}
		if err := set.Set(o.Sysctl, kernelNumber(one.value)); err != nil {
			refuse(one.origin, err)
		}
	}
	return set
}

// kernelNumber writes a value as sysctl does.
func kernelNumber(value any) string {
	switch v := value.(type) {
	case bool:
		if v {
			return "1"
		}
		return "0"
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return ""
}

// Policy lists the options of the policy as they count, the numbers named and written as the kernel does.
func (s *Spec) Policy() []Effective {
	var rows []Effective
	for i := range s.table {
		o := &s.table[i]
		if o.Group != GroupPolicy {
			continue
		}
		one := s.get(o.Name)
		if o.Sysctl != "" {
			rows = append(rows, Effective{o.Sysctl, kernelNumber(one.value), one.origin})
		} else {
			rows = append(rows, Effective{o.Name, o.show(one.value), one.origin})
		}
	}
	return rows
}
