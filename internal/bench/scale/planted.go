package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// planted is a generated tree of files, in an image or in a folder.
type planted struct {
	dir    string // holds the image and the place where it is mounted
	shape  Shape
	made   Made
	mount  *mounted // nil: none
	inside bool     // an image
}

func (t *planted) image() string { return filepath.Join(t.dir, "image") }

// root is the tree: in an image it lies beside lost+found.
func (t *planted) root() string {
	if t.inside {
		return filepath.Join(t.dir, "tree", "data")
	}
	return filepath.Join(t.dir, "tree")
}

// errMounted: an image could not be unmounted. Files below the mount point must not be removed, and the image must not
// be mounted a second time.
var errMounted = errors.New("an image is still mounted")

// unmount ends what mounting began.
func (t *planted) unmount() error {
	if t.mount == nil {
		return nil
	}
	return t.mount.unmount()
}

// plant makes the tree.
func (t *planted) plant(ctx context.Context) (err error) {
	fmt.Fprintf(os.Stderr, "making %d files\n", t.shape.Files)
	if t.made, err = t.shape.Make(ctx, t.root()); err != nil {
		return fmt.Errorf("make tree: %w", err)
	}
	fmt.Fprintf(os.Stderr, "made %d files and %d directories in %.0f s\n", t.made.Files, t.made.Dirs, t.made.Seconds)
	return nil
}

// plantImage makes the tree in a new image.
func (t *planted) plantImage(ctx context.Context) error {
	if err := makeImage(ctx, t.image(), t.shape.Files); err != nil {
		return err
	}
	if err := t.open(ctx); err != nil {
		return err
	}
	return t.plant(ctx)
}

// open mounts the image.
func (t *planted) open(ctx context.Context) (err error) {
	at := filepath.Join(t.dir, "tree")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	t.inside = true
	t.mount, err = mountImage(ctx, t.image(), at)
	return err
}

// kept returns where growAll keeps the image of one size.
func kept(folder string, shape Shape) string {
	return filepath.Join(folder, fmt.Sprintf("%d-%d", shape.Files, shape.Seed))
}

// growAll makes images, and keeps their descriptions beside them.
func (s *settings) growAll(ctx context.Context) error {
	for _, n := range s.files {
		t := planted{shape: Shape{Files: n, Seed: s.seed}}
		t.dir = kept(s.grow, t.shape)
		if err := os.MkdirAll(t.dir, 0o755); err != nil {
			return err
		}
		err := t.plantImage(ctx)
		if err := errors.Join(err, t.unmount()); err != nil {
			return err
		}
		about, err := json.Marshal(t.made)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(t.dir, "made.json"), about, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// take moves an image that growAll made here, and mounts it.
func (t *planted) take(ctx context.Context, folder string) error {
	from := kept(folder, t.shape)
	about, err := os.ReadFile(filepath.Join(from, "made.json"))
	if err != nil {
		return fmt.Errorf("no image of %d files here; -grow %s makes it: %w", t.shape.Files, strconv.Quote(folder), err)
	}
	if err := json.Unmarshal(about, &t.made); err != nil {
		return fmt.Errorf("read what is known of the image: %w", err)
	}
	// The mount point is removed as an empty folder: that fails as long as the image is mounted there.
	if err := os.Remove(filepath.Join(from, "tree")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take the image: is it mounted there still? then umount it: %w", err)
	}
	if err := os.Rename(filepath.Join(from, "image"), t.image()); err != nil {
		return fmt.Errorf("take the image: %w", err)
	}
	if err := errors.Join(os.Remove(filepath.Join(from, "made.json")), os.Remove(from)); err != nil {
		return err
	}
	return t.open(ctx)
}
