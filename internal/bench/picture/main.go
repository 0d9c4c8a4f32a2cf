package picture

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Folder is where the pictures of the documents are: NAME.svg, and NAME.jsonl with what was recorded for it.
const Folder = "docs/pictures"

// The names of the pictures.
const (
	Yielding = "yielding" // a backup beside a program that comes and goes
	Curve    = "curve"    // what foregrounds keep against what a backup gets
	Trace    = "trace"    // slot grants beside foregrounds that change
)

// Run draws all pictures from what was recorded.
func Run(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("tidemark-bench picture", flag.ExitOnError)
	folder := flags.String("pictures", Folder, "where the pictures are, with what was recorded")
	_ = flags.Parse(args)
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	recorded, err := filepath.Glob(filepath.Join(*folder, "*.jsonl"))
	if err != nil {
		return err
	}
	for _, file := range recorded {
		if err := drawInto(*folder, strings.TrimSuffix(filepath.Base(file), ".jsonl")); err != nil {
			return err
		}
	}
	return nil
}

// Save writes what was recorded for a picture, a Head first, and draws it.
func Save[T any](folder, name string, all []T) error {
	var text bytes.Buffer
	if err := write(&text, all); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, name+".jsonl"), text.Bytes(), 0o644); err != nil {
		return err
	}
	return drawInto(folder, name)
}

func drawInto(folder, name string) error {
	svg, err := Redraw(folder, name)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".svg"), svg, 0o644)
}

// Redraw returns the SVG of what was recorded for a picture.
func Redraw(folder, name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(folder, name+".jsonl"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch name {
	case Yielding:
		return redraw(f, draw)
	case Curve:
		return redraw(f, drawCurve)
	case Trace:
		return redraw(f, drawTrace)
	}
	return nil, fmt.Errorf("no picture has the name %q", name)
}

func redraw[T any](r io.Reader, draw func([]T) ([]byte, error)) ([]byte, error) {
	all, err := read[T](r)
	if err != nil {
		return nil, err
	}
	return draw(all)
}
