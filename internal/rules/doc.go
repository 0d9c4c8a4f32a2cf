// Package rules decides which paths are part of a backup. It compiles every kind of rule a person can write (TSM
// include and exclude statements, glob patterns of the command line, ignore files inside the tree, marker files, sizes,
// flags) into one immutable Set that a scanner asks name by name.
//
// It refuses to know how a directory is read: it does no I/O of its own, and gets the content of ignore and marker
// files through a callback. A verdict about a name needs the name and at most its type, so that an excluded name is
// never touched: a hanging mount that is excluded does not hang the backup.
//
// # Use by a scanner
//
//	state, decision := set.Root("/home")               // once per source
//	for each name of the directory:                    // first pass, over the names alone
//		if state.Control(name) { present = append(present, string(name)) }
//	if len(present) > 0 { state, problems = state.Load(present, read) }
//	for each name:                                     // second pass
//		switch state.Name(name, typ) {                 // typ 0: not known
//		case rules.NeedType:                           // stat it, ask again with the type
//		case rules.Include:                            // stat it, then set.Object(...) if set.Needs() says so
//		case rules.Hollow:                             // a directory: keep it, do not go in
//		}
//	child := state.Child(name)                         // for each directory that is entered
//
// States are immutable and may be used by many goroutines. A state holds what the path so far means to the rules (the
// positions reached in the patterns), so the cost of a name does not depend on the depth it lies at.
//
// Each kind of rule decides by itself; a path is part of the backup when no kind excludes it: see docs/rules.md.
package rules
