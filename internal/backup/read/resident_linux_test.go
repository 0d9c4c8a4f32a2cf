package read

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

// sent is what the next stage gets, and how many operations were charged until then.
type sent struct {
	pieces  []*Piece
	charged []uint64
	gate    *iopolicy.Gate
}

func (s *sent) Queue(context.Context, *Portion) error { return nil }
func (s *sent) NewChunks() Chunks                     { return nil }
func (s *sent) Send(_ context.Context, p *Piece) error {
	s.pieces, s.charged = append(s.pieces, p), append(s.charged, s.gate.Stats().Charged)
	return nil
}

// parts ignores what ends.
type parts struct{}

func (parts) Begin()                    {}
func (parts) Stored(uint32)             {}
func (parts) End(context.Context) error { return nil }

// cached reports how many pages of a file are in memory, after dropping them on request.
func cached(t *testing.T, path string, drop bool) uint64 {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	if drop {
		require.NoError(t, f.Sync())
		require.NoError(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	}
	var st unix.Cachestat_t
	if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &st, 0); err != nil {
		t.Skip("no cachestat here: ", err)
	}
	return st.Cache
}

// Beside a busy disk, the files of a batch that the page cache holds come first, and uncharged.
func TestResidentFilesComeFirst(t *testing.T) {
	path := t.TempDir()
	gate := iopolicy.New(iopolicy.Config{
		Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings(),
		Metering: iopolicy.Metering{Meter: diskwatch.Meter()},
	})
	dir, err := localfs.IOContext{
		Ctx: t.Context(), Pass: gate.Pass(iopolicy.NewClient(iopolicy.Throttle)),
	}.OpenDir(path)
	require.NoError(t, err)
	defer dir.Release()
	self, err := dir.Fstat()
	require.NoError(t, err)
	const files = 20
	d := &Dir{Directory: &scan.Directory{Dev: self.Dev}, Results: make([]Result, files), Parts: parts{}}
	var all []uint32
	content := func(i uint32) string { return string(testkit.Noise(uint64(i), 1000+int(i)*700)) }
	for i := range uint32(files) {
		name := fmt.Sprint(i)
		require.NoError(t, os.WriteFile(path+"/"+name, []byte(content(i)), 0o600))
		var st localfs.Stat
		require.NoError(t, dir.Lstat(name, &st))
		e := scan.Entry{Name: name}
		e.Set(&st)
		d.Entries, all = append(d.Entries, e), append(all, i)
	}
	next := &sent{gate: gate}
	ledger := report.New(time.Now)
	stage := New(Config{Ledger: ledger, Flow: next, Memory: Memory{
		Buffers: NewBuffers(8, PieceSize+SmallFile), Scratch: NewBuffers(1, SmallFile+1), Open: semaphore.NewWeighted(100),
	}})
	reader := stage.NewReader(ledger.Worker("reader"))
	defer func() { require.NoError(t, reader.Close()) }()
	batch := func(entries ...uint32) *Portion {
		dir.Retain()
		return &Portion{dir: d, handle: dir, entries: entries}
	}
	require.NoError(t, reader.Read(t.Context(), batch(0, 1))) // finds out whether reads block
	for i := range all {
		if name := path + "/" + fmt.Sprint(i); i%3 != 0 && cached(t, name, true) > 0 {
			t.Skip("the kernel keeps these pages")
		}
	}
	if !dir.Resident("0", known(d, &d.Entries[0])) {
		t.Skip("no io_uring here, or a file system whose reads block")
	}
	busy, err := gate.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), iopolicy.Op{Kind: iopolicy.Read})
	require.NoError(t, err)
	defer busy.End(1)
	*next = sent{gate: gate}
	before := gate.Stats().Charged
	require.NoError(t, reader.Read(t.Context(), batch(all...)))
	var order []uint32
	for k, p := range next.pieces {
		for _, it := range p.Items {
			order = append(order, it.entry)
			require.Equal(t, content(it.entry), string(p.Buf[it.Off:it.Off+it.Len]))
			require.Equal(t, next.pieces[0].Items[0].entry%3 == it.entry%3, k == 0, "pieces are of one kind")
		}
	}
	require.Equal(t, []uint32{0, 3, 6, 9, 12, 15, 18}, order[:7])
	require.Equal(t, []uint32{1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19}, order[7:])
	require.Equal(t, before, next.charged[0])
	require.Greater(t, next.charged[len(next.charged)-1], before)
	for i := range all {
		require.Equal(t, tree.Static, d.Results[i].Outcome)
		require.Equal(t, i%3 == 0, cached(t, path+"/"+fmt.Sprint(i), false) > 0)
	}
}
