package store

import (
	"fmt"
	"iter"
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
func (k Kind) Folder() string { return folder(k) }

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

// Fan returns the folder inside packs/ in which the pack with this ID lies: the first two digits of the ID.
func Fan(id string) string { return id[:min(2, len(id))] }

// Path returns where the file lies below the root of a repository, with slashes: "config", "keys/6f0a...",
// "packs/6f/6f0a...". Stores with paths use it as it is. n must be valid.
func (n Name) Path() string {
	switch n.Kind {
	case Config:
		return "config"
	case Pack:
		return "packs/" + Fan(n.ID) + "/" + n.ID
	default:
		return n.Kind.String() + "/" + n.ID
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
