package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

func recorded(t *testing.T) []line {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, Folder, Yielding+".jsonl"))
	require.NoError(t, err)
	all, err := read[line](bytes.NewReader(text))
	require.NoError(t, err)
	return all
}

// TestPicturesAreThoseOfTheirEvents holds the pictures of the documents to what was recorded beside them.
func TestPicturesAreThoseOfTheirEvents(t *testing.T) {
	all, err := filepath.Glob(filepath.Join(root, Folder, "*.svg"))
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, file := range all {
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		got, err := Redraw(filepath.Dir(file), strings.TrimSuffix(filepath.Base(file), ".svg"))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "run: go run ./cmd/tidemark-bench picture")
		requireXML(t, got)
	}
}

func requireXML(t *testing.T, text []byte) {
	t.Helper()
	for decoder := xml.NewDecoder(bytes.NewReader(text)); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
}

// TestPictureShowsWhatItsTitleSays requires of the recorded run that the backup yields while the other program reads,
// is back after it, and costs it little.
func TestPictureShowsWhatItsTitleSays(t *testing.T) {
	r, err := measure(recorded(t))
	require.NoError(t, err)
	require.Len(t, r.spells, 3)
	alone := mean(r.others, r.spells[2])
	for i, s := range r.spells[:2] {
		full := mean(r.backup, span{s.to + 1, s.to + 4})
		require.Greater(t, full, 3*mean(r.backup, span{s.from + 1, s.to}), "after %d", i)
		require.Greater(t, mean(r.others, s), 0.9*alone, "the other program, %d", i)
	}
}

// TestReadmeQuotesThePicture holds the rates in the text below the picture to its events.
func TestReadmeQuotesThePicture(t *testing.T) {
	r, err := measure(recorded(t))
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	thousand := func(i int) string { return fmt.Sprintf("%.1f", mean(r.others, r.spells[i])/1000) }
	require.Regexp(t, thousand(0)+` and `+thousand(1)+` thousand reads a second beside the backup, `+thousand(2)+
		` without`, string(text))
}

func TestPictureFollowsItsEvents(t *testing.T) {
	all := recorded(t)
	before, err := draw(all)
	require.NoError(t, err)
	for i := range all {
		if all[i].Type == aReads {
			all[i].Reads /= 2
		}
	}
	after, err := draw(all)
	require.NoError(t, err)
	require.NotEqual(t, string(before), string(after))
	_, err = draw(all[:20])
	require.Error(t, err, "without a time in which the backup has yielded")
	var text bytes.Buffer
	require.NoError(t, write(&text, all))
	again, err := read[line](&text)
	require.NoError(t, err)
	require.Equal(t, all, again)
	_, err = read[line](strings.NewReader(`{"message_type":"status"}`))
	require.Error(t, err)
}

func TestScaleIsRound(t *testing.T) {
	for rate, want := range map[float64]float64{0: 1e6, 0.9e6: 1e6, 2.5e6: 3e6, 417e6: 600e6, 9e6: 10e6} {
		require.InDelta(t, want, round(rate, 1e6), 1, "%g", rate)
	}
}

// medians returns the places of the circles of medians, from left to right.
func medians(svg []byte) (places []string) {
	circle := regexp.MustCompile(`<circle (cx="[0-9.]+" cy="[0-9.]+") r="4"`)
	for _, m := range circle.FindAllSubmatch(svg, -1) {
		places = append(places, string(m[1]))
	}
	return places
}

func TestCurveDrawsMediansOfRounds(t *testing.T) {
	all := []Point{{Head: NewHead("x", "a disk")}}
	add := func(beside string, round int, kept, speed float64) {
		all = append(all, Point{Foreground: "reads", Beside: beside, Round: round, Kept: kept, Speed: speed})
	}
	for round, kept := range []float64{0.2, 1, 1} { // one round was disturbed
		add(Again, round, 1, 0)
		add("throttle --max-impact 5", round, kept, 0.5)
		add("throttle --max-impact 20", round, kept-0.1, 1)
		add("ionice restic", round, 0.55, 1)
	}
	svg, err := drawCurve(all)
	require.NoError(t, err)
	requireXML(t, svg)
	require.Equal(t, []string{`cx="221.0" cy="102.3"`, `cx="380.0" cy="126.6"`}, medians(svg))
	require.Contains(t, string(svg), ">5 %</text>")
	require.Contains(t, string(svg), "Medians of 3 rounds")
	require.Contains(t, string(svg), ">40 %</text>", "the axis begins below restic, whatever one round says")
	_, err = drawCurve(all[:1])
	require.Error(t, err)
}

// Two labels without room beside each other: that of the default stays.
func TestCurveLabelsTheDefaultFirst(t *testing.T) {
	c := &canvas{}
	c.labelled([]label{{10, 10, "2 %"}, {20, 12, defaultImpact}, {100, 10, "20 %"}})
	require.NotContains(t, c.String(), ">2 %<")
	require.Contains(t, c.String(), ">5 %<")
	require.Contains(t, c.String(), ">20 %<")
}

func TestTrace(t *testing.T) {
	all := []Moment{{Head: NewHead("x", "a disk")}}
	all = append(all, Moment{Seconds: 1, Head: Head{Type: AForeground}, Foreground: "reads", Until: 5})
	gate := func(at, grant, calculated, measured float64, state string) {
		all = append(all, Moment{Seconds: at, Head: Head{Type: AGate}, State: state, Grant: grant, Calculated: calculated,
			Measured: measured})
	}
	gate(0.5, 0.8, 1, 0, "full_speed")
	gate(0.9, 0.8, 1, 0, "full_speed")
	gate(1.3, 0.1, 0.5, 0, "in_window")
	gate(1.7, 0.1, 0.5, 0.9, "waiting") // the measured bound is no better
	gate(2.1, 0.5, 0.5, 0.1, "waiting")
	gate(2.5, 0.5, 0.5, 0.1, "in_window")
	gate(2.9, 0.1, 0.5, 0, "in_window") // dropped
	gate(4.9, 0.4, 0.5, 0.1, "in_window")
	gate(5.3, 0.8, 0.5, 0, "full_speed") // the foreground is gone, which is no fall
	require.Equal(t, []float64{2.9}, falls(all))
	require.Equal(t, []Spell{{Foreground: "reads", From: 1, To: 5, First: 0.1, Last: 0.4, Measured: 0.5, Falls: 1}},
		Spells(all))
	require.Equal(t, []piece{{span{1.7, 2.1}, 0.9}, {span{2.1, 2.9}, 0.1}, {span{4.9, 5.3}, 0.1}},
		steps(all, func(m *Moment) (float64, bool) { return m.Measured, m.Measured > 0 }), "none over a gap of two seconds")
	svg, err := drawTrace(all)
	require.NoError(t, err)
	requireXML(t, svg)
	require.Contains(t, string(svg), ">grant 10 % → 40 %<")
	require.Equal(t, 1, strings.Count(string(svg), "l-4 -8h8Z"), "one mark")
	_, err = drawTrace(all[:1])
	require.Error(t, err)
}
