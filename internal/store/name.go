package store

import (
	"context"
	"fmt"
	"iter"
	"strings"
)

// MaxIDLen is the longest ID of a stored file: the hexadecimal form of 32 bytes.
const MaxIDLen = 64

// folder returns the folder of a kind. Config has none: it lies at the root.
func folder(k Kind) string {
	switch k {
	case Key:
		return "keys"
	case Pack:
		return "packs"
	case Index:
		return "index"
	case Snapshot:
		return "snapshots"
	case Lease:
		return "leases"
	case Mark:
		return "marks"
	default:
		return ""
	}
}

// Kinds yields every kind, Config first.
func Kinds() iter.Seq[Kind] {
	return func(yield func(Kind) bool) {
		for k := Config; k <= Mark; k++ {
			if !yield(k) {
				return
			}
		}
	}
}

// Folder returns the folder that holds the files of a kind, and "" for Config, which is a single file at the root.
// Packs of trees have one of their own, Trees.
func (k Kind) Folder() string { return folder(k) }

// Trees is the folder of the packs that hold trees: storage classes, rules and permissions go by the beginning of a
// path.
const Trees = "trees"

// Folders yields the folders of a repository.
func Folders() iter.Seq[string] {
	return func(yield func(string) bool) {
		for k := Key; k <= Mark; k++ {
			if !yield(folder(k)) {
				return
			}
		}
		yield(Trees)
	}
}

// Valid reports whether k is one of the kinds of this package.
func (k Kind) Valid() bool { return k >= Config && k <= Mark }

// String returns the kind as the layout spells it: "config", "keys", "packs", ...
func (k Kind) String() string {
	if k == Config {
		return "config"
	}
	if f := folder(k); f != "" {
		return f
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Fan returns the folder inside packs/ in which the pack of data with this ID lies: the first two digits of the ID.
func Fan(id string) string { return id[:min(2, len(id))] }

// OfTrees reports whether n is the name of a pack of trees: the last digit of its ID is odd.
func (n Name) OfTrees() bool {
	return n.Kind == Pack && n.ID != "" && strings.IndexByte("13579bdf", n.ID[len(n.ID)-1]) >= 0
}

// InFan reports whether the file lies in a folder of the fan inside packs/.
func (n Name) InFan() bool { return n.Kind == Pack && !n.OfTrees() }

// Folder returns the folder that holds the file, "" for Config: "keys", "packs", "trees".
func (n Name) Folder() string {
	if n.OfTrees() {
		return Trees
	}
	return folder(n.Kind)
}

// Path returns where the file lies below the root of a repository, with slashes: "config", "keys/6f0a...",
// "packs/6f/6f0a...", "trees/6f0b...". Stores with paths use it as it is. n must be valid.
func (n Name) Path() string {
	switch {
	case n.Kind == Config:
		return "config"
	case n.InFan():
		return "packs/" + Fan(n.ID) + "/" + n.ID
	default:
		return n.Folder() + "/" + n.ID
	}
}

// String returns the path, which is what a person looks for in the folder of the repository.
func (n Name) String() string { return n.Path() }

// Check returns an error that wraps ErrName unless n is a name that a store may hold.
func (n Name) Check() error {
	if !n.Kind.Valid() {
		return fmt.Errorf("%w: unknown %s", ErrName, n.Kind)
	}
	if n.Kind == Config {
		if n.ID != "" {
			return fmt.Errorf("%w: config has no ID, got %q", ErrName, n.ID)
		}
		return nil
	}
	if !ValidID(n.ID) {
		return fmt.Errorf("%w: %q is not 1 to %d lower-case hexadecimal digits", ErrName, n.ID, MaxIDLen)
	}
	return nil
}

// Admit returns why an operation on a file cannot begin.
func Admit(ctx context.Context, name Name) error {
	if err := name.Check(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Wrap adds to an error what was to be done with which file.
func Wrap(err *error, verb string, name Name) {
	if *err != nil {
		*err = fmt.Errorf("%s %s: %w", verb, name, *err)
	}
}

// ValidID reports whether id is 1 to MaxIDLen lower-case hexadecimal digits.
func ValidID(id string) bool {
	if len(id) == 0 || len(id) > MaxIDLen {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
