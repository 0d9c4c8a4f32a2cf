package store

import "context"

type misplacedKey struct{}

// ReportMisplaced lets a List with the returned context call found for each pack that lies in a folder that is not its
// own: where is its path. Nothing else looks there. found may be called from several goroutines, and twice for a file.
func ReportMisplaced(ctx context.Context, found func(name Name, where string)) context.Context {
	return context.WithValue(ctx, misplacedKey{}, found)
}

// Misplaced reports a stored file of a List that lies in another folder than its own.
func Misplaced(ctx context.Context, name Name, folder string) {
	if found, ok := ctx.Value(misplacedKey{}).(func(Name, string)); ok && name.Kind == Pack {
		found(name, folder+"/"+name.ID)
	}
}
