package rules

import "fmt"

// Kind is the kind of a rule. Kinds decide independently of each other.
type Kind uint8

// The kinds of rules, in the order of evaluation.
const (
	Protected   Kind = iota // paths the program itself excludes: repository, cache
	Marker                  // exclude-if-present, exclude-caches
	FileSystem              // EXCLUDE.FS
	Directory               // EXCLUDE.DIR
	Statement               // INCLUDE, EXCLUDE
	Glob                    // --exclude, --exclude-file
	FoldedGlob              // --iexclude, --iexclude-file
	Ignore                  // a line of an ignore file in the tree
	TopOnly                 // SUBDIR no
	LargerThan              // --exclude-larger-than
	NoDump                  // the nodump inode flag
	TimeMachine             // the sticky extended attribute of Time Machine
	OneSystem               // --one-file-system
	Pseudo                  // pseudo file systems are not entered
	kinds
)

// named counts the kinds that are matched against the tries.
const named = FoldedGlob + 1

// String returns a short name for lists.
func (k Kind) String() string {
	names := [kinds]string{"protected", "marker", "exclude.fs", "exclude.dir", "statement", "exclude", "iexclude",
		"ignore-file", "subdir", "larger-than", "nodump", "time-machine", "one-file-system", "pseudo"}
	if k < kinds {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Rule is one rule of the user (or the program) about the paths of a backup.
type Rule struct {
	Kind    Kind
	Include bool   // it includes its matches: INCLUDE, or a pattern with a leading '!'
	Text    string // as it was written
	Origin  string // "file:line", a flag, or "built-in"
	dirOnly bool   // an ignore pattern with a trailing slash
	hollow  bool   // matching directories are kept, empty
}

// String returns the rule with its origin, for people.
func (r Rule) String() string { return fmt.Sprintf("%s (%s)", r.Text, r.Origin) }

// Verdict is the decision of the rules about a name or an object.
type Verdict uint8

// The verdicts.
const (
	Include    Verdict = iota // part of the backup, as far as evaluated
	Exclude                   // excluded with its subtree, and must not be accessed
	NeedType                  // depends on whether it is a directory: repeat with the type
	NotEntered                // a directory that is kept itself, but not entered
)
