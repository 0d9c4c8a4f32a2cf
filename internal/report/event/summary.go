package event

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Figures are the numbers of the session report; every summary has them.
type Figures struct {
	Objects      report.ObjectsOf[uint64] `json:"objects"` // below
	Bytes        report.BytesOf[uint64]   `json:"bytes"`
	Packs        report.PacksOf[uint64]   `json:"packs"`            // object: `stored`, `fetched`
	TransferTime float64                  `json:"transfer_seconds"` // worker time
	Phases       map[string]float64       `json:"phase_seconds"`    // object: elapsed time by phase
	// object: worker time by stage: `idle`, `scan`, `compare`, `read`, `chunk`, `compress`, `seal`, `store`, `encode`,
	// `fetch`, `unpack`, `write`, `attrs`, `wait_scan`, `wait_read`, `wait_cpu`, `wait_store`, `wait_write`,
	// `wait_memory`
	Stages         map[string]float64 `json:"stage_seconds"`
	Bottleneck     string             `json:"bottleneck,omitempty"`          // as `waiting_for`
	BottleneckPart float64            `json:"bottleneck_share,omitempty"`    // ratio of worker time without `idle`
	TargetAway     float64            `json:"target_away_seconds,omitempty"` // the target did not answer
	report.Limits
	// object: requests that the provider of the store charges for, repeated ones too: `put` (PUT, LIST), `get` (GET,
	// HEAD), `delete`
	Requests *report.Requests `json:"requests,omitempty"`
	Yielding
}

// Ending is the end of the summaries of most jobs.
type Ending struct {
	SecondsElapsed uint64 `json:"seconds_elapsed"`
	Figures
}

// NewEnding makes the end of the summary of a job.
func NewEnding(t *report.Totals) Ending {
	return Ending{uint64(t.Elapsed / time.Second), NewFigures(t)}
}

// BackupSummary ends a backup.
type BackupSummary struct {
	Type            string `json:"message_type"`      // "summary"
	DryRun          bool   `json:"dry_run,omitempty"` // true if nothing was written; so in every summary
	FilesNew        uint64 `json:"files_new"`         // regular files compared with the parent
	FilesChanged    uint64 `json:"files_changed"`
	FilesUnmodified uint64 `json:"files_unmodified"`
	// stored again since the repository had lost data of them
	FilesMended     uint64    `json:"files_repaired,omitempty"`
	DirsNew         uint64    `json:"dirs_new"` // directories
	DirsChanged     uint64    `json:"dirs_changed"`
	DirsUnmodified  uint64    `json:"dirs_unmodified"`
	OthersNew       uint64    `json:"others_new"` // links, devices, fifos, sockets
	OthersChanged   uint64    `json:"others_changed"`
	OthersSame      uint64    `json:"others_unmodified"`
	DataBlobs       uint64    `json:"data_blobs"`            // new chunks
	TreeBlobs       uint64    `json:"tree_blobs"`            // new tree pages
	DataAdded       uint64    `json:"data_added"`            // their bytes before compression
	DataAddedPacked uint64    `json:"data_added_packed"`     // growth of the repository
	TotalFiles      uint64    `json:"total_files_processed"` // regular files in the snapshot, without those that failed
	TotalBytes      uint64    `json:"total_bytes_processed"` // sizes of all regular files
	BackupStart     time.Time `json:"backup_start"`          // by the clock of this machine
	BackupEnd       time.Time `json:"backup_end"`
	TotalDuration   float64   `json:"total_duration"`        // seconds
	ErrorCount      uint64    `json:"error_count"`           // events
	SnapshotID      string    `json:"snapshot_id,omitempty"` // none in a dry run, or if nothing changed
	Repository      string    `json:"repository_id"`         // 32 digits
	Sources         []Source  `json:"sources"`               // list of *sources*
	// why `forget` removes no snapshot of these sources by a policy
	RetentionWaits string             `json:"retention_waits,omitempty"`
	Warnings       []string           `json:"warnings,omitempty"` // such as of a damaged snapshot
	Workers        []report.PoolSizes `json:"workers,omitempty"`  // list of *workers*
	report.Derived
	Figures
}

// Yielded estimates how much longer the backup took because it yielded.
func (s *BackupSummary) Yielded() time.Duration {
	if s.Without == nil {
		return 0
	}
	const second = float64(time.Second)
	return max(0, time.Duration(s.TotalDuration*second)-time.Duration(*s.Without*second))
}

// Source is what a backup found of one source.
type Source struct {
	Path // path, path_raw
	// `whole`, `missing`, `unreadable`, `empty` (nothing is left, or ever was), `shrunk` (see `--shrink-limit`)
	State  string `json:"state"`
	Files  uint64 `json:"files"`  // in the snapshot, links and devices too
	Bytes  uint64 `json:"bytes"`  // sizes of the files
	Failed uint64 `json:"failed"` // objects not backed up
	// unless `whole`: in the last snapshot in which it was
	ExpectedFiles uint64 `json:"expected_files,omitempty"`
	ExpectedBytes uint64 `json:"expected_bytes,omitempty"`
	Accepted      bool   `json:"accepted,omitempty"` // whatever is missing: `--expect-shrink`
	Message       string `json:"message,omitempty"`  // why it is not `whole`
}

// NewFigures makes the figures of a job.
func NewFigures(t *report.Totals) Figures {
	f := Figures{
		Objects: t.Objects, Bytes: t.Bytes, Packs: t.Packs, TransferTime: t.Derive().TransferTime.Seconds(),
		Phases: make(map[string]float64), Stages: make(map[string]float64),
		Yielding: yielding(t), Limits: t.Limits, TargetAway: t.Outage.Took.Seconds(),
	}
	if t.Requests != (report.Requests{}) {
		f.Requests = &t.Requests
	}
	for p, spent := range t.Phases {
		if spent > 0 {
			f.Phases[report.Phase(p).Key()] = spent.Seconds()
		}
	}
	for s, spent := range t.Stages {
		if spent > 0 {
			f.Stages[report.Stage(s).Key()] = spent.Seconds()
		}
	}
	r, share := t.Stages.Bottleneck()
	f.Bottleneck, f.BottleneckPart = r.String(), share
	return f
}

// Gate reports how the job yielded on one device. Lists of four have an element for each tier, 0 to 3.
type Gate struct {
	Device   string `json:"device"` // such as `sda`, `//nas/share`
	Raw      []byte `json:"device_raw,omitempty"`
	Medium   string `json:"medium"`             // `ssd`, `hdd` or `remote`
	Evidence string `json:"evidence,omitempty"` // why
	Policy   string `json:"policy"`             // in effect
	// `full_speed`, `in_window` (yielding, one operation per period) or `waiting` (this period is used up)
	State   string                  `json:"state"`
	Charged uint64                  `json:"charged"`          // operations that reached the device
	Asleep  [iopolicy.Tiers]float64 `json:"asleep_seconds"`   // list: worker time
	Held    float64                 `json:"stalled_seconds"`  // elapsed time asleep without I/O
	Engaged float64                 `json:"yielding_seconds"` // elapsed time in windows
	Share   float64                 `json:"yielding_share"`   // ratio
	Windows [iopolicy.Tiers]uint64  `json:"windows"`          // list: windows opened; other processes are tier 0
	Impact  *Impact                 `json:"impact,omitempty"` // below
	Blamed  []report.Process        `json:"blamed,omitempty"`
	Current []report.Process        `json:"blamed_now,omitempty"` // as blamed, of the last 5 s
	Notes   []string                `json:"notes,omitempty"`      // limitations
}

// Impact is what a job costs others on a device while a window is open.
type Impact struct {
	Max        float64 `json:"max_percent"`             // allowed slowdown of others
	Slowed     float64 `json:"slowed_percent"`          // estimated slowdown of others
	Budget     float64 `json:"turn_budget_seconds"`     // device time of the next turn
	Turns      float64 `json:"turn_seconds"`            // device time of all turns
	Rate       float64 `json:"others_io_per_second"`    // 0 if unknown
	Harm       float64 `json:"harm"`                    // part of a turn that others lose: calculated, or measured if less
	Calculated float64 `json:"harm_calculated"`         // the same by calculation
	Measured   float64 `json:"harm_measured,omitempty"` // the same as measured, at most
	Inflight   float64 `json:"in_flight_seconds"`       // limit of the device time of I/O in flight
}

// Yielding reports how a job yielded: part of the figures of a summary, and of a status.
type Yielding struct {
	Policies []report.PolicySpan `json:"policies,omitempty"` // lists, see below
	Gates    []Gate              `json:"gates,omitempty"`
	// estimated duration if the job had not yielded
	Without *float64 `json:"seconds_without_yielding,omitempty"`
}

// NewGate makes the form of g in an event, of a job that has run for some time.
func NewGate(g *report.Gate, elapsed time.Duration) Gate {
	out := Gate{
		Medium: g.Medium, Evidence: g.Why, Policy: g.Policy, State: report.StateKey(g.State), Charged: g.Charged,
		Held: g.Held.Seconds(), Engaged: g.Engaged.Seconds(), Windows: g.Windows,
	}
	out.Device, out.Raw = Escape(g.Device)
	if g.Max > 0 {
		out.Impact = &Impact{Max: 100 * g.Max, Slowed: 100 * g.Slowed(), Budget: g.Budget.Seconds(), Turns: g.Turns.Seconds(),
			Rate: g.Rate, Harm: g.Harm, Calculated: g.Calculated, Measured: g.Measured, Inflight: g.Inflight.Seconds()}
	}
	if elapsed > 0 {
		out.Share = min(1, g.Engaged.Seconds()/elapsed.Seconds())
	}
	for tier, d := range g.Asleep {
		out.Asleep[tier] = d.Seconds()
	}
	out.Blamed, out.Current = processes(g.Blamed), processes(g.Current)
	out.Notes = Paths(g.Notes)
	return out
}

func processes(all []report.Process) (out []report.Process) {
	for _, c := range all {
		c.Name, _ = Escape(c.Name)
		out = append(out, c)
	}
	return out
}

func yielding(t *report.Totals) Yielding {
	y := Yielding{Policies: t.Policies}
	for i := range t.Gates {
		y.Gates = append(y.Gates, NewGate(&t.Gates[i], t.Elapsed))
	}
	if without, ok := t.Without(); ok && t.Slept() {
		seconds := without.Seconds()
		y.Without = &seconds
	}
	return y
}
