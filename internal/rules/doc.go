// Package rules decides which paths are part of a backup. It compiles every kind of rule (TSM include and exclude
// statements, glob patterns of the command line, ignore files inside the tree, marker files, sizes, flags) into one
// immutable Set, which a scanner queries name by name.
//
// The package does no I/O: a callback returns the content of ignore and marker files. A verdict about a name needs the
// name and at most its type. So an excluded name is never accessed: a hanging mount that is excluded does not hang the
// backup.
//
// # Use by a scanner
//
//	state, decision := set.Root("/home")               // once per source
//	for each name of the directory:                    // first pass, over the names alone
//		if state.Control(name) { present = append(present, string(name)) }
//	if len(present) > 0 { state, problems = state.Load(dir, present, read) }
//	for each name:                                     // second pass
//		switch state.Name(name, typ) {                 // typ 0: unknown
//		case rules.NeedType:                           // stat it, repeat with the type
//		case rules.Include:                            // stat it, then set.Object(...), set.Sticky(...)
//		case rules.NotEntered:                         // a directory: keep it, do not enter it
//		}
//	child := state.Child(name)                         // for each directory that is entered
//
// States are immutable and may be used by many goroutines. A state holds the positions in the patterns that its path
// has reached, so the cost of a name does not depend on its depth.
//
// Each kind of rule decides independently; a path is part of the backup when no kind excludes it: see docs/rules.md.
package rules
