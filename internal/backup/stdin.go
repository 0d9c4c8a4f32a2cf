package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/signature"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Stdin is a backup of one stream as one file.
type Stdin struct {
	Name   string // in the snapshot; may be a path with directories
	Reader io.Reader
	// Close is called at the end of the stream. Its error, a command's failure, means that there is no snapshot.
	Close func() error
}

// run stores the stream. It passes the same workers as any file; the reader is the stream's.
func (s *Stdin) run(ctx context.Context, deps Deps, par Parallel) (*Result, error) {
	components := strings.FieldsFunc(s.Name, func(r rune) bool { return r == '/' })
	if len(components) == 0 {
		return nil, fmt.Errorf("name of the file from standard input: %q is no name", s.Name)
	}
	p, err := newPipeline(deps, Source{}, par, Parent{})
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
	now := signature.Moment(time.Now())
	node := tree.Node{
		Name: components[len(components)-1], Type: tree.File, Mode: 0o600, UID: uint32(os.Getuid()),
		GID: uint32(os.Getgid()), Links: 1, Size: size, ModTime: now, Changed: now, Content: content,
	}
	p.owners.Add(node.UID, node.GID)
	p.Ledger.Add(&report.Tally{
		Objects: report.ObjectsOf[uint64]{Inspected: 1, Files: 1, BackedUp: 1, Deduplicated: 1},
		Files:   report.ComparedOf[uint64]{New: 1},
		Bytes:   report.BytesOf[uint64]{Inspected: size},
	})
	m := p.makers.get()
	for depth := len(components) - 1; ; depth-- {
		m.builder.Reset()
		if err := m.builder.Add(&node); err != nil {
			return nil, err
		}
		root, err := m.builder.Finish()
		if err != nil {
			return nil, err
		}
		if depth == 0 {
			users, groups := p.owners.Names()
			p.makers.put(m)
			return &Result{Tree: root, Users: users, Groups: groups, Files: 1}, p.makers.flush()
		}
		node = tree.Node{
			Name: components[depth-1], Type: tree.Dir, Mode: 0o700, UID: node.UID, GID: node.GID, ModTime: now,
			Changed: now, Subtree: root,
		}
	}
}

// stream chunks and stores everything r delivers.
func (p *pipeline) stream(ctx context.Context, r io.Reader) (content tree.Content, size uint64, err error) {
	clock := p.Ledger.Worker("reader")
	defer clock.Stop()
	w := &worker{pipeline: p, hasher: p.Repo.Keys().Hasher(), writer: p.Session.Writer(pack.Data)}
	m := p.makers.get()
	defer p.makers.put(m)
	list := tree.NewContentBuilder(m.emit)
	buf := make([]byte, p.buffers.Size())
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
		p.Ledger.Bytes.Read.Add(uint64(n))
		clock.Enter(report.Chunk)
		w.spans = w.spans[:0]
		done := 0
		for done < filled {
			length := p.chunker.Next(buf[done:filled], final)
			if length == 0 {
				break
			}
			w.spans = append(w.spans, span{uint32(done), uint32(done + length)})
			done += length
		}
		chunks, err := w.store(buf, clock)
		if err != nil {
			return content, size, err
		}
		for _, c := range chunks {
			if err := list.Add(c); err != nil {
				return content, size, err
			}
		}
		filled = copy(buf, buf[done:filled])
	}
	if err := w.writer.Flush(); err != nil {
		return content, size, err
	}
	content, err = list.Finish()
	return content, size, err
}
