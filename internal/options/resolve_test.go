package options

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

var update = flag.Bool("update", false, "write golden files")

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run go test ./internal/options -update and look at the difference")
}

func TestRealSystemFile(t *testing.T) {
	m := machine{
		env: map[string]string{"TIDEMARK_OPTIONS": "dsm.sys"},
		files: map[string]string{
			"dsm.sys":            testdata(t, "dsm.sys"),
			"/etc/adsm/inclexcl": "* ours\nEXCLUDE /home/.../*\nexclude.compression /home/.../*.gz\n",
		},
	}
	spec, warnings, err := m.resolve(t)
	require.NoError(t, err)
	var listing strings.Builder
	for _, e := range spec.Effective() {
		fmt.Fprintf(&listing, "%-24s %-28s %s\n", e.Name, e.Value, e.Origin)
	}
	for _, w := range warnings {
		fmt.Fprintf(&listing, "warning: %s\n", w)
	}
	set, warnings, err := spec.Rules(m.read, m.lookup, func(b *rules.Builder) {
		b.Protect("/home/me/backup", "the repository")
	})
	require.NoError(t, err)
	for _, r := range set.List() {
		fmt.Fprintf(&listing, "rule: %s\n", r)
	}
	for _, w := range warnings {
		fmt.Fprintf(&listing, "warning: %s\n", w)
	}
	golden(t, "testdata/dsm.golden", listing.String())

	require.Equal(t, Parallel{Workers{4, 4, 2, 4}, Workers{}, 10, 96 << 20}, spec.Parallel(2, Media{}))
	window, buffer := spec.TCP()
	require.Equal(t, []int64{10 << 30, 512 << 10, 64 << 10}, []int64{spec.CommitBytes(), window, buffer})
	require.Equal(t, Reading{SharedDynamic, 2, false, true, "auto", true, 90}, spec.Reading())
	require.Equal(t, Cache{true, "/var/cache/my tsm", 1 << 30, true}, spec.Cache())
	require.Equal(t, Repository{"/home/me/backup", true}, spec.Repository())
	require.Equal(t, Output{Quiet: true, Interval: 5 * time.Minute}, spec.Output())
	require.Equal(t, "dsm.sys", spec.File())
	decide := func(path string) rules.Verdict {
		return set.Explain(rules.Query{Path: path, Type: tree.File}).Verdict
	}
	require.Equal(t, rules.Include, decide("/home/my dir/core"), "the last statement is asked first")
	require.Equal(t, rules.Exclude, decide("/home/my dir/other"), "by the INCLEXCL file")
	require.Equal(t, rules.Exclude, decide("/srv/core"))
	require.Equal(t, rules.Exclude, decide("/srv/a.tmp"))
}

func TestDefaults(t *testing.T) {
	spec := machine{}.spec(t)
	require.Equal(t, Repository{"/home/me/.local/share/tidemark/repository", false}, spec.Repository())
	require.Equal(t, Keys{}, spec.Keys())
	require.Equal(t, Parallel{WorkersFor(0, 6, Media{}), Workers{}, 0, 96 << 20}, spec.Parallel(6, Media{}))
	window, buffer := spec.TCP()
	require.Equal(t, []int64{64 << 20, 0, 256 << 10}, []int64{spec.CommitBytes(), window, buffer})
	level, auto := spec.Compression()
	require.Equal(t, []any{2, true}, []any{level, auto})
	require.Equal(t, Reading{SharedDynamic, 4, false, true, "auto", true, 90}, spec.Reading())
	require.Equal(t, Cache{true, "/home/me/.cache/tidemark", 256 << 20, false}, spec.Cache())
	require.Equal(t, Output{Interval: 5 * time.Minute}, spec.Output())
	require.Empty(t, spec.File())
	set, warnings, err := spec.Rules(machine{}.read, machine{}.lookup)
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, rules.NotEntered, set.Mount("/m", true))
	require.False(t, set.NeedsSticky())
	require.Equal(t, rules.Include, set.Object(tree.File, 1, true))
	for _, e := range spec.Effective() {
		require.Equal(t, "default", e.Origin)
	}
}

func TestLocations(t *testing.T) {
	env := func(pairs ...string) Env {
		return func(name string) (string, bool) {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1], true
				}
			}
			return "", false
		}
	}
	require.Equal(t, "/d/tidemark/repository", defaultRepository(env("XDG_DATA_HOME", "/d", "HOME", "/h"), "linux"))
	require.Equal(t, "/h/.local/share/tidemark/repository",
		defaultRepository(env("XDG_DATA_HOME", "relative", "HOME", "/h"), "linux"))
	require.Equal(t, "/h/Library/Application Support/tidemark/repository",
		defaultRepository(env("XDG_DATA_HOME", "/d", "HOME", "/h"), "darwin"))
	require.Equal(t, "/h/Library/Caches/tidemark", defaultCache(env("HOME", "/h"), "darwin"))
	require.Empty(t, defaultRepository(env(), "linux"))
	require.Empty(t, defaultCache(env(), "darwin"))
	require.Equal(t, []string{"/etc/tidemark/tidemark.opt"}, fileLocations(env()))
	require.Equal(t, []string{"/c/tidemark/tidemark.opt", "/etc/tidemark/tidemark.opt"},
		fileLocations(env("XDG_CONFIG_HOME", "/c")))

	spec, _, err := resolve(nil, env(), machine{}.read, "darwin")
	require.NoError(t, err)
	require.Equal(t, Repository{}, spec.Repository())
	set, _, err := spec.Rules(machine{}.read, env())
	require.NoError(t, err)
	require.True(t, set.NeedsSticky(), "on by default on macOS")
}

func TestFirstFileCountsAlone(t *testing.T) {
	m := machine{files: map[string]string{
		"/home/me/.config/tidemark/tidemark.opt": "SCANNERS 3\n",
		"/etc/tidemark/tidemark.opt":             "SCANNERS 5\nREADERS 5\n",
		"named":                                  "SCANNERS 7\n",
	}}
	require.Equal(t, 3, m.spec(t).Parallel(1, Media{}).Workers.Scanners)
	require.Equal(t, 8, m.spec(t).Parallel(1, Media{}).Workers.Readers)
	m.env = map[string]string{"TIDEMARK_OPTIONS": "named"}
	require.Equal(t, 7, m.spec(t).Parallel(1, Media{}).Workers.Scanners)
	m.env["TIDEMARK_OPTIONS"] = "missing"
	_, _, err := m.resolve(t)
	require.ErrorContains(t, err, "TIDEMARK_OPTIONS: read option file: open missing")
	m.args = []string{"--option-file=/etc/tidemark/tidemark.opt"}
	require.Equal(t, 5, m.spec(t).Parallel(1, Media{}).Workers.Scanners)
}

// For every option that can be given in all three places: the flag wins over the environment, that over the file.
func TestPrecedenceOfEveryOption(t *testing.T) {
	samples := map[Kind][3]string{
		String: {"a", "b", "c"}, Path: {"/a", "/b", "/c"}, Bool: {"yes", "no", "yes"}, Int: {"1", "2", "3"},
		Duration: {"1s", "2s", "3s"}, Size: {"301K", "302K", "303K"}, Count: {"1", "2", "3"},
		Percent: {"1%", "2%", "3.5%"},
	}
	for _, o := range Table() {
		if o.Barred != 0 || o.multiple() {
			continue
		}
		values, ok := samples[o.Kind]
		switch {
		case o.Kind == Choice:
			for i := range values {
				values[i] = strings.Fields(o.Choices[i%len(o.Choices)])[0]
			}
		case o.Kind == Size && o.Min >= mib:
			values = [3]string{"33M", "34M", "35M"}
		default:
			require.True(t, ok, o.Name)
		}
		m := file("* one\n" + o.Keywords()[0] + " " + values[0] + "\n")
		value, origin := row(t, m.spec(t), o.Name)
		require.Equal(t, [2]string{values[0], "/etc/tidemark/tidemark.opt:2"}, [2]string{value, origin}, o.Name)
		m.env = map[string]string{o.Env(): values[1]}
		value, origin = row(t, m.spec(t), o.Name)
		require.Equal(t, [2]string{values[1], o.Env()}, [2]string{value, origin}, o.Name)
		m.args = []string{"--" + o.Name + "=" + values[2]}
		value, origin = row(t, m.spec(t), o.Name)
		require.Equal(t, [2]string{values[2], "--" + o.Name}, [2]string{value, origin}, o.Name)
	}
}

func TestListsAreCollected(t *testing.T) {
	m := file("EXCLUDEPATTERN a\nEXCLUDEPATTERN 'b c'\n")
	m.env = map[string]string{"TIDEMARK_EXCLUDE": "d\n\n e \n"}
	m.args = []string{"-e", "f,g", "--exclude", "h"}
	var got []string
	for _, e := range m.spec(t).Effective() {
		if e.Name == "exclude" {
			got = append(got, e.Value+" < "+e.Origin)
		}
	}
	require.Equal(t, []string{"a < /etc/tidemark/tidemark.opt:1", "b c < /etc/tidemark/tidemark.opt:2",
		"d < TIDEMARK_EXCLUDE", "e < TIDEMARK_EXCLUDE", "f,g < --exclude", "h < --exclude"}, got)
}

func TestStanzas(t *testing.T) {
	text := "SCANNERS 1\nREADERS 1\nSERVERNAME One\nSCANNERS 2\nServerName \"number two\"\nSCANNERS 3\n"
	scanners := func(m machine) int { return m.spec(t).Parallel(1, Media{}).Workers.Scanners }
	m := file(text)
	require.Equal(t, 2, scanners(m), "the first")
	require.Equal(t, 1, m.spec(t).Parallel(1, Media{}).Workers.Readers, "what stands before the first counts for all")
	m.env = map[string]string{"TIDEMARK_SERVER_NAME": "NUMBER two"}
	require.Equal(t, 3, scanners(m))
	m.args = []string{"--server-name", "one"}
	require.Equal(t, 2, scanners(m))
	m.args = []string{"--server-name", "three"}
	_, _, err := m.resolve(t)
	require.ErrorIs(t, err, errStanza)
	require.ErrorContains(t, err, "--server-name: no such stanza: /etc/tidemark/tidemark.opt has no SERVERNAME three, "+
		"only One, number two")
	require.Equal(t, 3, scanners(file(text+"DEFAULTSERVER 'number two'\n")))
	_, _, err = file(text + "DEFAULTSERVER four\n").resolve(t)
	require.ErrorContains(t, err, "/etc/tidemark/tidemark.opt:7: no such stanza")
	m = file("SCANNERS 4\n")
	require.Equal(t, 4, scanners(m))
	m.args = []string{"--server-name", "one"}
	_, _, err = m.resolve(t)
	require.ErrorContains(t, err, `has no SERVERNAME line, so no "one"`)
	m.args = []string{"--server-name", "Default"} // as jobs call it
	require.Equal(t, 4, scanners(m))
	_, _, err = machine{args: []string{"--server-name", "one"}}.resolve(t)
	require.ErrorContains(t, err, "there is no option file to look for one in")
}

func TestErrorsNameTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"\nRESOURCEUTILISATION 3":       `:2: unknown option "RESOURCEUTILISATION": did you mean RESOURCEUTILIZATION?`,
		"EXLCUDE.DIR /x":                `:1: unknown option "EXLCUDE.DIR": did you mean EXCLUDE.DIR?`,
		"TXN 3":                         `:1: unknown option "TXN": did you mean TXNBYTELIMIT?`,
		"XYZZY 1":                       `:1: unknown option "XYZZY": "tidemark options" lists those there are`,
		"MEMORY=3":                      `:1: unknown option "MEMORY=3": write the keyword, a blank and the value`,
		"RESOURCEUTILIZATION 11":        `:1: resource-utilization: malformed value: "11" is out of range (1 to 10, or auto)`,
		"RESOURCEUTILIZATION x":         `"x" is not a whole number (1 to 10, or auto)`,
		"TCPBUFFSIZE 513":               `:1: tcp-buffer-size: malformed value: "513" is out of range (1K to 512K)`,
		"MEMORY lots":                   `"lots" is not a size such as 512K, 10M or 1.5G`,
		"MEMORY 99999999T":              `"99999999T" is too large`,
		"COMPRESSION perhaps":           `"perhaps" is none of auto, off, fastest, better, max`,
		"SUBDIR maybe":                  `"maybe" is neither yes nor no`,
		"PROGRESSINTERVAL soon":         `"soon" is not a time such as 90s, 5m or 2h`,
		"REPOSITORY":                    ":1: malformed line: REPOSITORY needs a value",
		"REPOSITORY ''":                 ":1: repo: malformed value: it is empty",
		"REPOSITORY /a b":               ":1: malformed line: one value expected after REPOSITORY, found 2; put quotes",
		"REPOSITORY '/a b":              ":1: malformed line: '/a b has no closing quote",
		"SERVERNAME":                    ":1: malformed line: SERVERNAME needs a name",
		"SERVERNAME a\nSERVERNAME b\nX": `:3: unknown option "X"`,
	} {
		_, _, err := file(text).resolve(t)
		require.ErrorContains(t, err, "/etc/tidemark/tidemark.opt"+":", text)
		require.ErrorContains(t, err, want, text)
	}
	_, _, err := file("XYZZY 1\nMEMORY x\n").resolve(t)
	require.ErrorContains(t, err, "unknown option")
	require.ErrorIs(t, err, ErrValue, "all mistakes are reported at once")
	_, _, err = machine{env: map[string]string{"TIDEMARK_MEMORY": "x"}}.resolve(t)
	require.ErrorContains(t, err, `TIDEMARK_MEMORY: memory: malformed value: "x" is not a size`)

	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Register(flags)
	require.ErrorContains(t, flags.Parse([]string{"--memory", "x"}), `"x" is not a size such as`)
}

func TestUnreadableOptionFile(t *testing.T) {
	denied := errors.New("permission denied")
	_, _, err := Resolve(nil, machine{}.lookup, func(string) ([]byte, error) { return nil, denied })
	require.ErrorIs(t, err, denied)
}

func TestSourcesOfThePassphrase(t *testing.T) {
	m := file("PASSWORDFILE ~/pw\nKEYFILE /k\n")
	require.Equal(t, Keys{PasswordFile: "/home/me/pw", KeyFile: "/k"}, m.spec(t).Keys())
	m.env = map[string]string{"TIDEMARK_PASSWORD": "geheim"}
	spec := m.spec(t)
	require.Equal(t, Keys{Password: "geheim", KeyFile: "/k"}, spec.Keys())
	m.args = []string{"--password-command", "pass show x"}
	require.Equal(t, Keys{PasswordCommand: "pass show x", KeyFile: "/k"}, m.spec(t).Keys())
	m.args = append(m.args, "-p", "/f")
	_, _, err := m.resolve(t)
	require.ErrorIs(t, err, ErrConflict)
	require.ErrorContains(t, err, "comes from --password-file as well as --password-command; give one of them")

	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		require.NotContains(t, fmt.Sprintf(verb, spec.Keys()), "geheim")
		require.NotContains(t, fmt.Sprintf(verb, spec.Keys().Password), "67656865696d")
	}
	text, err := json.Marshal(struct {
		Keys Keys
		All  []Effective
	}{spec.Keys(), spec.Effective()})
	require.NoError(t, err)
	require.NotContains(t, string(text), "geheim")
	require.Contains(t, string(text), `{"name":"password","value":"(hidden)","source":"TIDEMARK_PASSWORD"}`)
	require.Equal(t, "geheim", string(spec.Keys().Password))
}

func TestSourcesOfThePasswordOfAShare(t *testing.T) {
	m := file("SMBCREDENTIALS ~/nas\nSMBENCRYPT YES\nSMBSIGN IFOFFERED\nVERIFYWRITES off\n")
	require.Equal(t, Share{Credentials: "/home/me/nas", Encrypt: true, Verify: "off"}, m.spec(t).Share())
	m.env = map[string]string{"TIDEMARK_SMB_PASSWORD": "geheim", "TIDEMARK_SMB_SIGN": "required", "TIDEMARK_PASSWORD": "x"}
	spec := m.spec(t)
	require.Equal(t, Share{Keys: Keys{Password: "geheim"}, Encrypt: true, Sign: true, Verify: "off"}, spec.Share())
	require.Equal(t, Keys{Password: "x"}, spec.Keys(), "another secret, which does not conflict")
	text, err := json.Marshal(struct {
		Share Share
		All   []Effective
	}{spec.Share(), spec.Effective()})
	require.NoError(t, err)
	require.NotContains(t, string(text), "geheim")
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", spec.Share(), spec.Share(), spec.Share()), "geheim")

	m.args = []string{"--smb-password-command", "pass show nas", "--verify-writes=full"}
	require.Equal(t, Share{Keys: Keys{PasswordCommand: "pass show nas"}, Encrypt: true, Sign: true, Verify: "full"},
		m.spec(t).Share())
	m.args = []string{"--smb-password-file", "/f", "--smb-credentials", "/c"}
	_, _, err = m.resolve(t)
	require.ErrorIs(t, err, ErrConflict)
	require.ErrorContains(t, err, "the password of the share comes from --smb-password-file as well as --smb-credentials")
	m.args = []string{"--smb-password-file", "/f"}
	require.Equal(t, Share{Keys: Keys{PasswordFile: "/f"}, Encrypt: true, Sign: true, Verify: "off"}, m.spec(t).Share())

	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Register(flags)
	require.Nil(t, flags.Lookup("smb-password"), "others can see a command line")
	_, _, err = file("SMBPASSWORD geheim\n").resolve(t)
	require.ErrorContains(t, err, "unknown option")
	require.NotContains(t, err.Error(), "geheim")
	require.Equal(t, Share{Sign: true, Verify: "trailer"}, machine{}.spec(t).Share())
}

func TestAddressesAreListedWithoutPasswords(t *testing.T) {
	for location, want := range map[string]string{
		"smb://me:geheim@nas/share": "smb://(hidden)@nas/share",
		"smb://me:12/geheim@nas/s":  "smb://(hidden)@nas/s",
		"smb://me%25geheim@nas/s":   "smb://(hidden)@nas/s",
		"smb:me:geheim@nas/s":       "smb:(hidden)@nas/s",
		"//me:geheim@nas/s":         "//(hidden)@nas/s",
		`\\me:geheim@nas\s`:         `\\(hidden)@nas\s`,
		"me:geheim@smb://nas/s":     "(hidden)@smb://nas/s",
		"smb://me@nas/share":        "smb://me@nas/share",
		"smb://me:%zz@nas/share":    "smb://(hidden)@nas/share",
		"/a@b":                      "/a@b",
	} {
		spec := machine{args: []string{"-r", location}}.spec(t)
		value, _ := row(t, spec, "repo")
		require.Equal(t, want, value)
		require.Equal(t, location, spec.Repository().Location)
	}
}

func levelOf(s *Spec) int {
	level, _ := s.Compression()
	return level
}

func TestCompressionLevels(t *testing.T) {
	for args, level := range map[string]int{
		"": 2, "--compression=off": 0, "--compression=no": 0, "--compression=YES": 2, "--compression=fastest": 1,
		"--compression=better": 3, "--compression=max": 4, "--compression-level=4": 4,
		"--compression=max --compression-level=1": 1, "--compression=off --compression-level=3": 0,
	} {
		require.Equal(t, level, levelOf(machine{args: strings.Fields(args)}.spec(t)), args)
	}
	m := file("COMPRESSIONLEVEL 4\n")
	require.Equal(t, 4, levelOf(m.spec(t)))
	m.args = []string{"--compression=off"}
	require.Equal(t, 0, levelOf(m.spec(t)), "the flag outranks the file")
	m = file("COMPRESSION NO\n")
	m.env = map[string]string{"TIDEMARK_COMPRESSION_LEVEL": "3"}
	require.Equal(t, 3, levelOf(m.spec(t)))
}

func TestSerializations(t *testing.T) {
	for text, want := range map[string]Serialization{"STATIC": Static, "ShrStatic": SharedStatic,
		"shared-dynamic": SharedDynamic, "DYNAMIC": Dynamic} {
		require.Equal(t, want, file("COPYSERIALIZATION "+text).spec(t).Reading().Serialization)
	}
}

func TestCacheSwitches(t *testing.T) {
	require.False(t, machine{args: []string{"--no-cache"}}.spec(t).Cache().Enabled)
	require.False(t, file("ENABLEDEDUPCACHE no").spec(t).Cache().Enabled)
	require.Equal(t, "/x", file("CACHEDIR /x").spec(t).Cache().Dir)
}

func TestCounting(t *testing.T) {
	require.Equal(t, 2, machine{args: []string{"-vv"}}.spec(t).Output().Verbose)
	require.Equal(t, 3, machine{args: []string{"--verbose=2", "-v"}}.spec(t).Output().Verbose)
	require.Equal(t, 1, file("VERBOSE").spec(t).Output().Verbose)
}

func TestRemarks(t *testing.T) {
	_, warnings, err := file("DEDUPLICATION no\nSUBDIR no\nMEMORYEFFICIENTBACKUP no\nPASSWORD geheim\n").resolve(t)
	require.NoError(t, err)
	require.Len(t, warnings, 4)
	text := fmt.Sprint(warnings)
	require.NotContains(t, text, "geheim")
	require.Contains(t, text, "tidemark.opt:4: PASSWORD has no meaning here and is ignored: see PASSWORDFILE")
	require.Contains(t, text, "tidemark.opt:2: SUBDIR NO: what lies in directories below a source is not backed up")
	spec := file("SUBDIR no").spec(t)
	set, _, err := spec.Rules(machine{}.read, machine{}.lookup)
	require.NoError(t, err)
	state, _ := set.Root("/s")
	require.Equal(t, rules.NotEntered, state.Name([]byte("d"), tree.Dir))
}

func TestSelection(t *testing.T) {
	m := machine{
		args: []string{"--exclude", "*.o", "--iexclude", "THUMBS.db", "--exclude-file", "ex", "--iexclude-file", "iex",
			"--exclude-if-present", ".nobackup", "--exclude-caches", "--exclude-larger-than", "2K", "-x",
			"--exclude-nodump", "--exclude-time-machine", "--ignore-file", "", "--inclexcl", "ie", "--pseudo-file-systems"},
		env:   map[string]string{"WHAT": "bak"},
		files: map[string]string{"ex": "*.$WHAT\n", "iex": "*.LOG\n", "ie": "exclude /.../core\n"},
	}
	set, _, err := m.spec(t).Rules(m.read, m.lookup)
	require.NoError(t, err)
	state, _ := set.Root("/s")
	for _, name := range []string{"a.o", "thumbs.DB", "a.bak", "a.log", "core"} {
		require.Equal(t, rules.Exclude, state.Name([]byte(name), tree.File), name)
	}
	require.True(t, state.Control([]byte(".nobackup")))
	require.True(t, state.Control([]byte("CACHEDIR.TAG")))
	require.False(t, state.Control([]byte(".tidemarkignore")))
	require.Equal(t, rules.Exclude, set.Object(tree.File, 2049, false))
	require.Equal(t, rules.Exclude, set.Object(tree.File, 1, true))
	require.True(t, set.NeedsSticky())
	require.Equal(t, rules.NotEntered, set.Mount("/m", false))

	m.args = []string{"--exclude", "[", "--exclude-file", "missing", "--exclude-if-present", "a/b", "--ignore-file", "a/b"}
	_, _, err = m.spec(t).Rules(m.read, m.lookup)
	require.ErrorContains(t, err, `--exclude: malformed pattern: "[" has an unclosed '['`)
	require.ErrorContains(t, err, "--exclude-file: open missing")
	require.ErrorContains(t, err, "--exclude-if-present: malformed pattern")
	require.ErrorContains(t, err, "--ignore-file: malformed pattern")
	m = file("EXCLUDE *.o\n")
	_, _, err = m.spec(t).Rules(m.read, m.lookup)
	require.ErrorContains(t, err, "/etc/tidemark/tidemark.opt:1: malformed pattern: \"*.o\" must start with '/'")
}

func TestFlagsOfSomeGroups(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Register(flags, GroupOutput, GroupKeys)
	require.NotNil(t, flags.Lookup("json"))
	require.NotNil(t, flags.Lookup("key-file"))
	require.Nil(t, flags.Lookup("memory"))
	require.Nil(t, flags.Lookup("password"), "never on a command line")
	flags.String("memory", "", "a foreign flag")
	require.NoError(t, flags.Parse([]string{"--memory=9T", "--json"}))
	spec, _, err := Resolve(flags, machine{}.lookup, machine{}.read)
	require.NoError(t, err)
	require.Equal(t, int64(96<<20), spec.Parallel(1, Media{}).Memory)
	require.True(t, spec.Output().JSON)
}
