package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Stdin is a backup of one stream as one file.
type Stdin struct {
	Name   string // in the snapshot; may be a path with directories
	Reader io.Reader
	// Close is called at the end of the stream. If it returns an error, a command's failure, there is no snapshot.
	Close func() error
}

// run stores the stream with a pipeline that has no scan and no readers.
func (s *Stdin) run(ctx context.Context, d deps, par Parallel) (*result, error) {
	components := strings.FieldsFunc(s.Name, func(r rune) bool { return r == '/' })
	if len(components) == 0 {
		return nil, fmt.Errorf("name of the file from standard input: %q is no name", s.Name)
	}
	p, err := newPipeline(d, Source{}, par, Parent{})
	if err != nil {
		return nil, err
	}
	content, size, err := p.stream(ctx, s.Reader)
	if s.Close != nil {
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	now := tree.TimeOf(time.Now())
	node := tree.Node{
		Name: components[len(components)-1], Type: tree.File, Mode: 0o600, UID: uint32(os.Getuid()),
		GID: uint32(os.Getgid()), Links: 1, Size: size, ModTime: now, Changed: now, Content: content,
	}
	p.owners.add(node.UID, node.GID)
	d.ledger.Add(&report.Tally{
		Objects: report.ObjectsOf[uint64]{Inspected: 1, Files: 1, BackedUp: 1, Deduplicated: 1},
		Files:   report.ComparedOf[uint64]{New: 1},
		Bytes:   report.BytesOf[uint64]{Inspected: size},
	})
	for depth := len(components) - 1; ; depth-- {
		root, err := p.save.Single(&node)
		if err != nil {
			return nil, err
		}
		if depth == 0 {
			users, groups := p.owners.names()
			return &result{tree: root, users: users, groups: groups}, p.save.Flush()
		}
		node = tree.Node{
			Name: components[depth-1], Type: tree.Dir, Mode: 0o700, UID: node.UID, GID: node.GID, ModTime: now,
			Changed: now, Subtree: root,
		}
	}
}

// stream chunks and stores everything that r returns.
func (p *pipeline) stream(ctx context.Context, r io.Reader) (content tree.Content, size uint64, err error) {
	clock := p.deps.ledger.Worker("reader")
	defer clock.Stop()
	c, file, parts := p.save.NewChunker(clock), p.save.NewChunks(), 0
	buf := make([]byte, p.memory.Buffers.Size())
	for filled, final := 0, false; !final; {
		if err := context.Cause(ctx); err != nil {
			return content, size, err
		}
		clock.Enter(report.Read)
		n, err := io.ReadFull(r, buf[filled:])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return content, size, err
		}
		final = err != nil
		filled, size = filled+n, size+uint64(n)
		p.deps.ledger.Bytes.Read.Add(uint64(n))
		clock.Enter(report.Chunk)
		c.Reset()
		done := c.Cut(buf, 0, uint32(filled), final)
		chunks, _, err := c.Store(buf)
		if err != nil {
			return content, size, err
		}
		if _, err := file.Deliver(parts, chunks); err != nil {
			return content, size, err
		}
		parts++
		filled = copy(buf, buf[done:filled])
	}
	content, err = file.Content()
	return content, size, err
}
