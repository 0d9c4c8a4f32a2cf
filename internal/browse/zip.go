package browse

import (
	"archive/zip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func (d *dumper) zip(ctx context.Context, sub *tree.Node, at string, w io.Writer) error {
	zw := zip.NewWriter(w)
	err := d.everything(ctx, sub, at, func(at string, n *tree.Node) error { return d.zipOne(ctx, zw, at, n) })
	if err == nil {
		err = zw.Close()
	}
	if err != nil {
		return fmt.Errorf("write zip: %w", err)
	}
	return nil
}

func (d *dumper) zipOne(ctx context.Context, zw *zip.Writer, at string, n *tree.Node) error {
	h := &zip.FileHeader{Name: strings.TrimPrefix(at, "/")}
	zipTime(h, n.ModTime.Std())
	mode := fs.FileMode(n.Mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if n.Mode&bit != 0 {
			mode |= flag
		}
	}
	switch n.Type {
	case tree.File:
		if !hasContent(n) {
			d.Left(at, ErrNoContent)
			return nil
		}
		h.Method = zip.Deflate
	case tree.Dir:
		h.Name += "/"
		mode |= fs.ModeDir
	case tree.Symlink:
		mode |= fs.ModeSymlink
	default:
		d.Left(at, ErrNotRepresentable)
		return nil
	}
	if len(n.Xattrs) > 0 {
		d.Left(at, fmt.Errorf("extended attributes: %w", ErrNotRepresentable))
	}
	h.SetMode(mode)
	body, err := zw.CreateHeader(h)
	switch {
	case err != nil:
	case n.Type == tree.Symlink:
		_, err = io.WriteString(body, n.Target)
	case n.Type == tree.File:
		err = WriteContent(ctx, d.load, n, body)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// zipTime sets the time of an entry. The old field begins with 1980 and would move an earlier time to the next century;
// the newer field counts seconds before and after 1970.
func zipTime(h *zip.FileHeader, at time.Time) {
	if h.Modified = at; at.Year() >= 1980 {
		return
	}
	h.Modified = time.Time{}
	h.ModifiedDate = 1<<5 | 1 //nolint:staticcheck // the first of January 1980: Modified would be written as another year
	if sec := at.Unix(); sec >= math.MinInt32 {
		const extendedTime, modified = 0x5455, 1
		h.Extra = binary.LittleEndian.AppendUint16(h.Extra, extendedTime)
		h.Extra = append(binary.LittleEndian.AppendUint16(h.Extra, 5), modified)
		h.Extra = binary.LittleEndian.AppendUint32(h.Extra, uint32(sec))
	}
}
