package rules

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func noEnv(string) (string, bool) { return "", false }

func globSet(t *testing.T, patterns ...string) *Set {
	t.Helper()
	b := NewBuilder()
	for _, p := range patterns {
		require.NoError(t, b.Exclude(p, false, "--exclude"))
	}
	return b.Compile()
}

// The cases are what restic's filter does with the same pattern and path.
func TestGlobPatternsAsResticHasThem(t *testing.T) {
	cases := []struct {
		patterns []string
		path     string
		excluded bool
	}{
		{[]string{"*.go"}, "/foo/bar/test.go", true},
		{[]string{"*.c"}, "/foo/bar/test.go", false},
		{[]string{"foo"}, "/foo/bar/test.go", true},
		{[]string{"bar"}, "/foo/bar", true},
		{[]string{"ba"}, "/foo/bar", false},
		{[]string{"/foo/bar"}, "/foo/bar/baz", true},
		{[]string{"/bar"}, "/foo/bar", false},
		{[]string{"foo/"}, "/x/foo", true},
		{[]string{"foo/*/baz"}, "/x/foo/bar/baz", true},
		{[]string{"foo/*"}, "/x/foo", false},
		{[]string{"/foo/**/baz"}, "/foo/baz", true},
		{[]string{"/foo/**/baz"}, "/foo/a/b/baz/c", true},
		{[]string{"foo/**"}, "/x/foo", true},
		{[]string{"**/foo"}, "/foo", true},
		{[]string{"**"}, "/foo", true},
		{[]string{"/**"}, "/foo", true},
		{[]string{"/"}, "/foo", true},
		{[]string{"./foo//bar"}, "/x/foo/bar", true},
		{[]string{"user/.[!w]*"}, "/home/user/.wine", true},
		{[]string{"/home/user/*", "!/home/user/work"}, "/home/user/play", true},
		{[]string{"/home/user/*", "!/home/user/work"}, "/home/user/work/a", false},
		{[]string{"/home/user/*", "!/home/user/work", "*.tmp"}, "/home/user/work/a.tmp", true},
		{[]string{"!/home/user/work", "/home/user/*"}, "/home/user/work", true},
		{[]string{"/home/user", "!/home/user/work"}, "/home/user/work", true},
		{[]string{`\*`}, "/a/*", true},
		{[]string{`\*`}, "/a/b", false},
		{[]string{"caf\xe9"}, "/a/caf\xe9", true},
	}
	for _, c := range cases {
		set := globSet(t, c.patterns...)
		require.Equal(t, !c.excluded, walkIncludes(set, c.path, false), "%q: %s", c.patterns, c.path)
	}
}

func TestFoldedPatterns(t *testing.T) {
	b := NewBuilder()
	require.NoError(t, b.Exclude("/Home/*/CACHE", true, "--iexclude"))
	require.NoError(t, b.Exclude("ÄRGER*", true, "--iexclude"))
	set := b.Compile()
	require.False(t, walkIncludes(set, "/HOME/x/cache", true))
	require.False(t, walkIncludes(set, "/a/ärger.txt", true))
	require.False(t, walkIncludes(set, "/a/"+"ÄRGER"+strings.Repeat("x", 300), false))
	require.True(t, walkIncludes(set, "/HOME/x/y/cache", true))
}

// A '!' of one list does not bring back what the other list excludes.
func TestListsDecideIndependently(t *testing.T) {
	b := NewBuilder()
	require.NoError(t, b.Exclude("*.log", true, "--iexclude"))
	require.NoError(t, b.Exclude("!a.log", false, "--exclude"))
	_, err := b.Statement("INCLUDE", "/.../*", "opt:1")
	require.NoError(t, err)
	d := b.Compile().Explain(Query{Path: "/a.log", Type: tree.File})
	require.Equal(t, Exclude, d.Verdict)
	require.Equal(t, "*.log (--iexclude)", d.Rule.String())
}

func TestExcludeFileAsResticReadsIt(t *testing.T) {
	env := func(key string) (string, bool) {
		if key == "HOME" {
			return "/home/me", true
		}
		return "", false
	}
	text := "\xef\xbb\xbf# comment\n\n  $HOME/tmp  \n${HOME}/x*\n  # indented comment\n*.$$\r\n$NOTHING/y\n"
	b := NewBuilder()
	require.NoError(t, b.ExcludeFile(strings.NewReader(text), "ex", false, env))
	var got []string
	for _, r := range b.Compile().List() {
		got = append(got, r.String())
	}
	require.Equal(t, []string{"/y (ex:7)", "*.$ (ex:6)", "/home/me/x* (ex:4)", "/home/me/tmp (ex:3)"}, got)

	err := NewBuilder().ExcludeFile(strings.NewReader("a\n[\n!\n"), "ex", false, noEnv)
	require.ErrorIs(t, err, ErrPattern)
	require.ErrorContains(t, err, "ex:2: ")
	require.ErrorContains(t, err, "ex:3: ")
}

func TestStatementFile(t *testing.T) {
	text := "* comment\n# comment\nexclude /.../*.o\ninclude \"/src/my dir/*.o\" MGMT1\nEXCLUDE.DIR {/home}/x/\n" +
		"exclude.archive /x\nExclude.FS /mnt/slow\n"
	b := NewBuilder()
	var remarks [][2]string
	note := func(origin, remark string) { remarks = append(remarks, [2]string{origin, remark}) }
	require.NoError(t, b.StatementFile(strings.NewReader(text), "ie", note))
	require.Equal(t, [][2]string{{"ie:4", `"MGMT1" after the pattern has no meaning here`},
		{"ie:6", "EXCLUDE.ARCHIVE has no meaning here"}}, remarks)
	set := b.Compile()
	require.False(t, walkIncludes(set, "/a/b.o", false))
	require.True(t, walkIncludes(set, "/src/my dir/b.o", false))
	require.False(t, walkIncludes(set, "/home/x/y", false))
	require.False(t, walkIncludes(set, "/mnt/slow", true))

	for text, want := range map[string]string{
		"include":           "ie:1: malformed pattern: INCLUDE needs a pattern",
		"exclude *.o":       `must start with '/' (any directory: /.../*.o)`,
		"exclude /a/":       "write /a/* for the files in it, or use EXCLUDE.DIR",
		"exclude '/a b":     "has no closing quote",
		"exclud /a":         "ie:1: EXCLUD: unknown statement",
		"exclude /[a":       "unclosed '['",
		"\nexclude.dir /[]": "ie:2: ",
	} {
		require.ErrorContains(t, NewBuilder().StatementFile(strings.NewReader(text), "ie", note), want)
	}
}

// What an EXCLUDE statement matches is a file to TSM: whether a directory of that name is meant must be found out.
func TestTypeIsAskedForOnlyWhereItMatters(t *testing.T) {
	b := NewBuilder()
	_, err := b.Statement("EXCLUDE", "/a/*", "opt:1")
	require.NoError(t, err)
	_, err = b.Statement("EXCLUDE.DIR", "/a/d", "opt:2")
	require.NoError(t, err)
	_, err = b.Statement("EXCLUDE.DIR", "/a/e", "opt:3")
	require.NoError(t, err)
	_, err = b.Statement("INCLUDE", "/a/e", "opt:4")
	require.NoError(t, err)
	state, _ := b.Compile().Root("/a")
	require.Equal(t, NeedType, state.Name([]byte("x"), 0))
	require.Equal(t, Exclude, state.Name([]byte("x"), tree.Symlink))
	require.Equal(t, Include, state.Name([]byte("x"), tree.Dir))
	require.Equal(t, Exclude, state.Name([]byte("d"), 0), "excluded as either")
	require.Equal(t, NeedType, state.Name([]byte("e"), 0))
	require.Equal(t, Exclude, state.Name([]byte("e"), tree.Dir))
	require.Equal(t, Include, state.Name([]byte("e"), tree.File))
}

// disk is a tree of files by their absolute path.
type disk map[string]string

func (d disk) read(p string, limit int) ([]byte, error) {
	content, ok := d[p]
	if !ok {
		return nil, fs.ErrNotExist
	}
	if content == "!unreadable" {
		return nil, fs.ErrPermission
	}
	return []byte(content)[:min(limit, len(content))], nil
}

func (d disk) explain(set *Set, source, p string, typ tree.Type) Verdict {
	return set.Explain(Query{Path: p, Type: typ, Source: source, Read: d.read}).Verdict
}

func TestMarkers(t *testing.T) {
	b := NewBuilder()
	require.NoError(t, b.ExcludeIfPresent(".nobackup", "--exclude-if-present"))
	require.NoError(t, b.ExcludeIfPresent("tag:MAGIC: 1", "--exclude-if-present"))
	b.ExcludeCaches("--exclude-caches")
	set := b.Compile()
	files := disk{
		"/s/a/.nobackup":      "",
		"/s/b/tag":            "MAGIC: 1 and more",
		"/s/c/tag":            "other",
		"/s/d/tag":            "!unreadable",
		"/s/e/CACHEDIR.TAG":   "Signature: 8a477f597d28d172789f06886806bc55\n# x",
		"/s/f/CACHEDIR.TAG":   "Signature: wrong",
		"/s/e/deep/.nobackup": "",
	}
	require.Equal(t, Include, files.explain(set, "/s", "/s/a", tree.Dir))
	require.Equal(t, Include, files.explain(set, "/s", "/s/a/.nobackup", tree.File))
	require.Equal(t, Exclude, files.explain(set, "/s", "/s/a/x", tree.File))
	require.Equal(t, Exclude, files.explain(set, "/s", "/s/a/x/y", tree.Dir))
	require.Equal(t, Exclude, files.explain(set, "/s", "/s/b/x", tree.Dir))
	require.Equal(t, Include, files.explain(set, "/s", "/s/c/x", tree.File))
	require.Equal(t, Include, files.explain(set, "/s", "/s/d/x", tree.File))
	require.Equal(t, Exclude, files.explain(set, "/s", "/s/e/deep", tree.Dir))
	require.Equal(t, Include, files.explain(set, "/s", "/s/f/x", tree.File))
	require.Equal(t, Include, files.explain(set, "/s/a/z", "/s/a/z/x", tree.File), "markers above a source do not count")

	state, _ := set.Root("/s/d")
	require.True(t, state.Control([]byte("tag")))
	require.False(t, state.Control([]byte("x")))
	next, problems := state.Load("/s/d", []string{"tag"},
		func(string, int) ([]byte, error) { return nil, fs.ErrPermission })
	require.Len(t, problems, 1)
	require.ErrorIs(t, problems[0], fs.ErrPermission)
	require.EqualError(t, problems[0], "read marker file /s/d/tag: permission denied")
	require.Equal(t, Include, next.Name([]byte("x"), 0))

	for _, bad := range []string{"", ":x", "a/b", ".", ".."} {
		require.ErrorIs(t, NewBuilder().ExcludeIfPresent(bad, "flag"), ErrPattern)
	}
}

// The cases follow gitignore(5).
func TestIgnoreFiles(t *testing.T) {
	files := disk{
		"/s/.ti": "# comment\n*.o\n!keep.o\n/top\nbuild/\ndoc/*.txt\na/**\n**/deep/x\n\\#hash\n\\!bang\nblank\\ " +
			"\ntrail   \n" +
			"q/**/r\n[!x]yz\n",
		"/s/sub/.ti": "!*.o\nlast.o\n/only\n",
	}
	b := NewBuilder()
	require.NoError(t, b.IgnoreFile(".ti", "--ignore-file"))
	set := b.Compile()
	cases := []struct {
		path string
		typ  tree.Type
		want Verdict
	}{
		{"/s/x.o", tree.File, Exclude},
		{"/s/keep.o", tree.File, Include},
		{"/s/d/e/x.o", tree.File, Exclude},
		{"/s/d/keep.o", tree.File, Include},
		{"/s/top", tree.File, Exclude},
		{"/s/d/top", tree.File, Include},
		{"/s/build", tree.Dir, Exclude},
		{"/s/build", tree.File, Include},
		{"/s/build", 0, NeedType},
		{"/s/d/build/x", tree.File, Exclude},
		{"/s/doc/a.txt", tree.File, Exclude},
		{"/s/doc/b/a.txt", tree.File, Include},
		{"/s/d/doc/a.txt", tree.File, Include},
		{"/s/a", tree.Dir, Include},
		{"/s/a/b", tree.Dir, Exclude},
		{"/s/deep/x", tree.File, Exclude},
		{"/s/1/2/deep/x", tree.File, Exclude},
		{"/s/#hash", tree.File, Exclude},
		{"/s/!bang", tree.File, Exclude},
		{"/s/blank ", tree.File, Exclude},
		{"/s/blank", tree.File, Include},
		{"/s/trail", tree.File, Exclude},
		{"/s/q/r", tree.File, Exclude},
		{"/s/q/1/2/r", tree.File, Exclude},
		{"/s/ayz", tree.File, Exclude},
		{"/s/xyz", tree.File, Include},
		{"/s/sub/x.o", tree.File, Include},
		{"/s/sub/last.o", tree.File, Exclude},
		{"/s/sub/d/last.o", tree.File, Exclude},
		{"/s/sub/only", tree.File, Exclude},
		{"/s/sub/d/only", tree.File, Include},
		{"/s/.ti", tree.File, Include},
	}
	for _, c := range cases {
		require.Equal(t, c.want, files.explain(set, "/s", c.path, c.typ), "%s %v", c.path, c.typ)
	}
	require.Equal(t, Include, files.explain(set, "/s/d", "/s/d/x.o", tree.File), "files above the source do not count")
	d := set.Explain(Query{Path: "/s/sub/last.o", Type: tree.File, Source: "/s", Read: files.read})
	require.Equal(t, "last.o (/s/sub/.ti:2)", d.Rule.String())
}

func TestIgnoreFileProblems(t *testing.T) {
	b := NewBuilder()
	require.NoError(t, b.IgnoreFile(".ti", "--ignore-file"))
	state, _ := b.Compile().Root("/s")
	load := func(content string, err error) (*DirState, []error) {
		return state.Load("/s", []string{".ti"}, func(_ string, limit int) ([]byte, error) {
			return []byte(content)[:min(limit, len(content))], err
		})
	}
	next, problems := load("[\n!\n/\n*.o\n[[:alpha:]]\n", nil)
	require.Len(t, problems, 4)
	require.ErrorContains(t, problems[3], "/s/.ti:5: ")
	require.ErrorContains(t, problems[0], "/s/.ti:1: ")
	require.ErrorContains(t, problems[1], "/s/.ti:2: ")
	require.ErrorContains(t, problems[2], "/s/.ti:3: ")
	require.Equal(t, Exclude, next.Name([]byte("a.o"), 0), "the good lines count")

	next, problems = load(strings.Repeat("*.o\n", MaxIgnoreFile/4)+"*", nil)
	require.ErrorIs(t, errors.Join(problems...), ErrTooLarge)
	require.Equal(t, Include, next.Name([]byte("a.o"), 0))
	next, problems = load("", fs.ErrPermission)
	require.ErrorIs(t, errors.Join(problems...), fs.ErrPermission)
	require.Equal(t, Include, next.Name([]byte("a.o"), 0))
	require.Error(t, NewBuilder().IgnoreFile("a/b", "x"))
}

func TestProtectedPaths(t *testing.T) {
	b := NewBuilder()
	b.Protect("/data/re*po", "the repository")
	require.NoError(t, b.Exclude("!/data/re*po", false, "--exclude"))
	set := b.Compile()
	require.False(t, walkIncludes(set, "/data/re*po/packs", true))
	require.True(t, walkIncludes(set, "/data/repo", true))
	require.Contains(t, set.Explain(Query{Path: "/data/re*po"}).Rule.String(), "the repository (built-in)")
	_, d := set.Root("/data/re*po/packs")
	require.Equal(t, Exclude, d.Verdict)
	require.Equal(t, "/data/re*po", d.Path)
}

func TestObjectsAndMounts(t *testing.T) {
	atA := func() string { return "/a" }
	empty := NewBuilder().Compile()
	require.Equal(t, Include, empty.Object(tree.File, 1<<60, true))
	require.Equal(t, Include, empty.Sticky([]byte("com.apple.backupd"), atA))
	require.Equal(t, Include, empty.Mount("/m", true))
	require.False(t, empty.NeedsSticky())

	b := NewBuilder()
	b.ExcludeLargerThan(100, "flag")
	b.Flag(NoDump, "flag")
	b.Flag(TimeMachine, "flag")
	b.Flag(Pseudo, "built-in")
	b.Flag(Pseudo, "again")
	set := b.Compile()
	require.True(t, set.NeedsSticky())
	require.Equal(t, Include, set.Object(tree.File, 100, false))
	require.Equal(t, Exclude, set.Object(tree.File, 101, false))
	require.Equal(t, Include, set.Object(tree.Dir, 4096, false))
	require.Equal(t, Exclude, set.Object(tree.Dir, 0, true))
	require.Equal(t, Exclude, set.Sticky([]byte("bplist00_\x10\x11com.apple.backupd"), atA))
	require.Equal(t, Include, set.Sticky(nil, atA))
	require.Equal(t, NotEntered, set.Mount("/m", true))
	require.Equal(t, Include, set.Mount("/m", false))
	require.Len(t, set.List(), 4)
	for _, q := range []struct {
		q    Query
		kind Kind
	}{
		{Query{Path: "/a", Type: tree.File, Size: 101}, LargerThan},
		{Query{Path: "/a", Type: tree.File, NoDump: true}, NoDump},
		{Query{Path: "/a", Type: tree.File, Sticky: []byte("com.apple.backupd")}, TimeMachine},
	} {
		require.Equal(t, q.kind, set.Explain(q.q).Rule.Kind)
	}
	b = NewBuilder()
	b.Flag(OneSystem, "flag")
	require.Equal(t, NotEntered, b.Compile().Mount("/m", false))

	b = NewBuilder()
	b.OnlySystems([]string{"/", "/home"}, "dsm.opt:1")
	set = b.Compile()
	require.Equal(t, Include, set.Mount("/home", false))
	require.Equal(t, NotEntered, set.Mount("/mnt", false))
	require.Equal(t, "what lies on other file systems than /, /home", set.List()[0].Text)
}

func TestTopOnly(t *testing.T) {
	b := NewBuilder()
	b.Flag(TopOnly, "opt:1")
	set := b.Compile()
	state, d := set.Root("/s/t")
	require.Equal(t, Include, d.Verdict)
	require.Equal(t, NotEntered, state.Name([]byte("dir"), tree.Dir))
	require.Equal(t, Include, state.Name([]byte("file"), tree.File))
	require.Equal(t, NeedType, state.Name([]byte("any"), 0))
	d = set.Explain(Query{Path: "/s/t/dir/x", Source: "/s/t"})
	require.Equal(t, Decision{NotEntered, set.first(TopOnly), "/s/t/dir"}, d)
}

func TestRootOfEverything(t *testing.T) {
	for _, p := range []string{"/", "/**"} {
		_, d := globSet(t, p).Root("/")
		require.Equal(t, Exclude, d.Verdict, p)
	}
	_, d := globSet(t, "**", "x").Root("/")
	require.Equal(t, Include, d.Verdict)
	require.Equal(t, Decision{Include, nil, "/a"}, globSet(t).Explain(Query{Path: "/a"}))
	b := NewBuilder()
	_, err := b.Statement("EXCLUDE.DIR", "/...", "opt:1")
	require.NoError(t, err)
	require.Equal(t, "/", b.Compile().Explain(Query{Path: "/a/b"}).Path)
}

func TestListIsInTheOrderOfAsking(t *testing.T) {
	b := NewBuilder()
	require.NoError(t, b.Exclude("one", false, "1"))
	require.NoError(t, b.Exclude("two", false, "2"))
	for i, line := range []string{"EXCLUDE /a", "INCLUDE /b", "EXCLUDE.DIR /c", "EXCLUDE.FS /d"} {
		keyword, pattern, _ := strings.Cut(line, " ")
		_, err := b.Statement(keyword, pattern, string(rune('3'+i)))
		require.NoError(t, err)
	}
	var origins string
	for _, r := range b.Compile().List() {
		origins += r.Origin
	}
	require.Equal(t, "654321", origins)
}

func TestNoAllocationPerName(t *testing.T) {
	b := NewBuilder()
	for _, p := range []string{"*.o", "node_modules", ".#*", "/home/*/.cache", "a*b*c", "[x-z]?"} {
		require.NoError(t, b.Exclude(p, false, "flag"))
	}
	require.NoError(t, b.Exclude("Thumbs.DB", true, "flag"))
	_, err := b.Statement("EXCLUDE", "/.../core", "opt:1")
	require.NoError(t, err)
	set := b.Compile()
	plain, _ := set.Root("/home/me/src")
	name := []byte("Some-Ordinary_Name.go")
	require.Zero(t, testing.AllocsPerRun(100, func() { plain.Name(name, 0) }))
	loaded, _ := plain.Load("/home/me/src", nil, nil)
	require.Zero(t, testing.AllocsPerRun(100, func() { loaded.Name(name, tree.File) }))

	empty, _ := NewBuilder().Compile().Root("/home")
	require.Zero(t, testing.AllocsPerRun(100, func() { empty.Child(name).Name(name, 0) }))
}

// Many deep wildcards must not multiply the positions that a path can be in.
func TestPositionsStayFew(t *testing.T) {
	set := globSet(t, "a/**/a/**/a/**/b", "**/a/**/a/**/c", "a/*/a/**/d")
	state, _ := set.Root(strings.Repeat("/a", 500))
	require.LessOrEqual(t, len(state.active), 20)
	require.Equal(t, Exclude, state.Name([]byte("b"), 0))
}

func FuzzParsers(f *testing.F) {
	f.Add("*.o\n!keep\n/a/**/b/\n[a-z]\\ \n", "/a/x/b")
	f.Add("exclude /.../*\ninclude.file '/a b' X\nexclude.dir {/x}/y/", "/a/b")
	f.Add("[\n\\\n!\n/\n**\n", "/")
	f.Fuzz(func(t *testing.T, text, target string) {
		b := NewBuilder()
		_ = b.ExcludeFile(strings.NewReader(text), "ex", false, noEnv)
		_ = b.ExcludeFile(strings.NewReader(text), "iex", true, noEnv)
		_ = b.StatementFile(strings.NewReader(text), "ie", func(string, string) {})
		require.NoError(t, b.IgnoreFile(".ti", "flag"))
		set := b.Compile()
		read := func(p string, limit int) ([]byte, error) {
			if path.Base(p) == ".ti" {
				return []byte(text)[:min(limit, len(text))], nil
			}
			return nil, fs.ErrNotExist
		}
		file := set.Explain(Query{Path: target, Type: tree.File, Read: read})
		dir := set.Explain(Query{Path: target, Type: tree.Dir, Read: read})
		either := set.Explain(Query{Path: target, Read: read})
		if file.Verdict == dir.Verdict {
			require.Equal(t, file.Verdict, either.Verdict)
		} else if path.Clean("/"+target) != "/" {
			require.Equal(t, NeedType, either.Verdict)
		}
	})
}

// TestVolumesOfTheSystemAreEnteredOnlyWhenNamed: the files of the data volume of a Mac appear at the root too, under
// one device number, so --one-file-system does not keep a walk of / out of it.
func TestVolumesOfTheSystemAreEnteredOnlyWhenNamed(t *testing.T) {
	const folder = "/System/Volumes"
	for _, test := range []struct {
		sources []string
		source  string
		want    map[string]Verdict
	}{
		{nil, "/", map[string]Verdict{"/System/Volumes": Include, "/System/Volumes/Data": NotEntered,
			"/System/Volumes/VM": NotEntered, "/Users": Include, "/Users/System/Volumes/Data": Include}},
		{[]string{"/", "/System/Volumes/Data"}, "/", map[string]Verdict{"/System/Volumes/Data": Include,
			"/System/Volumes/Data/Users": Include, "/System/Volumes/VM": NotEntered}},
		{[]string{"/System/Volumes/Data/Users/ann"}, "/System/Volumes/Data/Users/ann",
			map[string]Verdict{"/System/Volumes/Data/Users/ann/x": Include}},
		{[]string{"/System/Volumes/Data"}, "/System/Volumes/Data",
			map[string]Verdict{"/System/Volumes/Data": Include, "/System/Volumes/Data/Users": Include}},
	} {
		b := NewBuilder()
		b.Protect("/backup", "the repository")
		b.Hollow(folder, "a volume of the system", test.sources)
		set := b.Compile()
		for path, want := range test.want {
			d := set.Explain(Query{Path: path, Type: tree.Dir, Source: test.source})
			require.Equal(t, want, d.Verdict, "%s, %q named", path, test.sources)
		}
		require.Equal(t, Include, set.Explain(Query{Path: folder + "/file", Type: tree.File}).Verdict)
		require.Equal(t, Exclude, set.Explain(Query{Path: "/backup", Type: tree.Dir}).Verdict)
	}
}

func TestAProtectedFolderStaysEmpty(t *testing.T) {
	b := NewBuilder()
	b.ProtectIn("/Library/Caches", "excluded from Time Machine")
	_, err := b.Statement("INCLUDE", "/.../*", "test")
	require.NoError(t, err)
	set := b.Compile()
	for path, want := range map[string]Verdict{"/Library/Caches": Include, "/Library/Caches/a": Exclude,
		"/Library/Caches/a/b": Exclude, "/Library/Other": Include} {
		require.Equal(t, want, set.Explain(Query{Path: path, Type: tree.File}).Verdict, path)
	}
}

// TestFirmlinksAreEntered: they lie on another volume, which may have another device number.
func TestFirmlinksAreEntered(t *testing.T) {
	b := NewBuilder()
	b.Enter([]string{"/Users"})
	b.Flag(OneSystem, "flag")
	set := b.Compile()
	require.Equal(t, Include, set.Mount("/Users", false))
	require.Equal(t, NotEntered, set.Mount("/Volumes/USB", false))
}

// A source within another one is kept despite the attribute of Time Machine.
func TestNamedSourcesAreKept(t *testing.T) {
	excluded := []byte("com.apple.backupd")
	compile := func(sources ...string) *Set {
		b := NewBuilder()
		b.Flag(TimeMachine, "default")
		b.Name(sources)
		return b.Compile()
	}
	for _, c := range []struct {
		sources []string
		path    string
		want    Verdict
	}{
		{[]string{"/home", "/home/vm"}, "/home/vm", Include},
		{[]string{"/home/vm/", "/"}, "/home/vm", Include},
		{[]string{"/home", "/home/vm"}, "/home/vm/disk", Exclude},
		{[]string{"/home", "/home/vm"}, "/home/vms", Exclude},
		{[]string{"/home", "/home/vm"}, "/home", Exclude},
		{[]string{"/home", "/home/vm/a/b"}, "/home/vm", Include},
		{[]string{"/", "/"}, "/x", Exclude},
		{[]string{"/home", "/home2"}, "/home2", Exclude},
	} {
		set := compile(c.sources...)
		require.Equal(t, c.want, set.Sticky(excluded, func() string { return c.path }), c)
	}
}
