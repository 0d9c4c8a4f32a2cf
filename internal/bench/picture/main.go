package picture

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
)

// Where the picture of the documents and its events are.
const (
	eventsFile = "docs/pictures/yielding.jsonl"
	svgFile    = "docs/pictures/yielding.svg"
)

// Run records or reads events and draws them.
func Run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("tidemark-bench picture", flag.ExitOnError)
	drawOnly := flags.Bool("draw", false, "draw the recorded events, and record none")
	events := flags.String("events", eventsFile, "the recorded events")
	svg := flags.String("svg", svgFile, "the picture")
	size := flags.Int("size", 6144, "MiB to back up")
	dir := flags.String("dir", "", "where source and repository are made (default: the temporary directory)")
	_ = flags.Parse(args)
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if !*drawOnly {
		all, err := record(ctx, *dir, *size)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := write(&text, all); err != nil {
			return err
		}
		if err := os.WriteFile(*events, text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	picture, err := Redraw(*events)
	if err != nil {
		return err
	}
	return os.WriteFile(*svg, picture, 0o644)
}

// Redraw returns the SVG of recorded events.
func Redraw(events string) ([]byte, error) {
	f, err := os.Open(events)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := read(f)
	if err != nil {
		return nil, err
	}
	return draw(all)
}
