package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// errStop: the consumer of a list stopped.
var errStop = errors.New("enough")

// Listing returns the files that list passes on as the result of a List of a kind. list returns an error of pass.
func Listing(ctx context.Context, kind Kind, list func(pass func(Info) error) error) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		err := ErrName
		if kind.Valid() {
			err = list(func(info Info) error {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if !yield(info, nil) {
					return errStop
				}
				return nil
			})
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(Info{}, fmt.Errorf("list %s: %w", kind, err))
		}
	}
}

// ListConfig passes on the config if there is one.
func ListConfig(ctx context.Context, stat func(context.Context, Name) (Info, error), pass func(Info) error) error {
	info, err := stat(ctx, Name{Kind: Config})
	if errors.Is(err, ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return pass(info)
}

// FolderLister lists the files of a store with folders.
type FolderLister struct {
	Stat func(ctx context.Context, name Name) (Info, error)
	// Read passes on the entries of a folder. whole: none was missed that was there all the time.
	Read func(ctx context.Context, folder string,
		pass func(id string, mode fs.FileMode, info func() (fs.FileInfo, error)) error) (whole bool, err error)
	// AtOnce is how many folders of packs are listed at the same time; 1: one after the other, each while it is read.
	AtOnce int
}

// List passes on the files of a kind.
//
// Leases are replaced while others list them, and a name that is replaced during the reading of its folder can be
// missing from the result. A missed lease could cost a writer its packs. Leases are few, so the folder is read again
// until a reading finds nothing new.
func (f *FolderLister) List(ctx context.Context, kind Kind, pass func(Info) error) error {
	switch kind {
	case Config:
		return ListConfig(ctx, f.Stat, pass)
	case Pack:
		return f.packs(ctx, pass)
	case Lease:
		found := make(map[Name]Info)
		for before, whole := -1, false; before != len(found) && !whole; {
			before = len(found)
			var err error
			whole, err = f.files(ctx, kind, kind.Folder(), func(info Info) error {
				found[info.Name] = info
				return nil
			})
			if err != nil {
				return err
			}
		}
		for _, info := range found {
			if err := pass(info); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := f.files(ctx, kind, kind.Folder(), pass)
	return err
}

// files passes on the files of a kind in a folder.
func (f *FolderLister) files(ctx context.Context, kind Kind, folder string, pass func(Info) error) (bool, error) {
	return f.Read(ctx, folder, func(id string, mode fs.FileMode, describe func() (fs.FileInfo, error)) error {
		name := Name{Kind: kind, ID: id}
		if !stored(ctx, name, folder, mode) {
			return nil
		}
		info, err := describe()
		if err != nil {
			return err
		}
		return pass(Describe(name, info))
	})
}

// fans returns the folders of packs in packs/, at most 272: those of one or two digits.
func (f *FolderLister) fans(ctx context.Context) (folders []string, err error) {
	_, err = f.Read(ctx, Pack.Folder(), func(id string, mode fs.FileMode, _ func() (fs.FileInfo, error)) error {
		if folder := fanFolder(ctx, id, mode); folder != "" {
			folders = append(folders, folder)
		}
		return nil
	})
	return folders, err
}

// packs lists the folder of the packs of trees, and finds the others meanwhile.
func (f *FolderLister) packs(ctx context.Context, pass func(Info) error) error {
	var fans []string
	find := func(ctx context.Context) (err error) {
		fans, err = f.fans(ctx)
		return err
	}
	if err := f.gather(ctx, []string{Trees}, find, pass); err != nil {
		return err
	}
	for some := range slices.Chunk(fans, f.AtOnce) {
		if err := f.gather(ctx, some, func(context.Context) error { return nil }, pass); err != nil {
			return err
		}
	}
	return nil
}

// gather lists folders of packs at the same time, beside something else.
func (f *FolderLister) gather(ctx context.Context, folders []string, beside func(context.Context) error,
	pass func(Info) error,
) error {
	if f.AtOnce == 1 {
		if err := beside(ctx); err != nil {
			return err
		}
		_, err := f.files(ctx, Pack, folders[0], pass)
		return err
	}
	found := make([][]Info, len(folders))
	group, below := errgroup.WithContext(ctx)
	group.Go(func() error { return beside(below) })
	for i, folder := range folders {
		group.Go(func() error {
			_, err := f.files(below, Pack, folder, func(info Info) error {
				found[i] = append(found[i], info)
				return nil
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, infos := range found {
		for _, info := range infos {
			if err := pass(info); err != nil {
				return err
			}
		}
	}
	return nil
}

// stored reports whether an entry of a folder is the file of a name, or its fence. It reports what is misplaced.
func stored(ctx context.Context, name Name, folder string, mode fs.FileMode) bool {
	kept := mode.IsRegular() || IsFence(name.Kind, mode)
	switch {
	case name.Check() != nil || !kept && !mode.IsDir():
		return false
	case !kept, path.Dir(name.Path()) != folder:
		Misplaced(ctx, name, folder, mode.IsDir())
		return false
	}
	return true
}

// fanFolder returns the path of an entry of packs/ if it may hold packs; "": it does not. It reports what is misplaced.
func fanFolder(ctx context.Context, id string, mode fs.FileMode) string {
	switch {
	case len(id) <= 2 && ValidID(id) && !mode.IsRegular():
		return Pack.Folder() + "/" + id
	case len(id) > 2 && ValidID(id) && (mode.IsDir() || mode.IsRegular()):
		Misplaced(ctx, Name{Kind: Pack, ID: id}, Pack.Folder(), mode.IsDir())
	}
	return ""
}

// Fans remembers which folders of packs exist.
type Fans [256]atomic.Bool

// Of returns the flag of the folder of a pack.
func (f *Fans) Of(name Name) *atomic.Bool {
	n, _ := strconv.ParseUint(Fan(name.ID), 16, 8)
	return &f[n]
}

// Lacks reports whether the folder of a file may have to be made. Names of one digit, which only tests have, lie in
// folders without a flag.
func (f *Fans) Lacks(name Name) bool { return name.InFan() && !(len(name.ID) > 1 && f.Of(name).Load()) }

// Made records that the folder of a pack exists.
func (f *Fans) Made(name Name) { f.Of(name).Store(len(name.ID) > 1) }
