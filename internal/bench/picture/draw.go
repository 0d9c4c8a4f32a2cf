package picture

import (
	"bytes"
	"fmt"
	"math"
)

// Measures of the picture in its own units, and its colours.
const (
	width        = 800
	left, right  = 58, 784
	blue, orange = "#2166ac", "#d6741e"
	shade, grey  = "#fbeadb", "#5a6270"
	tick         = 5 // seconds between two marks of the time
)

// panel is the part of the picture that shows one rate.
type panel struct {
	top, bottom float64
	unit        float64 // of the rate, in what is written
	most        float64 // rate at the top
	title       string
	colour      string
}

// canvas draws one picture.
type canvas struct {
	bytes.Buffer
	height  int
	seconds float64 // at the right
}

// begin begins a picture with a title for programs that read it aloud and one that is drawn. The background is white,
// since the page around it may be dark.
func (c *canvas) begin(title, heading string) {
	c.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`,
		width, c.height)
	c.put(`<title>%s</title>`, title)
	c.put(`<rect width="%d" height="%d" fill="#ffffff"/>`, width, c.height)
	c.text(left, 22, "start", "#111111", `font-size="15" font-weight="bold"`, heading)
}

// end ends a picture and returns it.
func (c *canvas) end() []byte {
	c.put(`</svg>`)
	return c.Bytes()
}

// draw returns the SVG of events.
func draw(all []line) ([]byte, error) {
	r, err := measure(all)
	if err != nil {
		return nil, err
	}
	c := &canvas{height: 372, seconds: math.Ceil(r.end)}
	backup := panel{top: 62, bottom: 196, unit: 1e6, title: "Backup: MB/s read", colour: blue}
	others := panel{top: 246, bottom: 316, unit: 1e3, title: "Other program: thousand reads/s", colour: orange}
	backup.most, others.most = round(1.2*highest(r.backup), backup.unit), round(1.2*highest(r.others), others.unit)
	c.begin("A backup yields to another program and continues at full speed after it",
		"A backup yields the disk to another program, then continues at full speed")
	for _, s := range r.spells {
		c.put(`<rect x="%.1f" y="%.0f" width="%.1f" height="%.0f" fill="%s"/>`,
			c.x(s.from), backup.top, c.x(s.to)-c.x(s.from), others.bottom-backup.top, shade)
	}
	c.series(&backup, r.backup)
	c.series(&others, r.others)
	c.labels(r, &backup, &others)
	c.ticks(others.bottom + 16)
	c.foot(r.head.Command+", beside random 4 KiB reads without a pause (shaded).",
		fmt.Sprintf("Bars: it yields, at times to other I/O of the machine. One run, %s, %s, virtual disk.",
			r.head.Date, r.head.Machine))
	return c.end(), nil
}

// foot writes two lines at the bottom.
func (c *canvas) foot(first, second string) {
	c.text(left, float64(c.height-22), "start", grey, "", first)
	c.text(left, float64(c.height-7), "start", grey, "", second)
}

// ticks writes the seconds below the last panel.
func (c *canvas) ticks(y float64) {
	for at := 0.0; at <= c.seconds; at += tick {
		c.text(c.x(at), y, "middle", grey, "", fmt.Sprintf("%.0f s", at))
	}
}

func (c *canvas) put(format string, values ...any) { fmt.Fprintf(c, format+"\n", values...) }

func (c *canvas) text(x, y float64, anchor, colour, more, text string) {
	if more != "" {
		more = " " + more
	}
	c.put(`<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s"%s>%s</text>`, x, y, anchor, colour, more, text)
}

// x is the place of a moment.
func (c *canvas) x(seconds float64) float64 { return left + seconds/c.seconds*(right-left) }

// y is the place of a rate.
func (p *panel) y(rate float64) float64 { return p.bottom - rate/p.most*(p.bottom-p.top) }

// series draws the rates of a panel as steps, with its title and two marks of the rate.
func (c *canvas) series(p *panel, all []piece) {
	c.text(left, p.top-8, "start", p.colour, `font-weight="bold"`, p.title)
	for _, rate := range []float64{0, p.most / 2, p.most} {
		c.put(`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#dfe3e8"/>`, left, right, p.y(rate), p.y(rate))
		c.text(left-6, p.y(rate)+4, "end", grey, "", fmt.Sprintf("%.4g", rate/p.unit))
	}
	path, last := "", -1.0
	for _, one := range all {
		if one.from != last {
			path += closed(path, c.x(last), p.bottom) + fmt.Sprintf("M%.1f %.1f", c.x(one.from), p.bottom)
		}
		path += fmt.Sprintf("L%.1f %.1fL%.1f %.1f", c.x(one.from), p.y(one.rate), c.x(one.to), p.y(one.rate))
		last = one.to
	}
	path += closed(path, c.x(last), p.bottom)
	c.put(`<path d="%s" fill="%s" fill-opacity="0.25" stroke="%s" stroke-width="1.5"/>`, path, p.colour, p.colour)
}

// closed ends an area at the bottom of its panel.
func closed(path string, x, bottom float64) string {
	if path == "" {
		return ""
	}
	return fmt.Sprintf("L%.1f %.1fZ", x, bottom)
}

// labels writes the mean rates: of the backup between and beside the other program, of the other program each time.
func (c *canvas) labels(r *run, backup, others *panel) {
	from := 0.0
	for i, s := range r.spells {
		middle := (c.x(s.from) + c.x(s.to)) / 2
		c.text(middle, others.top+14, "middle", "#111111", "", fmt.Sprintf("%.1f", mean(r.others, s)/others.unit))
		if i == len(r.spells)-1 {
			c.text(middle, backup.top+16, "middle", grey, "", "ended")
			break
		}
		settled := span{s.from + 1, s.to}
		c.text(middle, backup.top+16, "middle", "#111111", "",
			fmt.Sprintf("yields: %.0f", mean(r.backup, settled)/backup.unit))
		c.text((c.x(from)+c.x(s.from))/2, backup.top+16, "middle", "#111111", "",
			fmt.Sprintf("%.0f", mean(r.backup, span{from, s.from})/backup.unit))
		from = s.to
	}
	for _, s := range r.yielded {
		c.put(`<line x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f" stroke="%s" stroke-width="4"/>`,
			c.x(s.from), c.x(s.to), backup.bottom+8, backup.bottom+8, blue)
		c.text((c.x(s.from)+c.x(s.to))/2, backup.bottom+24, "middle", blue, "", fmt.Sprintf("yields %.0f s", s.to-s.from))
	}
}

// round returns the next of 1, 2, 3, 4, 6 or 8 times a power of ten, in units, that is not below a rate.
func round(rate, unit float64) float64 {
	if rate <= 0 {
		return unit
	}
	power := math.Pow(10, math.Floor(math.Log10(rate/unit)))
	for _, step := range []float64{1, 2, 3, 4, 6, 8} {
		if step*power*unit >= rate {
			return step * power * unit
		}
	}
	return 10 * power * unit
}
