package options

import (
	"slices"
	"strings"
)

// Group collects options of one topic. A command registers the groups that it uses.
type Group string

// The groups, in the order of the listing.
const (
	GroupRepository  Group = "repository"
	GroupKeys        Group = "keys"
	GroupShare       Group = "share"
	GroupFrom        Group = "from"
	GroupPolicy      Group = "policy"
	GroupParallel    Group = "parallel"
	GroupTransfer    Group = "transfer"
	GroupCompression Group = "compression"
	GroupReading     Group = "reading"
	GroupCache       Group = "cache"
	GroupSelection   Group = "selection"
	GroupJob         Group = "job"
	GroupNotify      Group = "notify"
	GroupOutput      Group = "output"
)

// Kind is the syntax of a value.
type Kind uint8

// The kinds of values.
const (
	String   Kind = iota // any text
	Path                 // a path or URL; "~/" at its beginning is the home directory
	Bool                 // yes, true, on, 1; no, false, off, 0
	Int                  // a whole number, or "auto" where the option allows it
	Size                 // a number with K, M, G or T (powers of 1024); without: in the unit of the option
	Duration             // a number of seconds, or 90s, 5m, 2h
	Choice               // one of a few words
	List                 // may be given several times
	Count                // may be given several times; the value is the count
	Percent              // a number from 0 to 100, with or without %
	Domain               // file systems, with blanks between them: a list
)

// Where is a place in which an option cannot be given.
type Where uint8

// The places that can be forbidden to an option.
const (
	NotFlag Where = 1 << iota
	NotFile
	NotEnv
)

// Option describes one option and its values.
type Option struct {
	Name     string // of the flag, without dashes; also names the option in listings
	Short    string // one-letter flag
	Group    Group
	Kind     Kind
	Unit     int64    // Size: bytes that a number without suffix counts; 0 is 1
	Min, Max int64    // Int and Size: bounds, in bytes for a size; both 0: not bounded
	Auto     bool     // Int and Size: "auto" stands for 0
	Choices  []string // Choice: "word" or "word synonym synonym", lower case
	Default  string   // in option syntax; "" for none
	Help     string   // one sentence, lower case, without a full stop; the short help ends before the first semicolon
	Topic    Topic    // heading in help; empty: that of the group
	Rare     bool     // only in the long help
	IBM      string   // keyword in IBM's client: the capitals at its beginning are its shortest form; "": no equivalent
	Also     string   // another keyword with the same meaning; without IBM, one that comes after tidemark's
	Own      string   // keyword and environment name where they do not follow from Name: "KEYWORD VARIABLE"
	Sysctl   string   // its name in the kernel of macOS, without "debug."; empty: the kernel has no such number
	Barred   Where
	Secret   bool
	Hidden   bool // the flag is left out of the help of most commands
}

// grouped sets the group of options, and bars all from some places.
func grouped(group Group, barred Where, all []Option) []Option {
	for i := range all {
		all[i].Group = group
		all[i].Barred |= barred
	}
	return all
}

// Keywords returns the keywords that stand for o in an option file, the usual one first: IBM's spelling, with the
// capitals of its shortest form, or tidemark's in capitals.
func (o *Option) Keywords() []string {
	if o.Barred&NotFile != 0 {
		return nil
	}
	if o.Sysctl != "" { // a line of sysctl's output
		return []string{o.own(), "DEBUG." + o.own()}
	}
	if o.Group == GroupPolicy && strings.Contains(o.Name, "-") { // a line of 'tidemark policy show'
		return []string{o.own(), strings.ToUpper(o.Name)}
	}
	own := o.own()
	words := []string{own, o.Also}
	switch {
	case strings.EqualFold(own, o.IBM):
		words = []string{o.IBM, o.Also}
	case o.IBM != "":
		words = []string{o.IBM, o.Also, own}
	}
	return slices.DeleteFunc(words, func(word string) bool { return word == "" })
}

func (o *Option) own() string {
	if word, _, _ := strings.Cut(o.Own, " "); word != "" {
		return word
	}
	if o.Sysctl != "" {
		return strings.ToUpper(o.Sysctl)
	}
	return strings.ToUpper(strings.ReplaceAll(o.Name, "-", ""))
}

// Env returns the environment variable of o, "" when it has none.
func (o *Option) Env() string {
	if o.Barred&NotEnv != 0 {
		return ""
	}
	if _, name, _ := strings.Cut(o.Own, " "); name != "" {
		return name
	}
	return "TIDEMARK_" + strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))
}

// multiple reports whether o holds several values.
func (o *Option) multiple() bool { return o.Kind == List || o.Kind == Domain }

// Topic is the heading under which help lists a flag.
type Topic string

// The topics.
const (
	TopicWhat      Topic = "What"
	TopicWhere     Topic = "Where"
	TopicHowFast   Topic = "How fast"
	TopicHowGently Topic = "How gently"
	TopicShare     Topic = "SMB"
	TopicService   Topic = "Service"
	TopicOutput    Topic = "Output"
)

// The annotations of a flag that help reads: its topic, and that the short help leaves it out.
const (
	TopicAnnotation = "help-topic"
	RareAnnotation  = "help-rare"
)

// Topics returns the topics in the order of the help.
func Topics() []Topic {
	return []Topic{TopicWhat, TopicWhere, TopicHowFast, TopicHowGently, TopicShare, TopicService, TopicOutput}
}

// topic returns the heading of an option: its own, or that of its group.
func (o *Option) topic() Topic {
	if o.Topic != "" {
		return o.Topic
	}
	switch o.Group {
	case GroupRepository, GroupKeys, GroupFrom, GroupCache:
		return TopicWhere
	case GroupShare:
		return TopicShare
	case GroupPolicy:
		return TopicHowGently
	case GroupParallel, GroupTransfer, GroupCompression:
		return TopicHowFast
	case GroupJob, GroupNotify:
		return TopicService
	case GroupOutput:
		return TopicOutput
	case GroupReading, GroupSelection:
	}
	return TopicWhat
}

// annotations returns what help reads from the flag of o.
func (o *Option) annotations() map[string][]string {
	all := map[string][]string{TopicAnnotation: {string(o.topic())}}
	if o.Rare {
		all[RareAnnotation] = []string{"yes"}
	}
	return all
}
