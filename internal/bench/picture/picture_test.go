package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

func recorded(t *testing.T) []line {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, eventsFile))
	require.NoError(t, err)
	all, err := read(bytes.NewReader(text))
	require.NoError(t, err)
	return all
}

// TestPictureIsThatOfItsEvents holds the picture of the README to the events of the run beside it.
func TestPictureIsThatOfItsEvents(t *testing.T) {
	want, err := os.ReadFile(filepath.Join(root, svgFile))
	require.NoError(t, err)
	got, err := Redraw(filepath.Join(root, eventsFile))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run: go run ./cmd/tidemark-bench picture -draw")
	for decoder := xml.NewDecoder(bytes.NewReader(got)); ; {
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
	require.Regexp(t, thousand(0)+` and `+thousand(1)+` thousand reads a second beside the backup, and `+thousand(2)+
		` thousand\s+without it`, string(text))
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
	again, err := read(&text)
	require.NoError(t, err)
	require.Equal(t, all, again)
	_, err = read(strings.NewReader(`{"message_type":"status"}`))
	require.Error(t, err)
}

func TestScaleIsRound(t *testing.T) {
	for rate, want := range map[float64]float64{0: 1e6, 0.9e6: 1e6, 2.5e6: 3e6, 417e6: 600e6, 9e6: 10e6} {
		require.InDelta(t, want, round(rate, 1e6), 1, "%g", rate)
	}
}
