package output

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func TestPermissions(t *testing.T) {
	for want, n := range map[string]tree.Node{
		"-rwxr-xr-x": {Type: tree.File, Mode: 0o755},
		"drwxrwxrwt": {Type: tree.Dir, Mode: 0o1777},
		"-rwsr-sr-x": {Type: tree.File, Mode: 0o6755},
		"-rwSr-Sr-T": {Type: tree.File, Mode: 0o7644},
		"lrwxrwxrwx": {Type: tree.Symlink, Mode: 0o777},
		"p---------": {Type: tree.Fifo},
		"crw-rw-rw-": {Type: tree.CharDevice, Mode: 0o666},
		"brw-rw----": {Type: tree.BlockDevice, Mode: 0o660},
		"srwxr-xr-x": {Type: tree.Socket, Mode: 0o755},
	} {
		require.Equal(t, want, permissions(&n))
	}
}

// nodeAt is an object of a snapshot without names of owners.
func nodeAt(path string, n tree.Node) *Node {
	return &Node{Path: path, Node: &n, In: &snapshot.Snapshot{}, Long: true}
}

// A name can neither move the cursor nor pass for two lines.
func TestNodeLineIsSafeToShow(t *testing.T) {
	n := nodeAt("/a\n\x1b[2Jb", tree.Node{Name: "x", Type: tree.Symlink, Target: "\x07"})
	var b show.Page
	n.Text(&b)
	require.Equal(t, 1, strings.Count(b.String(), "\n"))
	require.NotContains(t, b.String(), "\x1b")
	require.NotContains(t, b.String(), "\x07")
}

func TestOutcomeIsShown(t *testing.T) {
	for outcome, text := range map[tree.Outcome]string{
		tree.Retried: "read again", tree.Dynamic: "changed while", tree.Skipped: "no content", tree.Unreadable: "no content",
	} {
		n := nodeAt("/a", tree.Node{Name: "a", Type: tree.File, Outcome: outcome})
		var b show.Page
		n.Text(&b)
		require.Contains(t, b.String(), text)
		raw, err := json.Marshal(n.Events()[0])
		require.NoError(t, err)
		require.Contains(t, string(raw), `"outcome":`)
	}
}

// A file can have a time that RFC 3339 has no form for. It does not cost the line, nor all that follow.
func TestTimesOfAnyYear(t *testing.T) {
	for _, sec := range []int64{math.MinInt64, -100_000_000_000, 253_402_300_800, math.MaxInt64} {
		at := tree.Time{Sec: sec}
		n := nodeAt("/a", tree.Node{Name: "a", Type: tree.File, ModTime: at, Changed: at, Access: &at, Born: &at})
		_, err := json.Marshal(n.Events()[0])
		require.NoError(t, err, "%d", sec)
	}
	at := tree.Time{Sec: 1_700_000_000, Nsec: 5}
	raw, err := json.Marshal(nodeAt("/a", tree.Node{Name: "a", Type: tree.File, ModTime: at}).Events()[0])
	require.NoError(t, err)
	require.Contains(t, string(raw), `:20.000000005`)
}

func TestTableAlignsColumnsOfAnyWidth(t *testing.T) {
	table := table{head: []string{"A", "Size>"}}
	table.add("x\nlonger", "1")
	table.add("ä", "22222")
	var b show.Page
	table.write(&b)
	require.Equal(t, "A        Size\n-------------\nx           1\nlonger\nä       22222\n", b.String())
}

func TestJSONKeepsStandardOutputClean(t *testing.T) {
	var out, errs bytes.Buffer
	p := NewJSON(&out, &errs, false)
	p.Note("careful")
	p.Show("block")
	p.Fail(12, "wrong key", false)
	require.Empty(t, out.String())
	require.Equal(t, 2, strings.Count(errs.String(), "\n"))
	require.NoError(t, p.Print(&Created{ID: "0123456789", Place: "/x", RecoveryKey: "K"}))
	require.JSONEq(t, `{"message_type":"initialized","id":"0123456789","repository":"/x","recovery_key":"K"}`,
		out.String())
}

func TestJSONHasAStatusEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p, l := NewJSON(&out, io.Discard, false), report.New(time.Now)
		stop := show.Start(t.Context(), func(ctx context.Context) { p.status(ctx, l) })
		time.Sleep(3500 * time.Millisecond)
		stop()
		require.Equal(t, 3, strings.Count(out.String(), `"message_type":"status"`))
		require.Contains(t, out.String(), `"seconds_elapsed":3`)
	})
}

func TestAResultThatCannotBeWrittenFails(t *testing.T) {
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	for _, quiet := range []bool{false, true} {
		p := NewText(f, io.Discard, TextOptions{Output: options.Output{Quiet: quiet}})
		require.ErrorIs(t, p.Report(&Backup{Ledger: report.New(time.Now), ID: format.ID{1}}), os.ErrClosed)
	}
}

func TestQuiet(t *testing.T) {
	var out bytes.Buffer
	quietly := TextOptions{Output: options.Output{Quiet: true}}
	require.NoError(t, NewText(&out, &out, quietly).Report(&Backup{ID: format.ID{0xab}}))
	require.Equal(t, format.ID{0xab}.String()+"\n", out.String())
	require.NoError(t, NewText(&out, &out, quietly).Report(&Backup{Skipped: true}))
	require.Equal(t, format.ID{0xab}.String()+"\n", out.String())
}

func TestQuietIsAboutNotes(t *testing.T) {
	var out, errs bytes.Buffer
	quietly := TextOptions{Output: options.Output{Quiet: true}}
	p := NewText(&out, &errs, quietly)
	p.Note("x")
	require.NoError(t, p.Report(&Created{ID: "0123456789"}))
	require.Empty(t, out.String()+errs.String())
	p.Show("recovery key")
	p.Fail(1, "broken", false)
	require.Equal(t, "recovery keytidemark: broken\n", errs.String())
}
