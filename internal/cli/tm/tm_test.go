package tm

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// element is a parsed XML element.
type element struct {
	XMLName  xml.Name
	Text     string    `xml:",chardata"`
	Children []element `xml:",any"`
}

// value returns what an element of a property list stands for.
func value(t *testing.T, e element) any {
	t.Helper()
	switch e.XMLName.Local {
	case "dict":
		out := map[string]any{}
		require.Zero(t, len(e.Children)%2)
		for i := 0; i < len(e.Children); i += 2 {
			require.Equal(t, "key", e.Children[i].XMLName.Local)
			out[e.Children[i].Text] = value(t, e.Children[i+1])
		}
		return out
	case "array":
		out := []any{}
		for _, c := range e.Children {
			out = append(out, value(t, c))
		}
		return out
	case "true", "false":
		return e.XMLName.Local == "true"
	}
	return e.XMLName.Local + " " + e.Text
}

func parse(t *testing.T, text []byte) any {
	t.Helper()
	var list element
	d := xml.NewDecoder(bytes.NewReader(text))
	require.NoError(t, d.Decode(&list), "%s", text)
	require.Equal(t, "plist", list.XMLName.Local)
	require.Len(t, list.Children, 1)
	_, err := d.Token()
	for err == nil {
		_, err = d.Token()
	}
	require.ErrorIs(t, err, io.EOF)
	return value(t, list.Children[0])
}

func TestXMLIsReadBack(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, WriteXML(&b, Dict{
		{"b", `<&>"'`}, {"a", []Dict{{{"n", uint64(1 << 60)}}, {}}}, {"t", true}, {"f", false}, {"r", 0.25}, {"i", -3},
		{"<k>", Dict{}},
	}))
	require.Equal(t, map[string]any{
		"b": `string <&>"'`, "a": []any{map[string]any{"n": "integer 1152921504606846976"}, map[string]any{}}, "t": true,
		"f": false, "r": "real 0.25", "i": "integer -3", "<k>": map[string]any{},
	}, parse(t, b.Bytes()))
}

// Paths that XML cannot hold are escaped, so that every list can be read.
func TestPathsInXML(t *testing.T) {
	for _, path := range []string{"/ä b", "/a\x01b", "/caf\xe9", "/\uFFFE", "/a\nb", "/]]>"} {
		var b bytes.Buffer
		require.NoError(t, (&Exclusions{List: []Excluded{{Path: path, Excluded: true}}}).Text(&b))
		one := parse(t, b.Bytes()).([]any)[0].(map[string]any)
		require.Equal(t, "integer 1", one["IsExcluded"])
		require.NotContains(t, one["Path"], "\uFFFD")
		if path == "/ä b" || path == "/]]>" {
			require.Equal(t, "string "+path, one["Path"])
		}
	}
}

func TestTextOfPropertyLists(t *testing.T) {
	var b bytes.Buffer
	progress := Dict{{"Percent", 0.5}, {"bytes", 12}}
	require.NoError(t, WriteText(&b, Dict{{"Running", true}, {"Progress", progress}, {"At", `a "b"`}}))
	require.Equal(t, "{\n    At = \"a \\\"b\\\"\";\n"+
		"    Progress =     {\n        Percent = \"0.5\";\n        bytes = 12;\n    };\n"+
		"    Running = 1;\n}\n", b.String())
}

func TestStatus(t *testing.T) {
	left := uint64(30)
	start := time.Date(2026, 11, 23, 9, 15, 0, 0, time.FixedZone("", 3600))
	next, later := start.Add(time.Hour), start.Add(2*time.Hour)
	s := &Status{
		Jobs: []event.Job{{PID: 7, Sources: []string{"/home/ann"}, Repository: "/mnt/a b", Start: start, Policy: "throttle",
			Status: &event.Status{Phase: "uploading", PercentDone: 0.25, SecondsRemaining: &left, BytesDone: 5, TotalFiles: 9}}},
		Daemon: &event.Daemon{Jobs: []event.DaemonJob{{Next: &later}, {}, {Next: &next}}},
	}
	var b bytes.Buffer
	require.NoError(t, s.Text(&b))
	for _, line := range []string{
		"Backup session status:\n{\n    BackupPhase = Copying;\n", `    DateOfStateChange = "2026-11-23 08:15:00 +0000";`,
		`    DestinationMountPoint = "/mnt/a b";`, `    NextBackup = "2026-11-23 09:15:00 +0000";`,
		"        TimeRemaining = 30;",
		`        Percent = "0.25";`, "    Running = 1;",
	} {
		require.Contains(t, b.String(), line)
	}
	s.XML = true
	b.Reset()
	require.NoError(t, s.Text(&b))
	list := parse(t, b.Bytes()).(map[string]any)
	require.Equal(t, true, list["Running"])
	require.Equal(t, "integer 5", list["Progress"].(map[string]any)["bytes"])
	require.Len(t, s.Events(), 2)
	require.Equal(t, "Reading", phase("reading"))
}

func TestDestination(t *testing.T) {
	var b bytes.Buffer
	d := &Destination{Name: "backup", ID: "12", Network: true, Location: "smb://me@nas/backup", XML: true}
	require.NoError(t, d.Text(&b))
	one := parse(t, b.Bytes()).(map[string]any)["Destinations"].([]any)[0].(map[string]any)
	require.Equal(t, "string smb://me@nas/backup", one["URL"])
	require.Equal(t, "string Network", one["Kind"])
	require.NotContains(t, one, "MountPoint")
}

func TestSizes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0B", 1023: "1023B", 1024: "1.0K", 1536: "1.5K", 1<<20 - 1: "1.0M", 1 << 20: "1.0M",
		5 << 30: "5.0G", 1 << 62: "4.0E",
	} {
		require.Equal(t, want, size(n))
	}
}

func backupOf(id byte, host string, at time.Time) Backup {
	return NewBackup("/mnt/r/", format.ID{id}, &snapshot.Snapshot{Host: host, Time: tree.Time{Sec: at.Unix()}})
}

func TestNamesOfBackups(t *testing.T) {
	at := time.Date(2026, 11, 23, 8, 15, 0, 0, time.Local)
	next := at.Add(time.Second)
	list := []Backup{backupOf(1, "a", at), backupOf(2, "b", at), backupOf(3, "b", at), backupOf(4, "c/d", next)}
	Distinguish("/mnt/r/", list)
	require.Equal(t, "/mnt/r/a/2026-11-23-081500.backup", list[0].Path)
	require.Equal(t, "/mnt/r/b/2026-11-23-081500-"+list[1].ID.Short()+".backup", list[1].Path)
	require.Equal(t, "/mnt/r/c:d/2026-11-23-081501.backup", list[3].Path)
	for i := range list {
		for _, ref := range []string{list[i].Path, strings.TrimPrefix(list[i].Path, "/mnt/r/"), list[i].Name + ".backup"} {
			b, sub, found, err := Find(list, ref+"/home/ann/")
			require.NoError(t, err, ref)
			require.True(t, found)
			require.Equal(t, list[i].ID, b.ID)
			require.Equal(t, "/home/ann", sub)
		}
	}
	_, _, found, err := Find(list, "latest")
	require.NoError(t, err)
	require.False(t, found)
	_, _, found, err = Find(list, "2000-01-01-000000.backup")
	require.True(t, found)
	require.ErrorIs(t, err, ErrNoBackup)
	same := []Backup{list[0], backupOf(5, "z", at)}
	_, _, _, err = Find(same, "2026-11-23-081500.backup")
	require.ErrorContains(t, err, "several hosts")
}

func TestProperties(t *testing.T) {
	attribute := tree.Xattr{Name: "user.x", Value: []byte("1")}
	a := tree.Node{Type: tree.File, Size: 1, Mode: 0o644, Born: &tree.Time{Sec: 1}, Xattrs: []tree.Xattr{attribute}}
	for want, change := range map[Property]func(*tree.Node){
		Size:     func(n *tree.Node) { n.Size = 2 },
		Modified: func(n *tree.Node) { n.ModTime.Sec = 9 },
		Created:  func(n *tree.Node) { n.Born = &tree.Time{Sec: 2} },
		Mode:     func(n *tree.Node) { n.Mode = 0o600 },
		UID:      func(n *tree.Node) { n.UID = 4 },
		GID:      func(n *tree.Node) { n.GID = 4 },
		Flags:    func(n *tree.Node) { n.Flags = 16 },
		Target:   func(n *tree.Node) { n.Target = "x" },
		Xattrs:   func(n *tree.Node) { n.Xattrs = nil },
		ACL:      func(n *tree.Node) { n.Xattrs = append(n.Xattrs[:1:1], tree.Xattr{Name: "system.posix_acl_access"}) },
		Type:     func(n *tree.Node) { n.Type = tree.Symlink },
		0:        func(n *tree.Node) { n.Born, n.Inode, n.Changed.Sec = nil, 5, 6 },
	} {
		b := a
		change(&b)
		c := &browse.Change{Old: &a, New: &b}
		require.Equal(t, want, Differing(c, All), "%s", want)
		require.Equal(t, want&Type, Differing(c, All&^want), "%s", want)
	}
	require.Equal(t, Data, Differing(&browse.Change{Old: &a, New: &a, Status: browse.Content}, All))
	dir, other := tree.Node{Type: tree.Dir}, tree.Node{Type: tree.Dir, ModTime: tree.Time{Sec: 5}}
	require.Zero(t, Differing(&browse.Change{Old: &dir, New: &other}, All), "times of folders do not count")
	require.Equal(t, "size, data, mtime", (Size | Data | Modified).String())

	var c Choice
	require.Equal(t, Usual, c.Properties(Usual))
	c.None = true
	require.Zero(t, c.Properties(Usual))
	*c.Flag(Size), *c.Flag(Data) = true, true
	require.Equal(t, Size|Data, c.Properties(Usual))
	c.All = true
	require.Equal(t, All, c.Properties(Usual))
	letters := All
	for _, l := range Letters() {
		letters &^= l.Property
	}
	require.Zero(t, letters, "each property has a letter")

	c = Choice{Depth: 2, Ignore: []string{"tmp"}}
	for path, out := range map[string]bool{
		"/r/a": false, "/r/a/b": false, "/r/a/b/c": true, "/r/tmp": true, "/r/tmp/a": true, "/r/tmp2": false,
	} {
		require.Equal(t, out, c.LeavesOut(path, "/r"), path)
	}
}

// The comparison of contents stops at the first difference, and reports errors of the file.
func TestComparer(t *testing.T) {
	for file, equal := range map[string]bool{"hello": true, "hellO": false, "hell": false} {
		c := &comparer{file: strings.NewReader(file)}
		_, err := c.Write([]byte("he"))
		require.NoError(t, err)
		_, err = c.Write([]byte("llo"))
		require.Equal(t, equal, err == nil, file)
		require.Equal(t, !equal, errors.Is(err, errDiffers), file)
	}
	broken := fmt.Errorf("broken")
	_, err := (&comparer{file: io.MultiReader(strings.NewReader("a"), errReader{broken})}).Write([]byte("ab"))
	require.ErrorIs(t, err, broken)
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }
