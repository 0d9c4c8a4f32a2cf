package job

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
)

func noFile(string) ([]byte, error) { return nil, fs.ErrNotExist }
func noEnv(string) (string, bool)   { return "", false }
func editor(content string) *Editor { return &Editor{"/x.opt", []byte(content), noEnv, noFile} }
func opens(content string) ([]*Job, error) {
	return Load("/x.opt", []byte(content), noEnv, noFile)
}

const two = `* for all
REPOSITORY /mnt/disk/backup
KEEPSNAPSHOTS time-machine

SERVERNAME home
   SCHEDULE hourly
   DOMAIN /home -/home/tmp
* about the next
SERVERNAME nas
   SCHEDULE "daily 02:30"
   DOMAIN /srv "/my data"
   REPOSITORY smb://me@nas/backup

SERVERNAME byhand
   DOMAIN /etc
`

func TestLoad(t *testing.T) {
	jobs, err := opens(two)
	require.NoError(t, err)
	require.Len(t, jobs, 2, "a stanza without a schedule is no job")
	home, nas := jobs[0], jobs[1]
	require.Equal(t, []string{"home", "home", "/x.opt", "/mnt/disk/backup"},
		[]string{home.Name, home.Server, home.File, home.Repository})
	require.Equal(t, []string{"/home"}, home.Sources)
	require.Equal(t, "hourly", home.Schedule.String())
	require.Equal(t, "time-machine", home.Spec.Job().Keep, "lines before the first stanza apply to all")
	require.Equal(t, "smb://me@nas/backup", nas.Repository)
	require.Equal(t, []string{"/my data", "/srv"}, nas.Sources)
	require.Equal(t, "daily 02:30", nas.Schedule.String())

	jobs, err = opens("SCHEDULE never\nREPOSITORY /r\nDOMAIN /home\n")
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	require.Equal(t, Default, jobs[0].Name)
	require.Empty(t, jobs[0].Server)

	jobs, err = opens("REPOSITORY /r\n")
	require.NoError(t, err)
	require.Empty(t, jobs)
}

// TestLoadListsEveryMistake has one mistake in each job.
func TestLoadListsEveryMistake(t *testing.T) {
	const good = "\nDOMAIN /a\nREPOSITORY /r\nSCHEDULE hourly\n"
	_, err := opens("SERVERNAME a" + good + "SCHEDULE often\nSERVERNAME b" + good + "KEEPSNAPSHOTS most\n" +
		"SERVERNAME c" + good + "QUIETHOURS 9-17\nSERVERNAME d" + good + "ONBATTERY 5\n" +
		"SERVERNAME e\nSCHEDULE hourly\nDOMAIN /x\nSERVERNAME f\nSCHEDULE hourly\nREPOSITORY /r\nSERVERNAME A" + good +
		"SERVERNAME \"g h\"" + good + "SERVERNAME i" + good + "POLICY fast\n")
	for _, want := range []string{"job a: invalid schedule", "job b: invalid policy", "job c: invalid quiet hours",
		"job d: invalid value of on-battery",
		"job e: incomplete job: it has no repository: add a line such as 'REPOSITORY",
		"job f: incomplete job: it has no sources: add a line such as 'DOMAIN", `there are several jobs "A"`,
		`invalid name of a job "g h"`, "job i: read options", `"fast" is none of`} {
		require.ErrorContains(t, err, want)
	}
	_, err = opens("SERVERNAME a\nNOSUCHWORD 1\n")
	require.ErrorContains(t, err, "/x.opt:2")
}

func TestOneMistakeConcernsOneJob(t *testing.T) {
	const good = "DOMAIN /a\nREPOSITORY /r\nSCHEDULE hourly\n"
	for text, want := range map[string]string{
		"SERVERNAME a\n" + good + "SERVERNAME b\n" + good + "BOGUS 1\n":                      "a; b /x.opt:9",
		"SERVERNAME a\n" + good + "SERVERNAME b\n" + good + "SCHEDULE often\n":               "a; b /x.opt:5",
		"SERVERNAME b\nSHEDULE hourly\nSERVERNAME a\n" + good:                                "a; b /x.opt:2",
		"SERVERNAME b\n" + good + "SERVERNAME B\n" + good + "SERVERNAME a\n" + good:          "a; b /x.opt:5",
		"SERVERNAME b\n" + good + "KEEPSNAPSHOTS 'last 1'\nSERVERNAME c\n" + good:            "; b , c ",
		"SERVERNAME b\n" + good + "SERVERNAME\nDOMAIN /x\n":                                  "b; in line 5 /x.opt:5",
		"SERVERNAME a\n" + good + "SERVERNAME b\nBOGUS 1\nSERVERNAME c\n" + good + "FOO 1\n": "a; b /x.opt:6, c /x.opt:11",
	} {
		jobs, invalid, err := LoadValid("/x.opt", []byte(text), noEnv, noFile)
		require.NoError(t, err)
		var names, mistakes []string
		for _, j := range jobs {
			names = append(names, j.Name)
			_, err := resolve("/x.opt", j.Content, j.Server, noEnv, noFile)
			require.NoError(t, err, "a step reads the same content")
		}
		for _, i := range invalid {
			mistakes = append(mistakes, i.Name+" "+regexp.MustCompile(`/x.opt:\d+`).FindString(i.Err.Error()))
		}
		slices.Sort(mistakes)
		require.Equal(t, want, strings.Join(names, " ")+"; "+strings.Join(mistakes, ", "), text)
	}
	_, _, err := LoadValid("/x.opt", []byte("BOGUS 1\nSERVERNAME a\n"+good), noEnv, noFile)
	require.ErrorContains(t, err, "/x.opt:1", "it concerns all jobs")
}

// An option file that is cut off at any byte gives no job with other places than those it has in the whole file.
func TestACutOptionFileGivesNoWrongJob(t *testing.T) {
	const text = "POLICY throttle\nSERVERNAME home\nREPOSITORY /mnt/disk/backup\nDOMAIN /home /srv\nSCHEDULE hourly\n" +
		"KEEPSNAPSHOTS time-machine\nSERVERNAME nas\nSCHEDULE \"daily 02:30\"\nDOMAIN /srv \"/my data\"\n" +
		"REPOSITORY smb://me@nas/backup\nEXCLUDEPATTERN *.o\n"
	want, err := opens(text)
	require.NoError(t, err)
	valid := 0
	for n := range len(text) {
		content := []byte(text)[:n]
		read := func(string) ([]byte, error) { return content, nil }
		jobs, _, err := LoadFile("/x.opt", noEnv, read)
		if n > 0 && content[n-1] != '\n' {
			require.ErrorIs(t, err, ErrUnfinished, "%d bytes", n)
			continue
		}
		require.NoError(t, err)
		for _, j := range jobs {
			valid++
			i := slices.IndexFunc(want, func(w *Job) bool { return w.Name == j.Name })
			require.GreaterOrEqual(t, i, 0)
			require.Equal(t, want[i].Sources, j.Sources, "%d bytes", n)
			require.Equal(t, want[i].Repository, j.Repository, "%d bytes", n)
			require.Equal(t, want[i].Schedule.String(), j.Schedule.String(), "%d bytes", n)
		}
	}
	require.NotZero(t, valid)
}

func TestFind(t *testing.T) {
	jobs, err := opens(two)
	require.NoError(t, err)
	j, err := Find(jobs, "NAS")
	require.NoError(t, err)
	require.Equal(t, "nas", j.Name)
	_, err = Find(jobs, "x")
	require.ErrorContains(t, err, "there are home, nas")
	_, err = Find(nil, "x")
	require.ErrorContains(t, err, "tidemark job add")
}

func set(keyword, value string) options.FileLine {
	return options.FileLine{Keyword: keyword, Values: []string{value}}
}

// etc is the line DOMAIN /etc.
func etc() options.FileLine {
	return options.FileLine{Keyword: "DOMAIN", Values: []string{"/etc"}, List: true}
}

func TestAddChangeRemoveKeepOtherLines(t *testing.T) {
	f, err := editor(two).Add("etc", []options.FileLine{set("SCHEDULE", "weekly sun 03:00"), etc()})
	require.NoError(t, err)
	require.Equal(t, two+"\nSERVERNAME etc\nSCHEDULE \"weekly sun 03:00\"\nDOMAIN /etc\n", string(f.New))
	require.Equal(t, two, string(f.Content), "what is there is compared before it is replaced")

	f, err = editor(string(f.New)).Remove("ETC")
	require.NoError(t, err)
	require.Equal(t, two+"\n", string(f.New))

	_, err = editor(two).Change("home", nil, []string{"domain"})
	require.ErrorContains(t, err, "it has no sources")

	f, err = editor(two).Change("home", []options.FileLine{set("SCHEDULE", "never"), set("KEEPSNAPSHOTS", "all")}, nil)
	require.NoError(t, err)
	require.Equal(t, `* for all
REPOSITORY /mnt/disk/backup
KEEPSNAPSHOTS time-machine

SERVERNAME home
   SCHEDULE never
   DOMAIN /home -/home/tmp
KEEPSNAPSHOTS all
* about the next
`+two[strings.Index(two, "SERVERNAME nas"):], string(f.New))

	f, err = editor(two).Remove("home")
	require.NoError(t, err)
	require.NotContains(t, string(f.New), "home")
	require.Contains(t, string(f.New), "KEEPSNAPSHOTS time-machine\n\n* about the next\nSERVERNAME nas\n")
}

func TestEditRefuses(t *testing.T) {
	type edited = func(e *Editor) (*optionfile.File, error)
	add := func(name string) edited { return func(e *Editor) (*optionfile.File, error) { return e.Add(name, nil) } }
	unset := func(name, word string) edited {
		return func(e *Editor) (*optionfile.File, error) { return e.Change(name, nil, []string{word}) }
	}
	schedule := func(e *Editor) (*optionfile.File, error) {
		return e.Change("nas", []options.FileLine{set("SCHEDULE", "x")}, nil)
	}
	for what, c := range map[string]struct {
		do   edited
		want error
	}{
		"a name with a blank":   {add("a b"), ErrName},
		"a name that is there":  {add("HOME"), ErrExists},
		"no schedule":           {add("x"), ErrIncomplete},
		"a wrong schedule":      {schedule, ErrSchedule},
		"no such job":           {unset("x", "domain"), ErrNoJob},
		"no job to remove":      {func(e *Editor) (*optionfile.File, error) { return e.Remove("x") }, ErrNoJob},
		"an unknown keyword":    {unset("nas", "frob"), options.ErrValue},
		"a line of all jobs":    {unset("nas", "keep"), options.ErrValue},
		"a schedule is removed": {unset("nas", "schedule"), ErrIncomplete},
	} {
		_, err := c.do(editor(two))
		require.ErrorIs(t, err, c.want, what)
	}
	_, err := editor("DEFAULTSERVER home\n" + two).Remove("home")
	require.ErrorContains(t, err, "change or remove that line first")
}

// The lines of a file without stanzas must not apply to a second job too.
func TestAddDividesFile(t *testing.T) {
	const one = "* mine\nREPOSITORY /r\nDOMAIN /home\nSCHEDULE hourly\n"
	f, err := editor(one).Add("etc", []options.FileLine{set("SCHEDULE", "never"), set("REPOSITORY", "/q"), etc()})
	require.NoError(t, err)
	jobs, err := opens(string(f.New))
	require.NoError(t, err)
	require.Len(t, jobs, 2)
	require.Equal(t, []string{Default, "/r", "etc", "/q"},
		[]string{jobs[0].Name, jobs[0].Repository, jobs[1].Name, jobs[1].Repository})
	require.Equal(t, [][]string{{"/home"}, {"/etc"}}, [][]string{jobs[0].Sources, jobs[1].Sources})

	f, err = editor(one).Remove(Default)
	require.NoError(t, err)
	require.Equal(t, "* mine\nREPOSITORY /r\nDOMAIN /home\n", string(f.New))
	_, err = editor(one).Change(Default, nil, []string{"domain"})
	require.ErrorContains(t, err, "it has no sources")
	f, err = editor(one).Change(Default, []options.FileLine{set("SCHEDULE", "never")}, nil)
	require.NoError(t, err)
	require.Equal(t, "* mine\nREPOSITORY /r\nDOMAIN /home\nSCHEDULE never\n", string(f.New))
}

func TestJobsThatWouldRemoveEachOthersSnapshots(t *testing.T) {
	text := "SERVERNAME a\nSCHEDULE hourly\nDOMAIN /a\nREPOSITORY /r\nKEEPSNAPSHOTS all\nSERVERNAME b\nSCHEDULE " +
		"daily 02:30\n" +
		"DOMAIN /a\nREPOSITORY /r\nKEEPSNAPSHOTS time-machine\n"
	text = strings.Replace(text, "daily 02:30", "never", 1)
	_, err := Load("/opt", []byte(text), noEnv, noFile)
	require.ErrorContains(t, err, "jobs in conflict")
	require.ErrorContains(t, err, "a and b")
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(dir+"/r", 0o700))
	require.NoError(t, os.Symlink("r", dir+"/link"))
	for _, pair := range [][2]string{{dir + "/r", dir + "/link"}, {"smb://h/s/x", "SMB://H/s/x"}} {
		named := strings.Replace(text, "REPOSITORY /r", "REPOSITORY "+pair[0], 1)
		_, err := Load("/opt", []byte(strings.Replace(named, "REPOSITORY /r\n", "REPOSITORY "+pair[1]+"\n", 1)),
			noEnv, noFile)
		require.ErrorContains(t, err, "jobs in conflict", pair[1])
	}
	same := strings.Replace(text, "KEEPSNAPSHOTS all", "KEEPSNAPSHOTS \"last 3\"", 1)
	for _, other := range []string{strings.Replace(same, "time-machine", "\"last  3\"", 1),
		strings.Replace(text, "KEEPSNAPSHOTS all", "KEEPSNAPSHOTS time-machine", 1),
		strings.Replace(text, "DOMAIN /a", "DOMAIN /b", 1), strings.Replace(text, "REPOSITORY /r", "REPOSITORY /q", 1)} {
		_, err := Load("/opt", []byte(other), noEnv, noFile)
		require.NoError(t, err)
	}
}

func TestAddressesOfNotifications(t *testing.T) {
	for line, valid := range map[string]bool{
		"HEALTHCHECK https://hc.example.org/x": true, "NOTIFYWEBHOOK http://127.0.0.1:1/": true,
		"METRICSLISTEN foo": false, "METRICSLISTEN unix:rel": false, "METRICSLISTEN :9712": true,
		"METRICSLISTEN unix:/run/x": true,
		"MAILSERVER mail:99999":     false, "MAILSERVER mail:587": true, "MAILSERVER mail": true,
		"NOTIFYMAIL \"x@y, z\"":     false,
		"NOTIFYMAIL me@example.org": true, "NOTIFYMAIL root": false, "METRICSFILE rel.prom": false,
		"HEALTHCHECK x": false, "HEALTHCHECK file:///etc/passwd": false, "NOTIFYWEBHOOK ftp://x/y": false,
		"NOTIFYWEBHOOK http://": false,
	} {
		_, err := Load("/opt", []byte("SCHEDULE hourly\nDOMAIN /a\nREPOSITORY /r\n"+line+"\n"), noEnv, noFile)
		require.Equal(t, valid, err == nil, "%s: %v", line, err)
	}
}

func TestStanzasWithOneNameAreNotEdited(t *testing.T) {
	e := editor("SERVERNAME Home\nSCHEDULE hourly\nDOMAIN /a\nREPOSITORY /r\nSERVERNAME HOME\nSCHEDULE never\n")
	_, err := e.Remove("home")
	require.ErrorIs(t, err, ErrName)
	require.ErrorContains(t, err, "lines 1 and 5")
	_, err = e.Change("home", nil, []string{"SCHEDULE"})
	require.ErrorIs(t, err, ErrName)
}

func TestEachRepositoryOfAJobIsAJob(t *testing.T) {
	const text = `SERVERNAME home
   SCHEDULE hourly
   DOMAIN /home
   REPOSITORY LABEL=Blue/backup
   ROTATE LABEL=Red/backup
   ROTATE UUID=5EFA-01C7/b
   ROTATE smb://me@nas/backup
`
	jobs, err := opens(text)
	require.NoError(t, err)
	var names, places []string
	for _, j := range jobs {
		names, places = append(names, j.Name), append(places, j.Repository)
		require.Equal(t, "home", j.Group)
		require.Equal(t, "home", j.Stanza())
		require.Equal(t, "home", j.Server)
	}
	require.Equal(t, []string{"home@Blue", "home@Red", "home@3", "home@4"}, names)
	require.Equal(t, []string{"LABEL=Blue/backup", "LABEL=Red/backup", "UUID=5EFA-01C7/b", "smb://me@nas/backup"}, places)
	one, err := Find(jobs, "Home")
	require.NoError(t, err)
	require.Equal(t, "home@Blue", one.Name)

	for line, want := range map[string]string{
		"ROTATE LABEL=Blue/backup": "named twice", "ROTATE disk/backup": "write an absolute path",
		"ROTATE LABEL=x": "such as",
	} {
		_, err := opens(text + "   " + line + "\n")
		require.ErrorContains(t, err, want, line)
		require.ErrorContains(t, err, "opt:8: ", line)
	}
}

// COPYTO makes a second job of a stanza, with the same sources and schedule.
func TestAJobThatCopies(t *testing.T) {
	const home = "SERVERNAME home\nSCHEDULE hourly\nDOMAIN /home\nREPOSITORY /mnt/one\nKEEPSNAPSHOTS time-machine\n"
	jobs, err := opens(home + "COPYTO smb://me@nas/two\nCOPYKEEPSNAPSHOTS \"last 2\"\n")
	require.NoError(t, err)
	require.Len(t, jobs, 2)
	first, copies := jobs[0], jobs[1]
	require.Equal(t, []string{"home", "", "home", "/mnt/one", "time-machine"},
		[]string{first.Name, first.Group, first.Server, first.Repository, first.Spec.Job().Keep})
	require.Equal(t, []string{"home@copy", "home", "home@copy", "smb://me@nas/two", "last 2"},
		[]string{copies.Name, copies.Group, copies.Server, copies.Repository, copies.Spec.Job().Keep})
	require.True(t, copies.Copies)
	require.False(t, first.Copies)
	require.Equal(t, first.Sources, copies.Sources)
	require.Equal(t, "hourly", copies.Schedule.String())
	require.Equal(t, "home", copies.Stanza())

	jobs, err = opens("SCHEDULE never\nREPOSITORY /r\nDOMAIN /home\nCOPYTO /second\n")
	require.NoError(t, err)
	require.Equal(t, []string{"default@copy", options.CopySuffix}, []string{jobs[1].Name, jobs[1].Server})

	for line, text := range map[string]string{ // the line of the file, and what is wrong with it
		"COPYTO disk/two":                              "opt:6: COPYTO disk/two: write an absolute path",
		"COPYTO /mnt/one":                              "opt:6: COPYTO /mnt/one: that is the repository of the job itself",
		"COPYTO /two\nROTATE /mnt/more":                "opt:6: COPYTO and ROTATE do not go together",
		"COPYTO /two\nCOPYKEEPSNAPSHOTS \"last none\"": "opt:7: COPYKEEPSNAPSHOTS",
	} {
		_, err := opens(home + line + "\n")
		require.ErrorContains(t, err, text)
	}
}
