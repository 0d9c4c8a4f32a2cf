package output

import (
	"bufio"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/buildinfo"
	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/copy"
	"github.com/tidemark-backup/tidemark/internal/drill"
	"github.com/tidemark-backup/tidemark/internal/manual"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/repair"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/rewrite"
	"github.com/tidemark-backup/tidemark/internal/service"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// documented returns the fields in the tables of docs/json.md, by heading of the third level. message_type, which every
// object has, is in no table.
func documented(t *testing.T) map[string][]string {
	f, err := os.Open("../../../docs/json.md")
	require.NoError(t, err)
	defer f.Close()
	row := regexp.MustCompile("^\\| (`[a-z_]+`(?:, `[a-z_]+`)*) \\|")
	tables, heading := map[string][]string{}, ""
	for s := bufio.NewScanner(f); s.Scan(); {
		line := s.Text()
		if title, ok := strings.CutPrefix(line, "### "); ok {
			heading = strings.ReplaceAll(title, "`", "")
			tables[heading] = nil
		} else if m := row.FindStringSubmatch(line); m != nil {
			tables[heading] = append(tables[heading], strings.Split(strings.ReplaceAll(m[1], "`", ""), ", ")...)
		}
	}
	return tables
}

// names lists the JSON names of a struct in the order of its fields. Figures, which have a table of their own, are left
// out; other embedded structs are looked into.
func names(typ reflect.Type) (out []string) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		switch {
		case f.Anonymous && f.Type == reflect.TypeFor[event.Figures]():
		case f.Anonymous && f.Type.Kind() == reflect.Pointer:
			out = append(out, names(f.Type.Elem())...)
		case f.Anonymous:
			out = append(out, names(f.Type)...)
		case f.Tag.Get("json") == "-":
		default:
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			out = append(out, name)
		}
	}
	return out
}

func TestEveryFieldIsDocumentedAndNoOther(t *testing.T) {
	tables := documented(t)
	types := map[string]any{
		"status":                           event.Status{},
		"error, remark":                    event.Error{},
		"exit_error":                       event.Exit{},
		"summary of a backup":              event.BackupSummary{},
		"summary of a restore":             Restore{},
		"summary of a check":               Check{},
		"summary of a prune":               Pruned{},
		"copied":                           copy.Snapshot{},
		"drill":                            drill.Result{},
		"last_verified":                    proofs.Summary{},
		"summary of a copy":                copied{},
		"lost":                             repair.Loss{},
		"reread":                           backup.Reread{},
		"changed":                          ChangedSnapshot{},
		"excluded":                         rewrite.Excluded{},
		"summary of a tag or rewrite":      Rewritten{},
		"summary of a repair of the index": repair.IndexResult{},
		"summary of a repair of packs":     repair.PacksResult{},
		"salvaged":                         repair.Salvaged{},
		"summary of a repair of snapshots": repair.SnapshotsResult{},
		"replaced":                         repair.Replaced{},
		"Figures":                          event.Figures{},
		"objects of the figures":           report.ObjectsOf[uint64]{},
		"bytes of the figures":             report.BytesOf[uint64]{},
		"initialized":                      Created{},
		"snapshot":                         event.Snapshot{},
		"node, match":                      event.Node{},
		"change":                           browse.Change{},
		"would":                            wouldDo{},
		"backup_version":                   fileVersion{},
		"filespace":                        FileSpace{},
		"session":                          SessionFields{},
		"option_file":                      optionfile.File{},
		"setup":                            Setup{},
		"statistics":                       browse.DiffStats{},
		"stats":                            event.Statistics{},
		"Costs of runs":                    event.RunCost{},
		"analysis":                         event.Analysis{},
		"Rows of an analysis":              event.AnalysisRow{},
		"key":                              event.Key{},
		"cache":                            Cache{},
		"rule, decision":                   event.Rule{},
		"option":                           options.Effective{},
		"version":                          buildinfo.Info{},
		"manual":                           manual.Installed{},
		"job":                              event.Job{},
		"overview":                         event.Overview{},
		"policy_change":                    event.PolicyChange{},
		"daemon":                           event.Daemon{},
		"Jobs of the service":              event.DaemonJob{},
		"Access of the service":            event.Access{},
		"hook":                             event.Hook{},
		"run":                              event.Run{},
		"Steps of a run":                   event.RunStep{},
		"log":                              event.Log{},
		"notification":                     event.Notification{},
		"notify_test":                      event.NotifyTest{},
		"job_definition":                   event.JobDefinition{},
		"service":                          service.State{},
		"policies":                         report.PolicySpan{},
		"workers":                          report.PoolSizes{},
		"sources":                          event.Source{},
		"gates":                            event.Gate{},
		"blamed of a gate":                 report.Process{},
		"impact of a gate":                 event.Impact{},
	}
	for heading, v := range types {
		require.Contains(t, tables, heading)
		fields := slices.DeleteFunc(names(reflect.TypeOf(v)), func(name string) bool { return name == "message_type" })
		require.Equal(t, fields, tables[heading], heading)
	}
	for heading := range tables {
		_, found := types[heading]
		require.True(t, found, "a table without a type: %s", heading)
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, event.NewWriter(&b).Write(v))
	return b.String()
}

func TestSummaries(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)
	totals := &report.Totals{Start: start, Elapsed: 2500 * time.Millisecond, Failures: 1}
	totals.Files = report.ComparedOf[uint64]{New: 1, Changed: 2, Unmodified: 3}
	totals.Bytes.AfterDedup, totals.Bytes.Trees, totals.Bytes.Stored = 1000, 200, 600
	totals.Bytes.Processed, totals.Bytes.Transferred = 1200, 600
	totals.Bytes.BeforeDedup, totals.Bytes.Inspected = 4000, 6000
	totals.Stages[report.Store] = 3 * time.Second
	totals.Stages[report.WaitStore] = time.Second
	totals.Phases[report.Scanning] = 2500 * time.Millisecond
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(encode(t, (&Backup{ID: format.ID{0xab}}).summary(totals))), &got))
	for name, want := range map[string]any{
		"message_type": "summary", "files_new": 1.0, "files_changed": 2.0, "files_unmodified": 3.0,
		"total_files_processed": 6.0, "data_added": 1200.0, "data_added_packed": 600.0, "total_duration": 2.5,
		"total_bytes_processed": 6000.0, "snapshot_id": format.ID{0xab}.String(), "error_count": 1.0,
		"backup_start": "2026-03-01T12:00:00.000000005Z", "backup_end": "2026-03-01T12:00:02.500000005Z",
		"compressed_by": 0.5, "deduplication_reduction": 0.75, "total_data_reduction": 0.9, "transfer_seconds": 3.0,
		"stage_seconds": map[string]any{"store": 3.0, "wait_store": 1.0}, "phase_seconds": map[string]any{"scanning": 2.5},
		"bottleneck": "the repository", "bottleneck_share": 1.0,
	} {
		require.Equal(t, want, got[name], name)
	}
	require.NotContains(t, got, "dry_run")

	require.NotContains(t, encode(t, (&Backup{}).summary(totals)), "snapshot_id")
	l := report.NewJob(report.Restore, time.Now)
	l.Note("a", "set", os.ErrPermission)
	require.Contains(t, encode(t, (&Restore{Ledger: l}).Events()[0]), `"remark_count":1`)
	l = report.NewJob(report.Check, time.Now)
	require.Contains(t, encode(t, (&Check{Ledger: l, Result: &check.Result{}}).Events()[0]), `"broken_packs":[]`)
	require.Contains(t, encode(t, RepairedIndex(&repair.IndexResult{}).Events()[0]),
		`"damaged_packs":[],"missing_packs":[]`)
	require.Contains(t, encode(t, RepairedPacks(&repair.PacksResult{}).Events()[0]), `"salvaged":[],"objects_lost":0`)
	require.Contains(t, encode(t, RepairedSnapshots(&repair.SnapshotsResult{}).Events()[0]),
		`"replaced":[],"objects_lost":0`)
}
