package browse

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Sparse files are written in the PAX format 1.0 of GNU tar. The body begins with a map of the data: decimal numbers
// that each end in a newline (number of pieces; offset and length of each), padded to a block. The data follow without
// holes. Records in the header hold name and size. archive/tar reads that form but does not write it.
const (
	tarBlock     = 512
	sparseRecord = "GNU.sparse."
)

// wholeHole rounds a hole in a file of that size to whole blocks. It returns the rest and the zeros before and after
// it: GNU tar reads each piece of data from the beginning of a block.
func wholeHole(at, length, size uint64) (before, hole, after uint64) {
	before = min(padding(at), length)
	hole = length - before
	if end := at + length; end < size {
		after = min(end%tarBlock, hole)
	}
	return before, hole - after, after
}

// extents visits the data pieces of a file's content, neighbours merged, and finally an empty piece if the file ends in
// a hole.
func extents(ctx context.Context, load tree.Load, n *tree.Node, visit func(off, length uint64) error) error {
	var at, from uint64 // the piece that was not visited yet begins at from
	err := eachChunk(ctx, load, n, func(c tree.Chunk) error {
		if !c.IsHole() {
			at += c.Len
			return nil
		}
		before, hole, after := wholeHole(at, c.Len, n.Size)
		end := at + before
		at += c.Len
		if hole == 0 {
			return nil
		}
		begin := from
		from = at - after
		if begin == end {
			return nil
		}
		return visit(begin, end-begin)
	})
	if err != nil || n.Size == 0 {
		return err
	}
	return visit(from, n.Size-from)
}

// sparseMap holds the numbers for the header and the map of a sparse file. They are counted first, as a file may have
// any number of pieces.
type sparseMap struct {
	pieces, data uint64
	text         uint64 // bytes of the map
}

func (t *tarWriter) sparseMap(ctx context.Context, n *tree.Node) (m sparseMap, err error) {
	if len(n.Content.Inline) > 0 {
		return sparseMap{data: n.Size}, nil
	}
	err = extents(ctx, t.load, n, func(off, length uint64) error {
		m.pieces++
		m.data += length
		m.text += uint64(len(strconv.FormatUint(off, 10)) + len(strconv.FormatUint(length, 10)) + 2)
		return nil
	})
	m.text += uint64(len(strconv.FormatUint(m.pieces, 10)) + 1)
	return m, err
}

// padding returns how many bytes fill n up to a block.
func padding(n uint64) uint64 { return (tarBlock - n%tarBlock) % tarBlock }

// sparse writes a file with holes: its header h, the map m and the data.
func (t *tarWriter) sparse(ctx context.Context, h *tar.Header, n *tree.Node, m sparseMap) error {
	records := []string{"major", "1", "minor", "0", "name", h.Name, "realsize", strconv.FormatUint(n.Size, 10)}
	dir, base := path.Split(h.Name)
	h.Name, h.Size = dir+"GNUSparseFile.0/"+base, int64(m.text+padding(m.text)+m.data)
	head, err := sparseHeader(h, records)
	if err == nil {
		err = t.tw.Flush() // padding of the previous object
	}
	if err == nil {
		_, err = t.out.Write(head)
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(t.out, "%d\n", m.pieces); err != nil {
		return err
	}
	err = extents(ctx, t.load, n, func(off, length uint64) error {
		_, err := fmt.Fprintf(t.out, "%d\n%d\n", off, length)
		return err
	})
	if err == nil {
		_, err = t.out.Write(make([]byte, padding(m.text)))
	}
	if err == nil {
		err = writeChunks(ctx, t.load, n, t.out, false)
	}
	if err == nil {
		_, err = t.out.Write(make([]byte, padding(m.data)))
	}
	return err
}

// sparseHeader returns the blocks before the body: the header h as archive/tar writes it, preceded by a header with all
// its records and those of a sparse file, which archive/tar would leave out.
func sparseHeader(h *tar.Header, sparse []string) ([]byte, error) {
	var plain bytes.Buffer
	if err := tar.NewWriter(&plain).WriteHeader(h); err != nil {
		return nil, err
	}
	blocks := plain.Bytes()
	own := blocks[len(blocks)-tarBlock:]
	var records bytes.Buffer
	if len(blocks) > tarBlock { // the header of the records, the padded records, and the object's own header
		length, err := strconv.ParseUint(strings.Trim(string(blocks[124:136]), " \x00"), 8, 64)
		if err != nil || length > uint64(len(blocks)-2*tarBlock) {
			return nil, fmt.Errorf("header of a sparse file: %w", tar.ErrHeader)
		}
		records.Write(blocks[tarBlock : tarBlock+length])
	}
	for i := 0; i < len(sparse); i += 2 {
		records.WriteString(paxRecord(sparseRecord+sparse[i], sparse[i+1]))
	}
	length := uint64(records.Len())
	records.Write(make([]byte, padding(length)))
	first := bytes.Clone(own)
	copy(first[:100], make([]byte, 100))
	copy(first, "PaxHeaders.0/sparse")
	copy(first[124:136], fmt.Sprintf("%011o\x00", length))
	first[156] = tar.TypeXHeader
	copy(first[345:500], make([]byte, 155)) // the other part of the name
	copy(first[148:156], "        ")
	sum := 0
	for _, c := range first {
		sum += int(c)
	}
	copy(first[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return append(append(first, records.Bytes()...), own...), nil
}

// paxRecord is a record that begins with its own length.
func paxRecord(key, value string) string {
	rest := len(key) + len(value) + len(" =\n")
	length := rest + len(strconv.Itoa(rest))
	if more := rest + len(strconv.Itoa(length)); more > length {
		length = more
	}
	return fmt.Sprintf("%d %s=%s\n", length, key, value)
}
