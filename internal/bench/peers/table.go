package peers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// results holds all measurements.
type results struct {
	Machine machine       `json:"machine"`
	Unlock  string        `json:"unlock"`
	Cold    bool          `json:"cold"` // caches were dropped where the step is cold
	Rounds  int           `json:"rounds"`
	Missing []string      `json:"missing,omitempty"` // programs that are not on this machine
	Data    []dataset     `json:"data"`
	All     []measurement `json:"measurements"`
}

// base is what ratios are of.
const base = "tidemark"

// of returns the results of one data set.
func (r *results) of(name string) *results {
	out := *r
	out.Data = slices.DeleteFunc(slices.Clone(r.Data), func(d dataset) bool { return d.Name != name })
	out.All = slices.DeleteFunc(slices.Clone(r.All), func(m measurement) bool { return m.Data != name })
	return &out
}

// markdown lays out all tables.
func (r *results) markdown() string {
	var out strings.Builder
	m := r.Machine
	fmt.Fprintf(&out, "%s: %s, %d processors (%s), %s, %s; load %.1f when it began; %d rounds", m.Time, m.System,
		m.Processors,
		m.Processor, m.Memory, m.FileSystem, m.Load, r.Rounds)
	if r.Unlock != "" {
		fmt.Fprintf(&out, "; %s opened by %s", base, r.Unlock)
	}
	if !r.Cold {
		out.WriteString("; caches were never dropped, so everything is warm")
	}
	out.WriteString(".\n")
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		fmt.Fprintf(&out, "%s: %s. ", name, m.Versions[name])
	}
	if len(r.Missing) > 0 {
		fmt.Fprintf(&out, "Not on this machine and left out: %s.", strings.Join(r.Missing, ", "))
	}
	out.WriteString("\n")
	for _, d := range r.Data {
		fmt.Fprintf(&out, "\n### %s: %d objects, %.2f GB\n", d.Name, d.Objects, float64(d.Bytes)/1e9)
		if d.Scale != 0 && d.Scale != 1 {
			fmt.Fprintf(&out, "\nScale %g.\n", d.Scale)
		}
		if c := d.Change; c != nil {
			fmt.Fprintf(&out, "\nNext version: %d changed, %d added, %d deleted, %d renamed; %.1f MB written.\n",
				c.Changed, c.Added, c.Deleted, c.Renamed, float64(c.Bytes)/1e6)
		}
		one := r.of(d.Name)
		fmt.Fprintf(&out, "\nSeconds (of processors):\n\n%s", one.absolute())
		if ratios := one.ratios(func(m measurement) float64 { return m.Seconds }); ratios != "" {
			fmt.Fprintf(&out, "\nSeconds of %s divided by those of the other, median (least to most):\n\n%s", base, ratios)
			fmt.Fprintf(&out, "\nProcessor seconds, likewise:\n\n%s", one.ratios(func(m measurement) float64 { return m.cpu() }))
		}
		fmt.Fprintf(&out, "\nRepository in MB, median, and its growth:\n\n%s", one.sizes())
		fmt.Fprintf(&out, "\nPeak memory of the largest process in MB, the most of all rounds:\n\n%s", one.memory())
	}
	return out.String()
}

// timed are the columns of time.
func timed() []string {
	return []string{onFirst, onUnchangedCold, onUnchangedWarm, onNext, onRestore, onCheck, onPrune, onList, onTen}
}

// absolute lays out seconds.
func (r *results) absolute() string {
	return r.table(timed(), func(all []measurement) string {
		seconds, cpu := values(all, func(m measurement) float64 { return m.Seconds }), values(all,
			func(m measurement) float64 { return m.cpu() })
		return fmt.Sprintf("%s (%s)", short(kit.Median(seconds)), short(kit.Median(cpu)))
	})
}

// ratios formats the ratios of tidemark to each other program in the same round.
func (r *results) ratios(value func(measurement) float64) string {
	if !slices.ContainsFunc(r.All, func(m measurement) bool { return m.Peer == base }) {
		return ""
	}
	others := *r
	others.All = slices.DeleteFunc(slices.Clone(r.All), func(m measurement) bool { return m.Peer == base })
	return others.table(timed(), func(all []measurement) string {
		var ratios []float64
		for round, theirs := range byRound(all, value) {
			ours := byRound(r.find(base, all[0].What), value)[round]
			if len(ours) > 0 && kit.Median(theirs) > 0 {
				ratios = append(ratios, kit.Median(ours)/kit.Median(theirs))
			}
		}
		switch len(ratios) {
		case 0:
			return ""
		case 1:
			return fmt.Sprintf("%.2f", ratios[0])
		}
		return fmt.Sprintf("%.2f (%.2f-%.2f)", kit.Median(ratios), slices.Min(ratios), slices.Max(ratios))
	})
}

// byRound sorts the values of one step of one program by round.
func byRound(all []measurement, value func(measurement) float64) map[int][]float64 {
	out := map[int][]float64{}
	for _, m := range all {
		out[m.Round] = append(out[m.Round], value(m))
	}
	return out
}

// sizes lays out repositories.
func (r *results) sizes() string {
	return r.table([]string{onSizeFirst, onSizeNext, growth, onSizePruned}, func(all []measurement) string {
		return fmt.Sprintf("%.1f", kit.Median(values(all, func(m measurement) float64 { return float64(m.Bytes) }))/1e6)
	})
}

// growth is how much a repository grew by the next version.
const growth = "growth"

// memory lays out the largest resident sets.
func (r *results) memory() string {
	return r.table(timed(), func(all []measurement) string {
		return fmt.Sprintf("%.0f", slices.Max(values(all, func(m measurement) float64 { return float64(m.Memory) }))/1e6)
	})
}

// table formats one line for each program and one column for each measurement. Empty columns are left out.
func (r *results) table(columns []string, cell func([]measurement) string) string {
	var peers []string
	for _, m := range r.All {
		if !slices.Contains(peers, m.Peer) {
			peers = append(peers, m.Peer)
		}
	}
	columns = slices.DeleteFunc(slices.Clone(columns), func(what string) bool {
		return !slices.ContainsFunc(peers, func(peer string) bool { return len(r.find(peer, what)) > 0 })
	})
	if len(columns) == 0 {
		return "nothing\n"
	}
	slices.SortFunc(peers, func(a, b string) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a, b)) })
	var out strings.Builder
	fmt.Fprintf(&out, "| | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, peer := range peers {
		cells, any := []string{peer}, false
		for _, what := range columns {
			text := "-"
			if all := r.find(peer, what); len(all) > 0 {
				text, any = cell(all), true
			}
			cells = append(cells, text)
		}
		if any {
			fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | "))
		}
	}
	return out.String()
}

// rank returns where a program stands in a table.
func rank(peer string) int {
	name, _, _ := strings.Cut(peer, "@")
	return slices.IndexFunc(kinds(), func(k kind) bool { return k.name == name })
}

// find returns the measurements of one thing of one program.
func (r *results) find(peer, what string) (out []measurement) {
	for _, m := range r.All {
		if m.Peer == peer && m.What == what {
			out = append(out, m)
		}
	}
	if what != growth {
		return out
	}
	first := r.find(peer, onSizeFirst)
	for _, after := range r.find(peer, onSizeNext) {
		for _, before := range first {
			if before.Round == after.Round {
				out = append(out, measurement{Peer: peer, What: what, Round: after.Round, Bytes: after.Bytes - before.Bytes})
			}
		}
	}
	return out
}

func values(all []measurement, value func(measurement) float64) (out []float64) {
	for _, m := range all {
		out = append(out, value(m))
	}
	return out
}

// short writes seconds with as many digits as mean something.
func short(n float64) string {
	switch {
	case n < 1:
		return fmt.Sprintf("%.3f", n)
	case n < 10:
		return fmt.Sprintf("%.2f", n)
	}
	return fmt.Sprintf("%.1f", n)
}
