package store

import "context"

// ReportMisplaced lets a List with the returned context call found for each pack that lies in a folder that is not its
// own, and for each folder that has the name of a file: where is its path, of a folder with a slash at its end. Nothing
// else looks there. found may be called from several goroutines, and twice for a file.
func ReportMisplaced(ctx context.Context, found func(name Name, where string)) context.Context {
	return context.WithValue(ctx, reportMisplaced, found)
}

// Misplaced reports a file of a List that lies in another folder than its own, or a folder with the name of a file.
func Misplaced(ctx context.Context, name Name, folder string, isFolder bool) {
	found, ok := ctx.Value(reportMisplaced).(func(Name, string))
	switch where := folder + "/" + name.ID; {
	case !ok:
	case isFolder:
		found(name, where+"/")
	case name.Kind == Pack:
		found(name, where)
	}
}
