package store

import (
	"context"
	"io/fs"
)

type misplacedKey struct{}

// ReportMisplaced lets a List with the returned context call found for each pack that lies in a folder that is not its
// own, and for each folder that has the name of a file: where is its path, of a folder with a slash at its end. Nothing
// else looks there. found may be called from several goroutines, and twice for a file.
func ReportMisplaced(ctx context.Context, found func(name Name, where string)) context.Context {
	return context.WithValue(ctx, misplacedKey{}, found)
}

// Misplaced reports a file of a List that lies in another folder than its own, or a folder with the name of a file.
func Misplaced(ctx context.Context, name Name, folder string, isFolder bool) {
	found, ok := ctx.Value(misplacedKey{}).(func(Name, string))
	switch where := folder + "/" + name.ID; {
	case !ok:
	case isFolder:
		found(name, where+"/")
	case name.Kind == Pack:
		found(name, where)
	}
}

// MisplacedInPacks reports what lies between the folders of the fan in packs/ and has the name of a pack.
func MisplacedInPacks(ctx context.Context, id string, mode fs.FileMode) {
	if len(id) > 2 && ValidID(id) && (mode.IsDir() || mode.IsRegular()) {
		Misplaced(ctx, Name{Kind: Pack, ID: id}, Pack.Folder(), mode.IsDir())
	}
}
