package guides

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

const root = "../../.."

// TestMain lets this process be the program, too, where it is started under that name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tidemark": func() { os.Exit(cli.Main(keyfile.DefaultParams())) }})
}

// command is one that a document shows.
type command struct {
	at   string // document and line
	text string
}

// changes matches commands after which the next one needs another repository.
var changes = regexp.MustCompile(`forget|init|restore|repair|dump|target`)

// onlyParsed matches commands that need a server, a running job, or a person, or that go on until Ctrl-C.
var onlyParsed = regexp.MustCompile(`smb://|--pid |-p \d|--from-repo|\bsetup\b|tidemark (mount|serve) `)

// blocks returns the commands of the program in the fenced blocks of a document.
func blocks(name, text string) (all []command) {
	fenced, n := false, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		} else if fenced && regexp.MustCompile(`^(sudo )?tidemark [a-z-]`).MatchString(line) {
			line, _, _ = strings.Cut(line, "  #")
			all = append(all, command{fmt.Sprintf("%s:%d", name, n), strings.TrimSpace(strings.TrimPrefix(line, "sudo "))})
		}
	}
	return all
}

// rows returns the commands in the last column of the tables of a document whose first column is headed by another
// program.
func rows(name, text string) (all []command) {
	n, ours := 0, false
	for line := range strings.Lines(text) {
		n++
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "|") {
			ours = false
			continue
		}
		last := cells[len(cells)-1]
		if strings.TrimSpace(last) == "tidemark" {
			ours = true
			continue
		}
		for _, code := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(last, -1) {
			if ours && strings.HasPrefix(code[1], "tidemark ") {
				all = append(all, command{fmt.Sprintf("%s:%d", name, n), code[1]})
			}
		}
	}
	return all
}

// machine is a temporary folder with a home, which has a repository.
type machine struct{ dir string }

// newMachine makes files and three snapshots.
func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{dir: t.TempDir()}
	for _, dir := range []string{"home/photos", "home/run", "usb", "tmp"} {
		require.NoError(t, os.MkdirAll(filepath.Join(m.dir, dir), 0o700))
	}
	for _, name := range []string{"a.jpg", "b.jpg", "notes.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(m.dir, "home", "photos", name), []byte(name), 0o600))
		m.must(t, "tidemark backup --quiet ~/photos")
	}
	require.NoError(t, os.Rename(filepath.Join(m.dir, "home"), filepath.Join(m.dir, "template")))
	return m
}

// reset makes the home as it was after newMachine.
func (m *machine) reset(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c",
		`cd "$0" && rm -rf home usb tmp state && mkdir usb tmp && cp -a template home`, m.dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// run runs a line by the shell, with the places of the documents in the temporary folder.
func (m *machine) run(t *testing.T, line string) (string, error) {
	t.Helper()
	line = strings.NewReplacer("/mnt/usb", m.dir+"/usb", "/media/usb", m.dir+"/usb", "/tmp/", m.dir+"/tmp/").Replace(line)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	home := filepath.Join(m.dir, "home")
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" +
		home + "/run", "XDG_STATE_HOME=" + filepath.Join(m.dir, "state")} // that of root outlives the test
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *machine) must(t *testing.T, line string) string {
	t.Helper()
	out, err := m.run(t, line)
	require.NoError(t, err, "%s\n%s", line, out)
	return out
}

// try runs a command of a document, or parses it if it needs what is not here.
func (m *machine) try(t *testing.T, c command) {
	t.Helper()
	line := c.text
	if strings.Contains(line, "4f3a90b1") {
		var first struct {
			ID string `json:"short_id"`
		}
		head, _, _ := strings.Cut(m.must(t, "tidemark snapshots --json"), "\n")
		require.NoError(t, json.Unmarshal([]byte(head), &first))
		line = strings.ReplaceAll(line, "4f3a90b1", first.ID)
	}
	if onlyParsed.MatchString(line) {
		m.parse(t, c)
		return
	}
	out, err := m.run(t, line)
	require.NoError(t, err, "%s: %s\n%s", c.at, line, out)
}

// parse requires that the program knows the command and all its flags.
func (m *machine) parse(t *testing.T, c command) {
	t.Helper()
	own, rest, found := strings.Cut(c.text, " -- ")
	line := own + " --help"
	if found {
		line += " -- " + rest
	}
	out, err := m.run(t, regexp.MustCompile(`[<>|].*? --help`).ReplaceAllString(line, "--help"))
	require.NoError(t, err, "%s: %s\n%s", c.at, c.text, out)
	require.Contains(t, out, "Usage:", "%s: %s", c.at, c.text)
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func documents(t *testing.T, pattern string) (names []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, pattern))
	require.NoError(t, err)
	for _, at := range found {
		name, err := filepath.Rel(root, at)
		require.NoError(t, err)
		names = append(names, name)
	}
	return names
}

// TestCommandsOfTheGuidesRun runs the right column of each command table.
func TestCommandsOfTheGuidesRun(t *testing.T) {
	testkit.Slow(t)
	m := newMachine(t)
	guides := documents(t, "docs/guides/*.md")
	require.Len(t, guides, 4)
	for _, name := range guides {
		commands := rows(name, read(t, name))
		require.Greater(t, len(commands), 10, name)
		m.reset(t)
		for _, c := range commands {
			m.try(t, c)
			if changes.MatchString(c.text) {
				m.reset(t)
			}
		}
	}
}

// TestCommandsOfTheDocumentsParse parses the commands of all other documents.
func TestCommandsOfTheDocumentsParse(t *testing.T) {
	m := newMachine(t)
	m.reset(t)
	count := 0
	for _, name := range slices.Concat([]string{"README.md"}, documents(t, "docs/*.md")) {
		for _, c := range blocks(name, read(t, name)) {
			m.parse(t, c)
			count++
		}
	}
	require.Greater(t, count, 20)
}

// section returns the fenced blocks below a heading of a document.
func section(t *testing.T, text, heading string) (all []string) {
	t.Helper()
	_, below, found := strings.Cut(text, "\n## "+heading+"\n")
	require.True(t, found, heading)
	below, _, _ = strings.Cut(below, "\n## ")
	for _, block := range regexp.MustCompile("(?s)```\n(.*?)```").FindAllStringSubmatch(below, -1) {
		all = append(all, block[1])
	}
	return all
}

// TestFirstBackupOfTheReadme does what the README says about a disk and a schedule.
func TestFirstBackupOfTheReadme(t *testing.T) {
	testkit.Slow(t)
	m := newMachine(t)
	m.reset(t)
	readme := read(t, "README.md")
	disk := section(t, readme, "First backup to a disk")
	require.Len(t, disk, 2)
	for line := range strings.Lines(disk[0]) {
		m.must(t, line)
	}
	options := filepath.Join(m.dir, "home/.config/tidemark/tidemark.opt")
	require.NoError(t, os.WriteFile(options, []byte(strings.ReplaceAll(disk[1], "/mnt/usb", m.dir+"/usb")), 0o600))

	schedule := section(t, readme, "Schedule")
	require.Len(t, schedule, 1)
	lines := strings.Split(strings.TrimSpace(schedule[0]), "\n")
	require.Len(t, lines, 3)
	m.must(t, lines[0])
	require.Contains(t, m.must(t, "tidemark job list"), "hourly")
	require.Equal(t, "tidemark service install", lines[1]) // as root, it would change this machine
	unit := m.must(t, lines[1]+" --print")
	require.Equal(t, "tidemark status", lines[2])
	status, _ := m.run(t, lines[2]) // exit code 3: there was no backup yet, and no service runs here
	require.Contains(t, status, "the service has not run it yet")
	m.must(t, "tidemark daemon --once")
	m.must(t, "tidemark backup --server-name home")
	require.Contains(t, m.must(t, "tidemark snapshots"), "2 snapshots")

	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("the rest needs systemd-analyze")
	}
	path := filepath.Join(t.TempDir(), "tidemark.service")
	require.NoError(t, os.WriteFile(path, []byte(unit), 0o600))
	out, err := exec.CommandContext(t.Context(), tool, "verify", "--man=no", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestTheWayBackAfterALoss loses a machine with a job, and follows docs/disaster.md on a new one.
func TestTheWayBackAfterALoss(t *testing.T) {
	testkit.Slow(t)
	m := newMachine(t)
	m.reset(t)
	page := read(t, "docs/disaster.md")
	before := section(t, page, "Now, before it happens")
	require.Equal(t, []string{"tidemark key recovery\n"}, before)
	m.must(t, "tidemark init --repo /mnt/usb/backup")
	m.must(t, "tidemark job add home --source ~/photos --repo /mnt/usb/backup --schedule hourly --healthcheck "+
		"http://127.0.0.1:9/secret")
	m.must(t, "tidemark backup --job home --server-name home")
	key := regexp.MustCompile(`([0-9A-Z]{4}-){8}[0-9A-Z]{4}`).FindString(m.must(t, before[0]))
	require.NotEmpty(t, key)
	options := filepath.Join(m.dir, "home/.config/tidemark/tidemark.opt")
	was := content(t, options)
	require.NoError(t, os.Rename(filepath.Join(m.dir, "home"), filepath.Join(m.dir, "lost")))
	require.NoError(t, os.RemoveAll(filepath.Join(m.dir, "state")))
	require.NoError(t, os.MkdirAll(filepath.Join(m.dir, "home", "run"), 0o700))

	var said []string
	for i, block := range section(t, page, "The way back") {
		for line := range strings.Lines(block) {
			line = strings.TrimSpace(line)
			switch {
			case i == 0:
				line = "TIDEMARK_PASSWORD=" + key + " " + line // a person types it
			case strings.HasPrefix(line, "tidemark restore 4f3a90b1"):
				shown := regexp.MustCompile(`(?m)^  (tidemark restore [0-9a-f]{8} .*?)  `).FindStringSubmatch(said[0])
				require.NotNil(t, shown, said[0])
				line = shown[1] + strings.TrimPrefix(line, "tidemark restore 4f3a90b1 --target /")
			case line == "tidemark service install": // as root, it would change this machine
				line += " --print"
			case line == "tidemark status": // exit code 1: no backup by the service yet
				line += " || true"
			}
			said = append(said, m.must(t, line))
		}
	}
	require.Contains(t, said[0], "the source "+m.dir+"/home/photos")
	require.Contains(t, said[0], "the value of HEALTHCHECK")
	require.NotContains(t, said[4], "the source", "it is restored")
	_, was, _ = strings.Cut(was, "\n") // the first line says which command wrote it
	_, now, _ := strings.Cut(content(t, options), "\n")
	was = strings.Replace(was, "HEALTHCHECK http://127.0.0.1:9/secret", "* fill in: HEALTHCHECK", 1)
	require.Equal(t, was, strings.ReplaceAll(now, "\n  ", "\n"))
	for _, name := range []string{"a.jpg", "b.jpg", "notes.txt"} {
		require.Equal(t, name, content(t, filepath.Join(m.dir, "home/photos", name)))
	}
	require.Contains(t, m.must(t, "tidemark snapshots"), "2 snapshots")
}

func TestCommandsAreFound(t *testing.T) {
	testkit.Slow(t)
	text := "| restic | tidemark |\n|---|---|\n| `restic x` | `tidemark ls latest`, `tidemark stats` |\n| `y` | " +
		"missing |\n\n" +
		"| a | b |\n|---|---|\n| `tidemark no` | `tidemark no` |\n\n```\ntidemark backup ~   # all\nother\n```\ntidemark no\n"
	require.Equal(t, []command{{"a.md:3", "tidemark ls latest"}, {"a.md:3", "tidemark stats"}}, rows("a.md", text))
	require.Equal(t, []command{{"a.md:11", "tidemark backup ~"}}, blocks("a.md", text))
	m := newMachine(t)
	m.reset(t)
	_, err := m.run(t, "tidemark backup --nosuch ~ --help")
	require.Error(t, err, "an unknown flag")
}
