package store

import "context"

type misplacedKey struct{}

// ReportMisplaced lets a List with the returned context call found for each pack that lies in a folder that is not its
// own, and for each folder that has the name of a file: where is its path. Nothing else looks there. found may be
// called from several goroutines, and twice for a file.
func ReportMisplaced(ctx context.Context, found func(name Name, where string)) context.Context {
	return context.WithValue(ctx, misplacedKey{}, found)
}

// Misplaced reports a stored file of a List that lies in another folder than its own, or a folder with the name of a
// file.
func Misplaced(ctx context.Context, name Name, folder string) {
	where := folder + "/" + name.ID
	if found, ok := ctx.Value(misplacedKey{}).(func(Name, string)); ok && (name.Kind == Pack || where == name.Path()) {
		found(name, where)
	}
}
