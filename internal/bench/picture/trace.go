package picture

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// Moment is one line of trace.jsonl: a foreground and when it ran, or what the gate of the backup says at one moment.
type Moment struct {
	Seconds float64 `json:"seconds"` // since the backup was started; of a foreground its first request
	Head            // of type run, foreground or gate

	Foreground string  `json:"foreground,omitempty"`
	Until      float64 `json:"until_seconds,omitempty"` // of a foreground: its last request

	State      string  `json:"state,omitempty"`      // of the gate: full_speed, in_window or waiting
	Grant      float64 `json:"grant,omitempty"`      // device time of the next slot grant, as a part of the period
	Calculated float64 `json:"calculated,omitempty"` // part of a slot grant that others lose
	Measured   float64 `json:"measured,omitempty"`   // upper bound of the same, as measured; 0: not measured now
}

// The types of lines of a trace.
const (
	AForeground = "foreground"
	AGate       = "gate"
)

// The decisions of a gate.
const (
	fullSpeed    = "full speed"
	byMeasure    = "measured"
	byCalculated = "calculated"
)

// decision returns what decided about the size of a slot grant.
func (m *Moment) decision() string {
	switch {
	case m.State == "full_speed":
		return fullSpeed
	case m.Measured > 0 && m.Measured < m.Calculated:
		return byMeasure
	}
	return byCalculated
}

// Spell is what a gate did beside one foreground.
type Spell struct {
	Foreground  string
	From, To    float64 // seconds
	First, Last float64 // medians of the slot grants in the first and in the last second
	Measured    float64 // part of the moments in which the measurement decided
	Falls       int     // how often a measurement was dropped
}

// Spells returns what a gate did beside each foreground, in their order.
func Spells(all []Moment) (list []Spell) {
	for i := range all {
		if all[i].Type != AForeground {
			continue
		}
		s := Spell{Foreground: all[i].Foreground, From: all[i].Seconds, To: all[i].Until}
		var first, last []float64
		moments, measured := 0, 0
		for k := range all {
			m := &all[k]
			if m.Type != AGate || m.Seconds < s.From || m.Seconds > s.To || m.decision() == fullSpeed {
				continue
			}
			if m.Seconds < s.From+1 {
				first = append(first, m.Grant)
			}
			if m.Seconds > s.To-1 {
				last = append(last, m.Grant)
			}
			moments++
			if m.decision() == byMeasure {
				measured++
			}
		}
		s.First, s.Last, s.Measured = kit.Median(first), kit.Median(last), float64(measured)/float64(max(1, moments))
		for _, at := range falls(all) {
			if at >= s.From && at <= s.To {
				s.Falls++
			}
		}
		list = append(list, s)
	}
	return list
}

// falls returns when a measurement that decided was dropped, with a window open.
func falls(all []Moment) (at []float64) {
	measured := false
	for i := range all {
		m := &all[i]
		if m.Type != AGate {
			continue
		}
		if measured && m.Measured == 0 && m.decision() != fullSpeed {
			at = append(at, m.Seconds)
		}
		measured = m.decision() == byMeasure
	}
	return at
}

// longestStep is the longest time in seconds for which a moment holds: the job may have ended, or not have answered.
const longestStep = 0.5

// steps returns a value of the gate over time, where there is one.
func steps(all []Moment, value func(*Moment) (float64, bool)) (list []piece) {
	var before *Moment
	for i := range all {
		m := &all[i]
		if m.Type != AGate {
			continue
		}
		if before != nil && m.Seconds-before.Seconds < longestStep {
			v, ok := value(before)
			if n := len(list); ok && n > 0 && list[n-1].to == before.Seconds && list[n-1].rate == v {
				list[n-1].to = m.Seconds
			} else if ok {
				list = append(list, piece{span{before.Seconds, m.Seconds}, v})
			}
		}
		before = m
	}
	return list
}

// drawTrace returns the SVG of moments.
func drawTrace(all []Moment) ([]byte, error) {
	spells := Spells(all)
	if len(spells) == 0 {
		return nil, errors.New("draw trace: there is no foreground")
	}
	c := &canvas{height: 440, seconds: math.Ceil(max(all[len(all)-1].Seconds, spells[len(spells)-1].To))}
	grant := panel{top: 106, bottom: 206, unit: 0.01, most: 1, title: "Slot grant: % of the time", colour: blue}
	harm := panel{top: 236, bottom: 326, unit: 0.01, most: 1, colour: orange}
	ribbon := panel{top: 362, bottom: 378}
	c.begin("Slot grants beside three foregrounds", "What a backup gets: calculated, or measured if others lose less")
	for _, s := range spells {
		c.band(&s, 34, ribbon.bottom)
	}
	c.series(&grant, steps(all, func(m *Moment) (float64, bool) {
		if m.decision() == fullSpeed {
			return 1, true
		}
		return m.Grant, true
	}))
	c.series(&harm, steps(all, func(m *Moment) (float64, bool) { return m.Calculated, m.decision() != fullSpeed }))
	c.coloured(harm.top-8, [][2]string{
		{"Of a slot grant others lose, %:", "#111111"}, {"by calculation", orange}, {"as measured, at most", blue},
	})
	c.stroke(&harm, steps(all, func(m *Moment) (float64, bool) {
		return min(1, m.Measured), m.decision() != fullSpeed && m.Measured > 0
	}), blue)
	c.decisions(&ribbon, all)
	c.ticks(ribbon.bottom + 16)
	c.foot(all[0].Command+".", fmt.Sprintf("One run, %s, %s.", all[0].Date, all[0].Machine))
	return c.end(), nil
}

// band shades the time of a foreground, with its name and the slot grants at its begin and end.
func (c *canvas) band(s *Spell, top, bottom float64) {
	c.put(`<rect x="%.1f" y="%.0f" width="%.1f" height="%.0f" fill="%s"/>`,
		c.x(s.From), top, c.x(s.To)-c.x(s.From), bottom-top, shade)
	middle := (c.x(s.From) + c.x(s.To)) / 2
	var lines []string
	for _, word := range strings.Fields(s.Foreground) {
		if n := len(lines); n > 0 && 7*float64(len(lines[n-1])+len(word)) < c.x(s.To)-c.x(s.From) {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	for i, text := range lines {
		c.text(middle, top+14+14*float64(i), "middle", "#111111", "", text)
	}
	if s.First > 0 && s.Last > 0 { // else there was no window
		c.text(middle, top+14+14*float64(len(lines)), "middle", blue, "",
			fmt.Sprintf("grant %.0f %% → %.0f %%", 100*s.First, 100*s.Last))
	}
}

// stroke draws values of a panel as steps without an area.
func (c *canvas) stroke(p *panel, all []piece, colour string) {
	path, last := "", -1.0
	for _, one := range all {
		if one.from != last {
			path += fmt.Sprintf("M%.1f %.1f", c.x(one.from), p.y(one.rate))
		}
		path += fmt.Sprintf("L%.1f %.1fL%.1f %.1f", c.x(one.from), p.y(one.rate), c.x(one.to), p.y(one.rate))
		last = one.to
	}
	c.put(`<path d="%s" fill="none" stroke="%s" stroke-width="1.5"/>`, path, colour)
}

// decisions draws what decided about slot grants as a ribbon, with a mark wherever a measurement was dropped.
func (c *canvas) decisions(p *panel, all []Moment) {
	c.coloured(p.top-14, [][2]string{
		{"Decided by:", "#111111"}, {"calculation", orange}, {"measurement", blue},
		{"no other program: full speed", grey}, {"▼ back to calculation", "#111111"},
	})
	for _, one := range [][2]string{{fullSpeed, "#c5ccd5"}, {byMeasure, blue}, {byCalculated, orange}} {
		var spans []span
		for _, p := range steps(all, func(m *Moment) (float64, bool) { return 0, m.decision() == one[0] }) {
			spans = joined(spans, p.span)
		}
		for _, s := range spans {
			c.put(`<rect x="%.1f" y="%.0f" width="%.1f" height="%.0f" fill="%s"/>`,
				c.x(s.from), p.top, c.x(s.to)-c.x(s.from), p.bottom-p.top, one[1])
		}
	}
	for _, at := range falls(all) {
		c.put(`<path d="M%.1f %.1fl-4 -8h8Z" fill="#111111"/>`, c.x(at), p.top-1)
	}
}

// coloured writes a line of bold texts, each in its colour.
func (c *canvas) coloured(y float64, parts [][2]string) {
	var all strings.Builder
	for i, p := range parts {
		fmt.Fprintf(&all, `<tspan dx="%d" fill="%s">%s</tspan>`, 10*min(i, 1), p[1], p[0])
	}
	c.text(left, y, "start", grey, `font-weight="bold"`, all.String())
}
