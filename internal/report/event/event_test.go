package event

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// The words of phases and stages that docs/json.md promises are all there are.
func TestWordsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/json.md")
	require.NoError(t, err)
	for s := range len(report.StageTimes{}) {
		require.Contains(t, string(text), "`"+report.Stage(s).Key()+"`")
		if r := report.Stage(s).Resource(); r != report.Nothing {
			require.Contains(t, string(text), "`"+r.String()+"`")
		}
	}
	for p := range len(report.Totals{}.Phases) {
		require.Contains(t, string(text), "`"+report.Phase(p).Key()+"`")
	}
	for s := iopolicy.Disengaged; s <= iopolicy.Waiting; s++ {
		require.Contains(t, string(text), "`"+report.StateKey(s)+"`")
	}
}

func encode(t *testing.T, v any) string {
	var b strings.Builder
	require.NoError(t, NewWriter(&b).Write(v))
	line, ended := strings.CutSuffix(b.String(), "\n")
	require.True(t, ended)
	require.NotContains(t, line, "\n")
	return line
}

func TestErrorEvent(t *testing.T) {
	require.JSONEq(t, `{"message_type":"error","error":{"message":"permission denied"},"during":"archival","op":"open",
		"item":"/a\\b\n"}`,
		encode(t, NewError(report.Backup, report.Issue{Op: "open", Path: "/a\\b\n", Err: os.ErrPermission})))
	require.JSONEq(t, `{"message_type":"remark","error":{"message":"no"},"during":"restore","op":"set owner",
		"item":"/caf\\xe9\\\\x","path_raw":"`+base64.StdEncoding.EncodeToString([]byte("/caf\xe9\\x"))+`"}`,
		encode(t, NewError(report.Restore, report.Issue{
			Remark: true, Op: "set owner", Path: "/caf\xe9\\x", Err: errors.New("no"),
		})))
	require.JSONEq(t, `{"message_type":"error","error":{"message":""},"during":"check","op":"read pack","item":""}`,
		encode(t, NewError(report.Check, report.Issue{Op: "read pack"})))
	require.JSONEq(t, `{"message_type":"exit_error","code":12,"message":"wrong key"}`,
		encode(t, &Exit{Type: "exit_error", Code: 12, Message: "wrong key"}))
}

// An event of a result without a type of its own begins with its kind.
func TestOf(t *testing.T) {
	require.Equal(t, `{"message_type":"a","x":1}`, encode(t, Of("a", &struct {
		X int `json:"x"`
	}{1})))
	require.Equal(t, `{"message_type":"a"}`, encode(t, Of("a", &struct{}{})))
	require.ErrorContains(t, NewWriter(&failing{}).Write(Of("a", func() {})), "unsupported type")
}

func FuzzPathSurvivesJSON(f *testing.F) {
	for _, p := range []string{"", "/ä", "\xff", `\x`, "a\x00b", "\xed\xa0\x80", "\u2028"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		line, err := json.Marshal(NewPath(path))
		require.NoError(t, err)
		var got Path
		require.NoError(t, json.Unmarshal(line, &got))
		back := got.Text
		if got.Raw != nil {
			back = string(got.Raw)
		}
		require.Equal(t, path, back)
	})
}

func TestStatus(t *testing.T) {
	totals := &report.Totals{
		Phase: report.Scanning, Elapsed: 90500 * time.Millisecond, Failures: 2,
		Expected: report.Expected{Objects: 1000, Bytes: 4000},
	}
	totals.Objects.Inspected, totals.Bytes.Inspected, totals.Bytes.Wanted, totals.Bytes.Read = 500, 2000, 1500, 500
	totals.Bytes.Transferred = 123
	s := report.Speeds{Bytes: 100.5, Items: 7, Left: 29500 * time.Millisecond, Limit: report.Reading}
	require.JSONEq(t, `{"message_type":"status","phase":"scanning","seconds_elapsed":90,"seconds_remaining":30,
		"percent_done":0.25,"totals":"estimated","total_files":1000,"files_done":500,"total_bytes":4000,"bytes_done":1000,
		"bytes_read":500,
		"bytes_transferred":123,"bytes_per_second":100.5,"items_per_second":7,"error_count":2,"waiting_for":"reading",
		"current_files":["/a","/\\xff"]}`, encode(t, NewStatus(totals, s, []string{"/a", "/\xff"})))

	restore := &report.Totals{Job: report.Restore}
	restore.Objects.Restored, restore.Objects.Kept, restore.Bytes.Restored = 3, 1, 17
	require.JSONEq(t, `{"message_type":"status","phase":"opening","seconds_elapsed":0,"percent_done":0,"total_files":4,
		"files_done":4,"files_restored":3,"files_skipped":1,"total_bytes":17,"bytes_done":17,"bytes_restored":17,
		"bytes_read":0,"bytes_transferred":0,"bytes_per_second":0,"items_per_second":0,"error_count":0}`,
		encode(t, NewStatus(restore, report.Speeds{Left: -1}, nil)))
}

// gated is a run of 49 s that slept for fio on sda and found sdb idle.
func gated() *report.Totals {
	return &report.Totals{
		Elapsed:  49 * time.Second,
		Policies: []report.PolicySpan{{Policy: "throttle"}, {Policy: "important", Since: 32.5}},
		Gates: []report.Gate{{
			Device: "s\xffa", Medium: "ssd", Why: "The data lies on sda.", Policy: "throttle", State: iopolicy.Waiting,
			Charged: 1480,
			Asleep:  [iopolicy.Tiers]time.Duration{3: 37500 * time.Millisecond},
			Held:    36 * time.Second, Engaged: 24500 * time.Millisecond,
			Windows: [iopolicy.Tiers]uint64{124, 0, 1, 0},
			Blamed:  []report.Process{{PID: 1234, Name: "fi\xff", Bytes: 4096}}, Notes: []string{"a\xff"},
		}, {Device: "sdb", Medium: "hdd"}},
	}
}

func TestGatesInEvents(t *testing.T) {
	want := `"policies":[{"policy":"throttle","since_seconds":0},{"policy":"important","since_seconds":32.5}],` +
		`"gates":[{"device":"s\\xffa","device_raw":"c/9h","medium":"ssd","evidence":"The data lies on sda.",` +
		`"policy":"throttle","state":"waiting","charged":1480,"asleep_seconds":[0,0,0,37.5],"stalled_seconds":36,` +
		`"yielding_seconds":24.5,"yielding_share":0.5,"windows":[124,0,1,0],` +
		`"blamed":[{"pid":1234,"name":"fi\\xff","bytes":4096}],"notes":["a\\xff"]},` +
		`{"device":"sdb","medium":"hdd","policy":"","state":"full_speed","charged":0,"asleep_seconds":[0,0,0,0],` +
		`"stalled_seconds":0,"yielding_seconds":0,"yielding_share":0,"windows":[0,0,0,0]}],"seconds_without_yielding":13}`
	totals := gated()
	require.True(t, strings.HasSuffix(encode(t, BackupSummary{Figures: NewFigures(totals)}), want))
	require.True(t, strings.HasSuffix(encode(t, NewStatus(totals, report.Speeds{}, nil)), want))
	totals.Job = report.Restore
	require.True(t, strings.HasSuffix(encode(t, NewEnding(totals)), want))

	totals.Gates = totals.Gates[1:]
	require.NotContains(t, encode(t, NewEnding(totals)), "seconds_without_yielding",
		"the job yielded to no process")
	totals.Gates, totals.Policies = nil, nil
	line := encode(t, NewFigures(totals))
	require.NotContains(t, line, "gates")
	require.NotContains(t, line, "policies")
}

func TestImpactInEvents(t *testing.T) {
	g := report.Gate{Impact: iopolicy.Impact{Max: 0.05, Budget: time.Millisecond, Rate: 1000, Harm: 0.1, Calculated: 0.3,
		Measured: 0.1, Inflight: 300 * time.Microsecond}}
	want := &Impact{Max: 5, Budget: 0.001, Rate: 1000, Harm: 0.1, Calculated: 0.3, Measured: 0.1, Inflight: 0.0003}
	require.Equal(t, want, NewGate(&g, time.Second).Impact)
	g.Max = 0
	require.Nil(t, NewGate(&g, time.Second).Impact)
}

func TestPoolSizesInTheSummary(t *testing.T) {
	speed, busy := 3e7, 0.5
	sizes := []report.PoolSizes{
		{Readers: 8, Compressors: 2, Uploads: 2, Level: 2},
		{Since: 3, Readers: 8, Compressors: 2, Uploads: 2, Level: 1, Bottleneck: "processors",
			Speed: &speed, Starved: new(float64), Blocked: new(float64), Busy: &busy},
	}
	require.Contains(t, encode(t, BackupSummary{Workers: sizes}),
		`"workers":[{"since_seconds":0,"readers":8,"compressors":2,"uploads":2,"compression_level":2},`+
			`{"since_seconds":3,"readers":8,"compressors":2,"uploads":2,"compression_level":1,"bottleneck":"processors",`+
			`"bytes_per_second":30000000,"starved":0,"blocked":0,"busy":0.5}]`)
	require.NotContains(t, encode(t, BackupSummary{}), "workers")
}

type failing struct{ calls int }

func (f *failing) Write([]byte) (int, error) {
	f.calls++
	return 0, os.ErrClosed
}

func TestWriterStopsAtTheFirstError(t *testing.T) {
	f := &failing{}
	w := NewWriter(f)
	require.ErrorIs(t, w.Write(Exit{}), os.ErrClosed)
	require.ErrorIs(t, w.Write(Exit{}), os.ErrClosed)
	require.Equal(t, 1, f.calls)
	require.ErrorContains(t, NewWriter(&failing{}).Write(func() {}), "encode func()")
}

func TestWriterKeepsLinesWhole(t *testing.T) {
	var b strings.Builder
	w := NewWriter(&b)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				_ = w.Write(&Exit{Code: 1, Message: strings.Repeat("x", 200)})
			}
		})
	}
	wg.Wait()
	for line := range strings.Lines(b.String()) {
		require.True(t, json.Valid([]byte(line)))
	}
	require.Equal(t, 400, strings.Count(b.String(), "\n"))
}
