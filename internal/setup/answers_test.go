package setup

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// typist answers questions with lines in turn.
type typist struct {
	lines []string
	shown strings.Builder
}

func (p *typist) Line(_ context.Context, prompt string) (string, error) {
	p.shown.WriteString(prompt)
	if len(p.lines) == 0 {
		return "", io.EOF
	}
	line := p.lines[0]
	p.lines = p.lines[1:]
	p.shown.WriteString(line + "\n")
	return line, nil
}

func (p *typist) Say(text string) { p.shown.WriteString(text) }

func asked(lines ...string) (*Dialog, *typist) {
	p := &typist{lines: lines}
	return &Dialog{Person: p, System: office(), Home: "/home/ann"}, p
}

func TestAskSources(t *testing.T) {
	home := []string{"/home/ann"}
	for _, c := range []struct {
		typed, proposed, want []string
	}{
		{[]string{""}, home, home},
		{[]string{"~", ""}, []string{"/data"}, home},
		{[]string{"/home/nosuch", "/mnt/nas", "/mnt/nas", "/home/ann/", ""}, home, []string{"/mnt/nas", "/home/ann"}},
		{[]string{"", "/home/ann", ""}, nil, home},
	} {
		d, p := asked(c.typed...)
		got, err := d.Sources(t.Context(), c.proposed)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
		require.Empty(t, p.lines, "all answers are used")
	}
	real, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	link := filepath.Join(real, "docs")
	require.NoError(t, os.Symlink(".", link))
	d, p := asked(link, "")
	d.System = &Host{}
	got, err := d.Sources(t.Context(), home)
	require.NoError(t, err)
	require.Equal(t, home, got)
	require.Contains(t, p.shown.String(), "docs is a symbolic link: name what it leads to: "+real)
	d, _ = asked("/a", "/b", "/c", "/d", "/e")
	_, err = d.Sources(t.Context(), home)
	require.ErrorIs(t, err, ErrAnswers)
	d, _ = asked()
	_, err = d.Sources(t.Context(), home)
	require.ErrorIs(t, err, io.EOF, "the end of the input is no answer")
}

func TestAskTarget(t *testing.T) {
	sources, home := []string{"/home/ann"}, "/home/ann/.local/share/tidemark/repository"
	for _, c := range []struct {
		typed   []string
		current string
		want    string
	}{
		{[]string{""}, home, "/mnt/nas/tidemark"},
		{[]string{"2"}, home, "/srv/bind of the disk/tidemark"},
		{[]string{"4", "y"}, home, home},
		{[]string{"4", "", "2"}, home, "/srv/bind of the disk/tidemark"},
		{[]string{"3", "n", "1"}, home, "/mnt/nas/tidemark"},
		{[]string{"0", "9", ""}, home, "/mnt/nas/tidemark"},
		{[]string{""}, "/srv/bind of the disk/tidemark", "/srv/bind of the disk/tidemark"},
		{[]string{""}, "smb://me@nas/x", "smb://me@nas/x"},
		{[]string{"smb://ann@nas/share"}, home, "smb://ann@nas/share"},
		{[]string{"/mnt/nas"}, home, "/mnt/nas/tidemark"},
		{[]string{"/mnt/nas/mine"}, home, "/mnt/nas/mine"},
	} {
		d, p := asked(c.typed...)
		places, err := Places(d.System, sources)
		require.NoError(t, err)
		got, err := d.Target(t.Context(), places, c.current, sources)
		require.NoError(t, err, c.typed)
		require.Equal(t, c.want, got, c.typed)
		require.Empty(t, p.lines, c.typed)
	}
}

// Every line of a dialog fits 80 columns, with paths of the usual length.
func TestDialogFits80Columns(t *testing.T) {
	d, p := asked("", "", "1", "", "later", "", "", "")
	sources, err := d.Sources(t.Context(), []string{"/home/ann"})
	require.NoError(t, err)
	_, err = d.Exclude(t.Context(), Excludes("/home/ann", "linux", sources))
	require.NoError(t, err)
	places, err := Places(d.System, sources)
	require.NoError(t, err)
	_, err = d.Target(t.Context(), places, "/home/ann/.local/share/tidemark/repository", sources)
	require.NoError(t, err)
	_, err = d.Policy(t.Context(), "auto")
	require.NoError(t, err)
	_, err = d.Recovery(t.Context(), func(string) error { return errors.New("this is not the last group") })
	require.NoError(t, err)
	for line := range strings.Lines(p.shown.String()) {
		require.LessOrEqual(t, len(strings.TrimSpace(line)), 80, line)
	}
}

func TestAskKeep(t *testing.T) {
	check := func(text string) error {
		if text == "some" {
			return errors.New("invalid policy")
		}
		return nil
	}
	for typed, want := range map[string]string{"": "time-machine", "1": "time-machine", "2": "all", "last 3": "last 3"} {
		d, p := asked("some", typed)
		got, err := d.Keep(t.Context(), check)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Contains(t, p.shown.String(), "invalid policy")
	}
}

func TestAskPolicy(t *testing.T) {
	for typed, want := range map[string]string{"": "throttle", "1": "auto", "Utility": "utility", "4": "utility"} {
		d, _ := asked(typed)
		got, err := d.Policy(t.Context(), "throttle")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	d, _ := asked("0", "6", "passive", "gently", "-1")
	_, err := d.Policy(t.Context(), "auto")
	require.ErrorIs(t, err, ErrAnswers)
}

func TestAskSchedule(t *testing.T) {
	check := func(schedule string) error {
		if schedule == "hourly" || schedule == "daily 02:30" || schedule == "weekly sun 03:00" {
			return nil
		}
		return errors.New("write another")
	}
	for _, c := range []struct{ current, typed, want string }{
		{"", "", "hourly"}, {"", "1", "hourly"}, {"", "02:30", "daily 02:30"}, {"", "weekly sun 03:00", "weekly sun 03:00"},
		{"", "3", ""}, {"daily 02:30", "", "daily 02:30"}, {"daily 02:30", "3", "never"},
	} {
		d, _ := asked("2", "sometimes", c.typed)
		got, err := d.Schedule(t.Context(), c.current, check)
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.typed)
	}
	d, _ := asked("2", "4", "25:00", "x", "0")
	_, err := d.Schedule(t.Context(), "", check)
	require.ErrorIs(t, err, ErrAnswers)
}

func TestAskRecovery(t *testing.T) {
	confirm := func(typed string) error {
		if typed != "ABCD" {
			return errors.New("wrong")
		}
		return nil
	}
	for want, lines := range map[bool][]string{true: {"X", " ABCD "}, false: {"X", ""}} {
		d, _ := asked(lines...)
		right, err := d.Recovery(t.Context(), confirm)
		require.NoError(t, err)
		require.Equal(t, want, right)
	}
	d, _ := asked("1", "2", "3", "4", "5", "ABCD")
	right, err := d.Recovery(t.Context(), confirm)
	require.NoError(t, err)
	require.False(t, right, "too many wrong answers count as later")
}

func TestAskYes(t *testing.T) {
	for typed, want := range map[string]bool{"": true, "y": true, "YES": true, "n": false, "No": false} {
		d, _ := asked("perhaps", typed)
		yes, err := d.Yes(t.Context(), "Well?", true)
		require.NoError(t, err)
		require.Equal(t, want, yes, typed)
	}
}
