package options

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// PolicyNames returns the names of the policies that a job can have, in the order of their tiers.
func PolicyNames() (names []string) {
	for _, p := range iopolicy.Policies() {
		names = append(names, p.String())
	}
	return names
}

// policyOptions select the I/O policy.
func policyOptions() []Option {
	return slices.Concat(grouped(GroupPolicy, 0, []Option{
		{Name: "policy", Kind: Choice, Choices: append([]string{"auto"}, PolicyNames()...), Default: "auto",
			Help: "important, standard, utility, throttle or auto; important never yields its I/O, throttle yields to all " +
				"other processes; auto is utility for the first backup of a source, throttle for later ones, and important for " +
				"all else"},
		{Name: "max-impact", Kind: Percent, Default: "5%",
			Help: "how much others may be slowed; 0: one I/O per period, as in macOS"},
		{Name: "policy-by", Kind: Choice, Choices: []string{"tidemark", "kernel"}, Default: "tidemark", Rare: true,
			Help: "tidemark: its gates yield; kernel: that of macOS does, by its own numbers, on the efficiency cores"},
		{Name: "medium", Kind: Choice, Choices: []string{"auto", "ssd", "hdd", "remote", "memory"}, Default: "auto",
			Rare: true,
			Help: "medium of sources and repository: ssd, hdd, remote, or memory (never yields); auto: ask the system"},
		{Name: "blame", Kind: Bool, Default: "no", Rare: true,
			Help: "find the processes that the job yields to, where the system shows them; yes: from the start of the job"},
	}), numberOptions())
}

// numberOptions are the numbers of the policies, under their names in the macOS kernel. Package iopolicy checks their
// values.
func numberOptions() []Option {
	var all []Option
	for _, number := range iopolicy.DefaultSettings().All() {
		o := Option{Name: strings.ReplaceAll(number.Name, "_", "-"), Group: GroupPolicy, Kind: Int,
			Default: number.Value, Help: number.Help, Sysctl: number.Name, Hidden: true, Rare: true}
		switch number.Name {
		case "lowpri_throttle_enabled":
			o.Kind, o.Default = Bool, (&Option{}).format(number.Value == "1")
		case "lowpri_throttle_max_iosize":
			o.Kind, o.Default = Size, FormatSize(int64(iopolicy.DefaultSettings().MaxIOSize))
		}
		all = append(all, o)
	}
	return all
}

// Use is the kind of a job, which selects the policy for "auto".
type Use uint8

// The uses.
const (
	Attended    Use = iota // a user waits for it: a restore, a check, a listing
	FirstBackup            // reads and stores a whole source: runs in the background, but must finish
	LaterBackup            // runs in the background
)

// IO is the I/O policy of a job.
type IO struct {
	Policy   iopolicy.Policy // unless Auto
	Auto     bool
	Medium   device.Medium // Unknown: it is detected
	Settings iopolicy.Settings
	Blame    bool
	ByKernel bool // the kernel of macOS carries out the policy; then the gates are not Enabled
}

// Choose returns the policy for a use: the configured one, otherwise the default of the use.
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

// IO returns the I/O policy.
func (s *Spec) IO() IO {
	io := IO{Medium: device.ParseMedium(s.string("medium")), Blame: s.bool("blame"),
		ByKernel: s.string("policy-by") == "kernel", Settings: s.numbers(func(string, error) {})}
	io.Settings.Enabled = io.Settings.Enabled && !io.ByKernel
	io.Settings.MaxImpact = s.percent("max-impact") / 100
	word := s.string("policy")
	if io.Auto = word == "auto"; !io.Auto {
		io.Policy, _ = iopolicy.ParsePolicy(word) // the option allows only policies
	}
	return io
}

// numbers returns the settings, and calls refuse for each invalid one.
func (s *Spec) numbers(refuse func(origin string, err error)) iopolicy.Settings {
	set := iopolicy.DefaultSettings()
	for i := range s.table {
		o := &s.table[i]
		one := s.get(o.Name)
		if o.Sysctl == "" || one.value == nil || one.level == fromDefault {
			continue // keeps the default of iopolicy.DefaultSettings
		}
		if err := set.Set(o.Sysctl, kernelNumber(one.value)); err != nil {
			refuse(one.origin, err)
		}
	}
	return set
}

// kernelNumber formats a value as sysctl does.
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

// Policy lists the policy options in effect; the numbers have the names and the format of the kernel.
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
