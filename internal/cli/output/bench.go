package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/speedtest"
)

// Measurement is one result of a benchmark.
type Measurement struct {
	speedtest.Result
	First bool // of its policy
	// Device and Medium are those of a measurement of a disk.
	Device, Medium string
}

// Text writes a line, below the policy's name if it is the first.
func (m *Measurement) Text(w io.Writer) error {
	if m.First {
		if _, err := fmt.Fprintf(w, "%s\n", m.Policy); err != nil {
			return err
		}
	}
	rate := human.Megabytes(m.Rate)
	if m.Operations() {
		rate = human.Grouped(m.Rate) + " reads/s"
	}
	remark := ""
	if m.OffDevice {
		remark = "  (from memory or another machine, not from a disk)"
	}
	_, err := fmt.Fprintf(w, "  %-24s %-14s %16s  +-%2.0f %%%s\n", m.name(), m.processors(), rate, m.Spread*50, remark)
	return err
}

func (m *Measurement) name() string {
	if m.What == speedtest.Compress {
		return fmt.Sprintf("%s, level %d", m.What, m.Level)
	}
	return m.What.String()
}

// processors says how many were used, or which disk.
func (m *Measurement) processors() string {
	switch {
	case m.What.Disk() && m.Medium != "":
		return human.Device(m.Device, m.Medium)
	case m.What.Disk():
		return ""
	}
	return human.Plural(uint64(m.CPUs), "processor")
}

// Events returns the record.
func (m *Measurement) Events() []any {
	unit := "bytes"
	if m.Operations() {
		unit = "operations"
	}
	return []any{&struct {
		Type       string  `json:"message_type"` // "measurement"
		Policy     string  `json:"policy"`
		What       string  `json:"what"`
		Level      int     `json:"level,omitempty"`
		Processors int     `json:"processors"`
		Rate       float64 `json:"rate"`
		Unit       string  `json:"unit"`
		Spread     float64 `json:"spread"`
		Runs       int     `json:"runs"`
		Seconds    float64 `json:"seconds"`
		CPUSeconds float64 `json:"cpu_seconds"`
		OffDevice  bool    `json:"off_device,omitempty"`
		Device     string  `json:"device,omitempty"`
		Medium     string  `json:"medium,omitempty"`
	}{
		"measurement", m.Policy.String(), strings.ReplaceAll(m.What.String(), " ", "_"), m.Level, m.CPUs, m.Rate,
		unit, m.Spread,
		m.Runs, m.Wall.Seconds(), m.CPU.Seconds(), m.OffDevice, m.Device, m.Medium,
	}}
}
