package picture

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// Point is a backup beside a foreground in one round, in curve.jsonl.
type Point struct {
	Head
	Foreground string  `json:"foreground,omitempty"`
	Beside     string  `json:"beside,omitempty"` // "throttle --max-impact 5", "ionice restic"; Again
	Round      int     `json:"round"`
	Kept       float64 `json:"kept"`  // rate of the foreground, as a part of that alone in the same round
	Speed      float64 `json:"speed"` // of the backup, as a part of its own without a foreground
}

// Again stands for the foreground alone, measured a second time.
const Again = "again"

// series are the points of one candidate beside one foreground.
type series struct {
	beside      string
	all         []Point
	kept, speed float64 // medians
}

// impact is the label of a candidate of the curve: "5 %" of "throttle --max-impact 5"; "" of others.
func (s *series) impact() string {
	if _, n, found := strings.Cut(s.beside, "--max-impact "); found {
		return strings.TrimSuffix(n, "%") + " %"
	}
	return ""
}

// bySeries groups the points of a foreground by candidate, in the order of their first occurrence.
func bySeries(all []Point, foreground string) (list []series) {
	for _, p := range all {
		if p.Foreground != foreground {
			continue
		}
		at := slices.IndexFunc(list, func(s series) bool { return s.beside == p.Beside })
		if at < 0 {
			at, list = len(list), append(list, series{beside: p.Beside})
		}
		list[at].all = append(list[at].all, p)
	}
	for i := range list {
		var kept, speed []float64
		for _, p := range list[i].all {
			kept, speed = append(kept, p.Kept), append(speed, p.Speed)
		}
		list[i].kept, list[i].speed = kit.Median(kept), kit.Median(speed)
	}
	return list
}

// defaultImpact is the label of the default of --max-impact.
const defaultImpact = "5 %"

// Measures of a plot of one foreground.
const (
	plotWidth, plotHeight = 318, 170
	plotsLeft, plotsTop   = 62, 78
	plotsApart            = 238 // from top to top
)

// plot is the part of the picture that shows one foreground.
type plot struct {
	left, top     float64
	most          float64 // speed at the right
	least, utmost float64 // kept at the bottom and at the top
	step          float64 // of kept, between two lines
}

func (p *plot) x(speed float64) float64 { return p.left + speed/p.most*plotWidth }

func (p *plot) y(kept float64) float64 {
	return p.top + (p.utmost-kept)/(p.utmost-p.least)*plotHeight
}

// drawCurve returns the SVG of points.
func drawCurve(all []Point) ([]byte, error) {
	var foregrounds []string
	scale := plot{most: 1, least: 0.9, utmost: 1.1}
	rounds := 0
	for _, p := range all[1:] {
		if !slices.Contains(foregrounds, p.Foreground) {
			foregrounds = append(foregrounds, p.Foreground)
		}
		rounds = max(rounds, p.Round+1)
	}
	if len(foregrounds) == 0 {
		return nil, errors.New("draw curve: there are no points")
	}
	for _, f := range foregrounds {
		for _, s := range bySeries(all, f) {
			scale.most = max(scale.most, math.Ceil(s.speed*5)/5)
			scale.least = min(scale.least, s.kept)
			scale.utmost = max(scale.utmost, math.Ceil(s.kept*10)/10)
		}
	}
	scale.step = 0.1
	if scale.least < 0.6 {
		scale.step = 0.2
	}
	scale.least = math.Floor(scale.least/scale.step) * scale.step
	c := &canvas{height: plotsTop + plotsApart*((len(foregrounds)+1)/2) + 16}
	c.begin("What others keep against the speed of the backup",
		"What others keep of their speed, and what the backup gets")
	for i, f := range foregrounds {
		p := scale
		p.left = float64(plotsLeft + i%2*(plotWidth+72))
		p.top = float64(plotsTop + i/2*plotsApart)
		c.plot(&p, f, bySeries(all, f))
	}
	c.text(left, 40, "start", blue, "", "tidemark at throttle: each point is one --max-impact.")
	c.diamond(plotsLeft+plotWidth+78, 36)
	c.text(plotsLeft+plotWidth+90, 40, "start", orange, "", "restic under nice 19 and ionice idle")
	c.foot(fmt.Sprintf("Medians of %d rounds in turns; small: single rounds. Dashed: the other program alone, again.",
		rounds), fmt.Sprintf("%s, %s.", all[0].Date, all[0].Machine))
	return c.end(), nil
}

// plot draws one foreground.
func (c *canvas) plot(p *plot, foreground string, list []series) {
	c.text(p.left, p.top-8, "start", "#111111", `font-weight="bold"`, foreground)
	c.text(p.left-6, p.top-8, "end", grey, "", "kept")
	for kept := p.least; kept < p.utmost+1e-9; kept += p.step {
		c.put(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#dfe3e8"/>`,
			p.left, p.left+plotWidth, p.y(kept), p.y(kept))
		c.text(p.left-6, p.y(kept)+4, "end", grey, "", fmt.Sprintf("%.0f %%", 100*kept))
	}
	for speed := 0.0; speed < p.most+1e-9; speed += 0.2 {
		c.text(p.x(speed), p.top+plotHeight+16, "middle", grey, "", fmt.Sprintf("%.0f %%", 100*speed))
	}
	c.text(p.left+plotWidth/2, p.top+plotHeight+31, "middle", grey, "", "speed of the backup, of that on an idle disk")
	var path bytes.Buffer
	var labels []label
	for _, s := range list {
		colour := orange
		switch {
		case s.beside == Again:
			c.put(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s" stroke-dasharray="5 4"/>`,
				p.left, p.left+plotWidth, p.y(s.kept), p.y(s.kept), grey)
			continue
		case s.impact() != "":
			colour = blue
		}
		for _, one := range s.all {
			if one.Kept >= p.least && one.Kept <= p.utmost && one.Speed <= p.most {
				c.put(`<circle cx="%.1f" cy="%.1f" r="1.8" fill="%s" fill-opacity="0.45"/>`, p.x(one.Speed), p.y(one.Kept), colour)
			}
		}
		x, y := p.x(s.speed), p.y(s.kept)
		if colour == orange {
			c.diamond(x, y)
			continue
		}
		fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(path.Len(), 1)], x, y)
		c.put(`<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`, x, y, colour)
		labels = append(labels, label{x, y, s.impact()})
	}
	c.put(`<path d="%s" fill="none" stroke="%s" stroke-width="1.5"/>`, path.String(), blue)
	c.labelled(labels)
}

// label is the text of a point.
type label struct {
	x, y float64
	text string
}

// labelled writes the labels above points, on a white margin. That of the default comes first; one without room beside
// others is left out.
func (c *canvas) labelled(all []label) {
	slices.SortStableFunc(all, func(a, b label) int {
		return strings.Compare(strings.TrimPrefix(a.text, defaultImpact), strings.TrimPrefix(b.text, defaultImpact))
	})
	for i, l := range all {
		if !slices.ContainsFunc(all[:i], func(other label) bool {
			return other.text != "" && math.Abs(other.x-l.x) < 28 && math.Abs(other.y-l.y) < 14
		}) {
			c.text(l.x, l.y-9, "middle", blue, `paint-order="stroke" stroke="#ffffff" stroke-width="3"`, l.text)
		} else {
			all[i].text = ""
		}
	}
}

// diamond marks another program.
func (c *canvas) diamond(x, y float64) {
	c.put(`<path d="M%.1f %.1fl6 6l-6 6l-6 -6Z" fill="%s"/>`, x, y-6, orange)
}
