package corpus

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

const (
	mixedFolders = 4_000
	mixedFiles   = 61_968 // with the image and its folder 65 970 objects
	imageBytes   = 1 << 30
	pageBytes    = 16 << 10
	// changedPages of the pages of a whole image have other content in the next version: 54 MiB.
	changedPages = 3456
	// extentPages is how many neighbouring pages of the image are of one kind: 512 KiB.
	extentPages = 32

	// How many of a thousand files are programs and tables, and how many are packed: pictures, archives. The means of
	// the three kinds, in bytes, add up to 4.2 GB, a little more than half of it not text.
	mixedPrograms, mixedPacked            = 90, 30
	textMean, programsMean, packedMean    = 35_300, 180_000, 108_000
	textPieces, programPieces, packPieces = 5, 6, 7
)

// mixed makes the disk of a software developer: text, programs, packed files, and the image of a disk.
type mixed struct {
	seed   uint64
	writer *writer
	layout layout
	image  int64 // bytes
}

func newMixed(seed uint64, scale float64) *mixed {
	m := &mixed{seed: seed, writer: newWriter()}
	m.layout = newLayout(seed, m.writer, scaled(mixedFolders, scale), scaled(mixedFiles, scale))
	m.image = int64(scaled(imageBytes/pageBytes, scale)) * pageBytes
	return m
}

func (m *mixed) write(ctx context.Context, root string) error {
	paths := m.layout.paths(root)
	if err := m.layout.make(paths); err != nil {
		return err
	}
	err := m.layout.each(ctx, m.writer, func(h *hand, i int) error {
		for k := range m.layout[i].files {
			if err := m.file(h, paths[i], i, k); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.newImage(ctx, root)
}

// file writes the k-th file of a folder.
func (m *mixed) file(h *hand, dir string, folder, k int) error {
	file := uint64(m.layout[folder].first + k)
	d := throw(m.seed, 1, file)
	kind, mean, ending := textPieces, int64(textMean), textEnding(&d)
	switch x := d.below(1000); {
	case x < mixedPacked:
		kind, mean, ending = packPieces, packedMean, ".zip"
	case x < mixedPacked+mixedPrograms:
		kind, mean, ending = programPieces, programsMean, ".so"
	}
	size := d.spread(mean)
	path := filepath.Join(dir, m.writer.name(&d, k, ending))
	return h.write(path, size, func(p []byte, piece, n int) []byte {
		return m.piece(h, p, throw(m.seed, 2, file, uint64(piece)), kind, m.layout[folder].project, n)
	})
}

// piece appends n bytes of a kind.
func (m *mixed) piece(h *hand, p []byte, d dice, kind int, project uint64, n int) []byte {
	switch kind {
	case textPieces:
		return h.voice(project).text(p, d, n)
	case programPieces:
		return h.voice(project).machine(p, d, n)
	default:
		at := len(p)
		p = append(p, make([]byte, n)...)
		d.fill(p[at:])
		return p
	}
}

// page appends a page of the image. Its kind depends on its position: of ten extents three hold programs, two text,
// four packed files, and one is empty.
func (m *mixed) page(h *hand, p []byte, page int64, version int) []byte {
	extent := throw(m.seed, 3, uint64(page/extentPages))
	kind, project := extent.below(10), extent.next()%64
	d := throw(m.seed, 4, uint64(page), uint64(version))
	switch {
	case kind < 3:
		return m.piece(h, p, d, programPieces, project, pageBytes)
	case kind < 5:
		return m.piece(h, p, d, textPieces, project, pageBytes)
	case kind < 9 || version > 0:
		return m.piece(h, p, d, packPieces, project, pageBytes)
	default:
		return append(p, make([]byte, pageBytes)...)
	}
}

func (m *mixed) imagePath(root string) string { return filepath.Join(root, "machines", "disk.img") }

// newImage writes the image of the disk.
func (m *mixed) newImage(ctx context.Context, root string) error {
	path := m.imagePath(root)
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return err
	}
	return m.pages(ctx, root, m.image/pageBytes, 0, func(k int64) int64 { return k })
}

func (m *mixed) next(ctx context.Context, root string, version int) (Change, error) {
	all := m.image / pageBytes
	n := max(1, all*changedPages/(imageBytes/pageBytes))
	err := m.pages(ctx, root, n, version, func(k int64) int64 { // one page of each of n stretches
		from, to := k*all/n, (k+1)*all/n
		d := throw(m.seed, 5, uint64(k), uint64(version))
		return from + int64(d.below(int(to-from)))
	})
	return Change{Changed: 1, Bytes: n * pageBytes}, err
}

// pages writes n pages of the image; at returns the number of the k-th.
func (m *mixed) pages(ctx context.Context, root string, n int64, version int, at func(k int64) int64) error {
	f, err := os.OpenFile(m.imagePath(root), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	stretches := make(layout, (n+extentPages-1)/extentPages)
	err = stretches.each(ctx, m.writer, func(h *hand, i int) error {
		from := int64(i) * extentPages
		for k := from; k < min(from+extentPages, n); k++ {
			h.buf = m.page(h, h.buf[:0], at(k), version)
			if _, err := f.WriteAt(h.buf, at(k)*pageBytes); err != nil {
				return fmt.Errorf("write image: %w", err)
			}
		}
		return nil
	})
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
