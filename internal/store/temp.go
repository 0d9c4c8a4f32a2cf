package store

import (
	"crypto/rand"
	"strings"
	"time"
)

const (
	// TempPrefix begins the name of every temporary file, and of no stored file. It is the same in all stores,
	// so that they can use one folder.
	TempPrefix = "tmp-tidemark-"
	// ScratchPrefix begins the names of scratch folders.
	ScratchPrefix = TempPrefix + "probe-"
	// StaleAfter is the age from which on a temporary file or scratch folder is removed: far beyond the time of one Put.
	StaleAfter = 24 * time.Hour
)

// TempName returns a new name with that prefix.
func TempName(prefix string) string { return prefix + strings.ToLower(rand.Text()) }
