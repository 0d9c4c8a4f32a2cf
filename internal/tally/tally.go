// Package tally sums sizes by path while a walk goes through folders, and afterwards names the few files and folders
// that have most of it. Its memory does not grow with the number of files.
//
//	walk ─► file: enough for a sum of its own? ─► kept sums ─► Rows: what has too little counts in the folder above
//	                  └─► no: counts in its folder ─► the folder: likewise, at its end
package tally

import (
	"cmp"
	"slices"
	"strings"
)

// fineness is the part of the total so far, one in fineness, from which on a file or folder has a sum of its own. With
// each new sum that much was counted, so that there are at most some ten thousand sums.
const fineness = 4096

// Tally is the sums of one walk, which visits the files of a folder before its subfolders. Use it from one goroutine.
type Tally struct {
	total uint64
	kept  map[string]*uint64 // by path; that of a folder ends with a slash
	path  []byte
}

// New returns a Tally without sums.
func New() *Tally { return &Tally{kept: make(map[string]*uint64)} }

// Row is a file or folder with its bytes. A folder does not include files and folders below it that have rows.
type Row struct {
	Path  string // from the root; that of a folder ends with a slash
	Bytes uint64
}

// Count adds bytes to the total. File and Folder then say where they are.
func (t *Tally) Count(bytes uint64) { t.total += bytes }

// File records what a file has. folder ends with a slash. It returns the bytes that count in the folder.
func (t *Tally) File(folder, name string, bytes uint64) (rest uint64) {
	if bytes == 0 {
		return 0
	}
	t.path = append(append(t.path[:0], folder...), name...)
	return t.keep(bytes)
}

// Folder records what a folder has, with the rests of its files and subfolders, at the end of its walk. It returns the
// bytes that count in the folder above.
func (t *Tally) Folder(folder string, bytes uint64) (rest uint64) {
	if bytes == 0 {
		return 0
	}
	t.path = append(t.path[:0], folder...)
	return t.keep(bytes)
}

func (t *Tally) keep(bytes uint64) (rest uint64) {
	sum := t.kept[string(t.path)]
	if sum == nil {
		if bytes < t.total/fineness {
			return bytes
		}
		sum = new(uint64)
		t.kept[string(t.path)] = sum
	}
	*sum += bytes
	return 0
}

// Rows returns the files and folders that have at least one n-th of the total, the largest first, and the root with
// what is left. The bytes of all rows are the total. For each visit, what a file or folder has may be too low by one in
// 4096 of the total, which counts in the folder above.
func (t *Tally) Rows(n int) []Row {
	sums := make(map[string]uint64, len(t.kept)+1)
	left := t.total
	var byDepth [][]string
	enter := func(path string, bytes uint64) {
		if _, known := sums[path]; !known {
			depth := strings.Count(strings.TrimSuffix(path, "/"), "/")
			for len(byDepth) <= depth {
				byDepth = append(byDepth, nil)
			}
			byDepth[depth] = append(byDepth[depth], path)
		}
		sums[path] += bytes
	}
	for path, bytes := range t.kept {
		enter(path, *bytes)
		left -= *bytes
	}
	enter("/", left)
	var rows []Row
	least := t.total / uint64(n)
	if least*uint64(n) < t.total {
		least++
	}
	for depth := len(byDepth) - 1; depth >= 0; depth-- {
		for _, path := range byDepth[depth] {
			bytes := sums[path]
			if depth > 0 && bytes < least {
				enter(above(path), bytes)
			} else if bytes > 0 {
				rows = append(rows, Row{path, bytes})
			}
		}
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Path, b.Path))
	})
	return rows
}

// above returns the folder that a path is in.
func above(path string) string {
	path = strings.TrimSuffix(path, "/")
	return path[:strings.LastIndexByte(path, '/')+1]
}
