package options

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func mounted() []localfs.Mount {
	return []localfs.Mount{{Path: "/", Local: true}, {Path: "/home", Local: true}, {Path: "/mnt/nas"}, {Path: "/run"},
		{Path: "/run/media/disk", Local: true}, {Path: "/tmp", Local: true}}
}

func TestDomain(t *testing.T) {
	for text, want := range map[string][]string{
		"DOMAIN ALL-LOCAL":                              {"/", "/home", "/run/media/disk", "/tmp"},
		"domain all-local -/tmp":                        {"/", "/home", "/run/media/disk"},
		"DOM -/home -/tmp":                              {"/", "/run/media/disk"},
		"DOMAIN /home /etc":                             {"/etc", "/home"},
		"DOMAIN /home\nDOMAIN /etc /home/":              {"/etc", "/home"},
		"DOMAIN /home\nDOMAIN -/home/ /etc":             {"/etc"},
		"DOMAIN ALL-LOCAL -/run":                        {"/", "/home", "/tmp"},
		`DOMAIN "/my data" ~/x`:                         {"/home/me/x", "/my data"},
		"DOMAIN /mnt/nas":                               {"/mnt/nas"},
		"DOMAIN /home\nDOMAIN.IMAGE -/home":             {"/home"},
		"SERVERNAME a\nDOMAIN /a\nSERVERNAME b\nDOM /b": {"/a"},
	} {
		spec, warnings, err := file(text + "\n").resolve(t)
		require.NoError(t, err, text)
		require.Empty(t, warnings, text)
		_, sources, err := spec.ForDomain(mounted())
		require.NoError(t, err, text)
		require.Equal(t, want, sources, text)
	}
	m := file("DOMAIN /home\n")
	m.args = []string{"--domain", "/etc -/home"}
	_, sources, err := m.spec(t).ForDomain(mounted())
	require.NoError(t, err)
	require.Equal(t, []string{"/etc"}, sources, "the flag adds to the file, and an exclusion wins")

	for _, text := range []string{"DOMAIN relative", "DOMAIN C:", "DOMAIN /home SYSTEMSTATE", "DOMAIN ALL-NFS", "DOMAIN",
		"DOMAIN '"} {
		_, _, err := file(text + "\n").resolve(t)
		require.ErrorContains(t, err, "tidemark.opt:1", text)
	}
	_, _, err = file("DOMAIN /home -/home\n").spec(t).ForDomain(mounted())
	require.ErrorContains(t, err, "no file system is left to back up")
	require.ErrorContains(t, err, "tidemark.opt:1")
	_, warnings, err := file("DOMAIN.IMAGE /db -/home\n").resolve(t)
	require.NoError(t, err)
	require.Contains(t, warnings[0].String(), "name the file systems in DOMAIN")
	require.Equal(t, []string{AllLocal}, file("").spec(t).WithDefault("domain", AllLocal).Domain())
	require.Equal(t, []string{"/home"}, file("DOMAIN /home").spec(t).WithDefault("domain", AllLocal).Domain())
	for text, want := range map[string][]string{"": nil, "DOMAIN /home -/tmp": nil,
		"DOMAIN -/tmp": {"-/tmp"}, "DOMAIN /home all-local": {"/home", "all-local"}} {
		require.Equal(t, want, file(text+"\n").spec(t).FoundBy(), text)
	}
}

// A backup of a domain stays on its file systems, and leaves out what the domain leaves out. One with a path does not.
func TestRulesOfADomain(t *testing.T) {
	spec := file("DOMAIN ALL-LOCAL -/tmp -/home/a[b]*'\"c\n").spec(t)
	other, _, err := spec.ForDomain(mounted())
	require.NoError(t, err)
	set, _, err := other.Rules(os.ReadFile, machine{}.lookup)
	require.NoError(t, err)
	for path, want := range map[string]rules.Verdict{"/home": rules.Include, "/run/media/disk": rules.Include,
		"/run": rules.Include, "/mnt/nas": rules.NotEntered, "/tmp": rules.NotEntered} {
		require.Equal(t, want, set.Mount(path, false), path)
	}
	for path, want := range map[string]rules.Verdict{"/tmp": rules.Exclude, "/tmpx": rules.Include,
		`/home/a[b]*'"c`: rules.Exclude,
		`/home/ab*'"c`:   rules.Include, `/home/a[b]xx'"c`: rules.Include} {
		require.Equal(t, want, set.Explain(rules.Query{Path: path, Type: tree.Dir}).Verdict, path)
	}
	plain, _, err := spec.Rules(os.ReadFile, machine{}.lookup)
	require.NoError(t, err)
	require.Equal(t, rules.Include, plain.Mount("/mnt/nas", false))
	require.Equal(t, rules.Include, plain.Explain(rules.Query{Path: "/tmp", Type: tree.Dir}).Verdict)
}

func TestWarningsAreOneLine(t *testing.T) {
	spec, warnings, err := file("NODENAME x\nTCPPORT 1\nCOMMMETHOD tcpip\nNODENAME y\nEXCLUDE /a/* KEEP\nEXCLUDE " +
		"/b/* KEEP\n" +
		"EXCLUDE.ARCHIVE /c\n").resolve(t)
	require.NoError(t, err)
	require.Equal(t, []Warning{{Origin: "/etc/tidemark/tidemark.opt", Once: true,
		Text: "4 options have no meaning here and are ignored: NODENAME (line 1), NODENAME (line 4); TCPPORT (line 2), " +
			"COMMMETHOD (line 3): name the place of the repository with REPOSITORY"}}, warnings)
	_, warnings, err = spec.Rules(os.ReadFile, machine{}.lookup)
	require.NoError(t, err)
	require.Equal(t, []Warning{{Origin: "include and exclude statements",
		Text: `"KEEP" after the pattern has no meaning here ` +
			"(/etc/tidemark/tidemark.opt:5 and 1 more), EXCLUDE.ARCHIVE has no meaning here (/etc/tidemark/tidemark.opt:7)"}},
		warnings)
}

// A dsm.opt names the stanza of the dsm.sys beside it, and its own lines come after those.
func TestSystemFileBesideTheUsersFile(t *testing.T) {
	m := machine{args: []string{"--option-file", "/etc/adsm/dsm.opt"}, files: map[string]string{
		"/etc/adsm/dsm.opt": "SERVERNAME two\nDOMAIN /home\nSCANNERS 3\n",
		"/etc/adsm/dsm.sys": "SERVERNAME one\n READERS 9\nSERVERNAME two\n READERS 5\n SCANNERS 7\n EXCLUDE /a/*\n",
	}}
	spec, warnings, err := m.resolve(t)
	require.NoError(t, err)
	require.Empty(t, warnings)
	w := spec.Parallel(1, Media{}).Workers
	require.Equal(t, [2]int{5, 3}, [2]int{w.Readers, w.Scanners})
	require.Equal(t, []string{"/home"}, spec.Domain())
	_, origin := row(t, spec, "readers")
	require.Equal(t, "/etc/adsm/dsm.sys:4", origin)
	subdir, dateFormat, replace := spec.Client()
	require.Equal(t, []any{false, "", ""}, []any{subdir, dateFormat, replace})

	m.files["/etc/adsm/dsm.opt"] += "NODENAME x\nTIMEFORMAT 3\nDATEFORMAT 3\nSUBDIR YES\nREPL NO\n"
	m.files["/etc/adsm/dsm.sys"] += " TCPPORT 1\n"
	_, warnings, err = m.resolve(t)
	require.NoError(t, err)
	require.Equal(t, []Warning{{Origin: "/etc/adsm/dsm.sys:7", Once: true,
		Text: "TCPPORT has no meaning here and is ignored: name the place of the repository with REPOSITORY"},
		{Origin: "/etc/adsm/dsm.opt", Once: true,
			Text: "2 options have no meaning here and are ignored: NODENAME (line 4), TIMEFORMAT (line 5)"}}, warnings)
	subdir, dateFormat, replace = m.spec(t).Client()
	require.Equal(t, []any{true, "3", "NO"}, []any{subdir, dateFormat, replace})

	m.args = append(m.args, "--server-name", "one")
	require.Equal(t, 9, m.spec(t).Parallel(1, Media{}).Workers.Readers, "the flag names the stanza of dsm.sys")
	m.args[3] = "three"
	_, _, err = m.resolve(t)
	require.ErrorContains(t, err, "/etc/adsm/dsm.sys has no SERVERNAME three, only ")

	m.args = m.args[:2]
	m.files["/etc/adsm/dsm.sys"] = "SERVERNAME one\n READERS 9\n"
	m.files["/etc/adsm/dsm.opt"] = "SERVERNAME two\nDOMAIN /home\n"
	_, warnings, err = m.resolve(t)
	require.NoError(t, err)
	require.Equal(t, []Warning{{Origin: "/etc/adsm/dsm.sys", Text: "it has no SERVERNAME two and is not used"}}, warnings)
	m.files["/etc/adsm/dsm.sys"] = "READERS many\nX=1\n"
	_, _, err = m.resolve(t)
	require.ErrorContains(t, err, "dsm.sys:2")
}
