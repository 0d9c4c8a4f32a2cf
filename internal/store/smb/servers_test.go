package smb_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// box is a server as people have it, and how this side is set.
type box struct {
	server    smbtest.Config
	options   smb.Options
	encrypted bool // nothing of a file may be seen on the way
}

func TestEncryptionAndSigning(t *testing.T) {
	t.Parallel()
	try(t, map[string]box{
		"SMB 3.00 only, encryption on this side": {
			smbtest.Config{Global: []string{"server max protocol = SMB3_00", "server min protocol = SMB3_00"}},
			smb.Options{Protection: smb.Encrypted}, true,
		},
		"SMB 3.1.1 only, encryption required": {
			smbtest.Config{Global: []string{"server min protocol = SMB3_11", "server smb encrypt = required"}},
			smb.Options{}, true,
		},
		"share encrypted": {smbtest.Config{Share: []string{"server smb encrypt = required"}}, smb.Options{}, true},
		"share encrypted, and required on this side": {
			smbtest.Config{Share: []string{"server smb encrypt = required"}}, smb.Options{Protection: smb.Encrypted}, true,
		},
		"as it comes, encrypted":       {encrypted: true},
		"SMB 3.00, as it comes":        {server: smbtest.Config{Global: []string{"server max protocol = SMB3_00"}}},
		"SMB 2.02, as it comes":        {server: smbtest.Config{Global: []string{"server max protocol = SMB2_02"}}},
		"no encryption, no signatures": {options: smb.Options{Protection: smb.AsOffered}},
		"encryption on this side":      {smbtest.Config{}, smb.Options{Protection: smb.Encrypted}, true},
		"signing mandatory": {server: smbtest.Config{Global: []string{"server signing = mandatory"}},
			options: smb.Options{Protection: smb.Signed}},
		"signing on this side": {options: smb.Options{Protection: smb.Signed}},
		"SMB 2.10, signing on this side": {
			smbtest.Config{Global: []string{"server max protocol = SMB2_10"}}, smb.Options{Protection: smb.Signed}, false,
		},
	})
}

func TestDialectsAndSettingsOfRealBoxes(t *testing.T) {
	t.Parallel()
	try(t, map[string]box{
		"SMB 2.02 only":       {server: smbtest.Config{Global: []string{"server max protocol = SMB2_02"}}},
		"SMB 2.10 only":       {server: smbtest.Config{Global: []string{"server max protocol = SMB2_10"}}},
		"case sensitive = no": {server: smbtest.Config{Share: []string{"case sensitive = no"}}, encrypted: true},
		"upper case": {server: smbtest.Config{Share: []string{"case sensitive = no", "preserve case = no",
			"default case = upper"}}, encrypted: true},
		"fruit, as for Time Machine": {server: smbtest.Config{
			Global: []string{"fruit:aapl = yes"},
			Share: []string{
				"vfs objects = fruit streams_xattr", "fruit:metadata = stream", "fruit:time machine = yes", "fruit:model " +
					"= MacSamba",
				"fruit:posix_rename = yes", "fruit:veto_appledouble = no", "fruit:nfs_aces = " +
					"no", "fruit:wipe_intentionally_left_blank_rfork = yes",
			},
		}, encrypted: true},
		"names mangled": {server: smbtest.Config{Share: []string{"mangled names = yes", "mangling method = hash2"}},
			options: smb.Options{Protection: smb.AsOffered}},
		"few credits": {server: smbtest.Config{Global: []string{"smb2 max credits = 16", "smb2 max write = 65536",
			"smb2 max read = 65536"}}, encrypted: true},
	})
}

// try has each of the servers do all that a repository needs.
func try(t *testing.T, boxes map[string]box) {
	t.Helper()
	for name, c := range boxes {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "fruit") {
				smbtest.NeedModule(t, "fruit")
			}
			s := smbtest.Start(t, c.server)
			p := smbtest.NewProxy(t, s.Addr(), 0)
			marker := []byte("this must not be seen by others on the way")
			var seen atomic.Bool
			p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
				if bytes.Contains(f.Data, marker) {
					seen.Store(true)
				}
				return smbtest.Pass
			})
			at := through(p, s)
			at.Path = "Home Backups/tidemark"
			c.options.Verify = smb.VerifyFull
			st := create(t, at, c.options)
			data := append(storetest.Pattern(3<<20+77, 1), marker...)
			require.NoError(t, st.Put(t.Context(), pack(1), data))
			require.NoError(t, st.Put(t.Context(), pack(1), data), "replaced")
			for _, name := range storetest.Names() {
				require.NoError(t, st.Put(t.Context(), name, data[:1000]))
				require.NoError(t, st.Put(t.Context(), name, data[:999]))
				info, err := st.Stat(t.Context(), name)
				require.NoError(t, err)
				require.EqualValues(t, 999, info.Size)
			}
			got := make([]byte, len(data))
			require.NoError(t, st.Get(t.Context(), pack(1), 0, got))
			require.True(t, bytes.Equal(data, got))
			n := 0
			for info, err := range st.List(t.Context(), store.Pack) {
				require.NoError(t, err)
				require.NoError(t, st.Delete(t.Context(), info.Name))
				n++
			}
			require.Equal(t, 2, n)
			require.Equal(t, c.encrypted, !seen.Load(), "seen on the way: %v", seen.Load())
		})
	}
}

// TestEncryptionThatCannotBe: rather nothing than in clear.
func TestEncryptionThatCannotBe(t *testing.T) {
	for _, line := range []string{"server max protocol = SMB2_10", "server smb encrypt = off"} {
		s := smbtest.Start(t, smbtest.Config{Global: []string{line}})
		_, err := smb.Open(t.Context(), target(s, ""), smb.Options{
			Credentials: password(smbtest.Password), Protection: smb.Encrypted,
		})
		require.ErrorIs(t, err, smb.ErrInsecure, line)
		require.ErrorContains(t, err, "--smb-encrypt")
	}
}

// TestTargetGoesAway: what a NAS shows when its disk is missing is not an empty repository.
func TestTargetGoesAway(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	st := create(t, target(s, "repo"), smb.Options{Patience: smb.Patience{Outage: -1}})
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Config}, []byte("c")))
	require.NoError(t, st.Put(t.Context(), pack(1), []byte("x")))
	root, away := filepath.Join(s.Folder, "repo"), filepath.Join(s.Folder, "away")
	for _, empty := range []bool{false, true} {
		require.NoError(t, os.Rename(root, away))
		if empty {
			require.NoError(t, os.Mkdir(root, 0o700))
		}
		require.ErrorIs(t, st.Put(t.Context(), pack(2), []byte("x")), store.ErrGone)
		require.ErrorIs(t, st.Get(t.Context(), pack(1), 0, make([]byte, 1)), store.ErrGone)
		require.ErrorIs(t, st.Delete(t.Context(), pack(1)), store.ErrGone)
		_, err := st.Stat(t.Context(), pack(1))
		require.ErrorIs(t, err, store.ErrGone)
		for _, err := range st.List(t.Context(), store.Pack) {
			require.ErrorIs(t, err, store.ErrGone)
		}
		if empty {
			entries, err := os.ReadDir(root)
			require.NoError(t, err)
			require.Empty(t, entries, "nothing is written where the disk is missing")
			require.NoError(t, os.Remove(root))
		}
		require.NoError(t, os.Rename(away, root))
		require.NoError(t, st.Get(t.Context(), pack(1), 0, make([]byte, 1)), "it came back")
	}
	s.Configure(smbtest.Config{Share: []string{"available = no"}})
	s.Reload()
	err := st.Put(t.Context(), pack(2), []byte("x"))
	require.ErrorIs(t, err, store.ErrGone)
	require.ErrorContains(t, err, "no share")
}

// TestShareFolderIsMoved: the folder of the share is moved on the server while a store uses it. Samba denies access
// then.
func TestShareFolderIsMoved(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	st := create(t, target(s, ""), smb.Options{Patience: smb.Patience{Outage: -1}})
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Config}, []byte("c")))
	smb.Settle(st)
	require.NoError(t, os.Rename(s.Folder, s.Folder+".moved"))
	err := st.Put(t.Context(), pack(1), []byte("x"))
	require.ErrorIs(t, err, store.ErrGone)
	require.NotErrorIs(t, err, store.ErrDenied)
	require.ErrorContains(t, err, "is not at "+st.Location()+" any more")
	require.NoError(t, os.Rename(s.Folder+".moved", s.Folder))
	require.NoError(t, st.Put(t.Context(), pack(1), []byte("x")))
}

// TestServerDemandsEncryption: where there can be none, the advice is about that, and not about permissions alone.
func TestServerDemandsEncryption(t *testing.T) {
	const demand, old = "server smb encrypt = required", "server max protocol = SMB2_10"
	for name, c := range map[string]struct {
		server smbtest.Config
		user   string
		says   string
	}{
		"SMB 2.1": {smbtest.Config{Global: []string{demand, old}}, "", "let it offer SMB 3"},
		"SMB 2.1, by this share": {smbtest.Config{Global: []string{old}, Share: []string{demand}}, "",
			"let it offer SMB 3"},
		"guest": {smbtest.Config{Global: []string{demand, "map to guest = bad user", "guest account = " + me(t)}}, "guest",
			"name a user"},
	} {
		t.Run(name, func(t *testing.T) {
			s := smbtest.Start(t, c.server)
			to := target(s, "")
			to.User = cmp.Or(c.user, to.User)
			_, err := smb.Open(t.Context(), to,
				smb.Options{Protection: smb.AsOffered, Credentials: password(smbtest.Password)})
			require.ErrorContains(t, err, "the server demands encryption")
			require.ErrorContains(t, err, c.says)
		})
	}
}

// TestGate: in a window every request for data is as small as the gate allows, and each was admitted.
func TestGate(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	settings := iopolicy.DefaultSettings()
	settings.PeriodHDD[3] = time.Microsecond
	gate := iopolicy.New(iopolicy.Config{Name: "//nas/backup", Settings: settings})
	better, err := gate.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), iopolicy.Op{Certain: true})
	require.NoError(t, err) // on its way until the end of the test, so that the window stays open
	defer better.End(1)
	var largest, requests atomic.Int64
	p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if f.Is(smbtest.Write, true) || f.Is(smbtest.Read, false) {
			largest.Store(max(largest.Load(), int64(len(f.Data))))
			requests.Add(1)
		}
		return smbtest.Pass
	})
	st := create(t, through(p, s), smb.Options{
		Parallel: of(1), Protection: smb.Signed, Verify: smb.VerifyFull,
		Pass: gate.Pass(iopolicy.NewClient(iopolicy.Throttle)),
	})
	data := storetest.Pattern(3<<20, 1)
	require.NoError(t, st.Put(t.Context(), pack(1), data))
	got := make([]byte, len(data))
	require.NoError(t, st.Get(t.Context(), pack(1), 0, got))
	require.True(t, bytes.Equal(data, got))
	require.LessOrEqual(t, largest.Load(), int64(settings.MaxIOSize+256))
	require.Greater(t, gate.Stats().Operations, uint64(requests.Load()), "some requests did not pass the gate")

	gate.Shut()
	before := requests.Load()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- st.Put(ctx, pack(2), data) }()
	cancel(cause)
	require.ErrorIs(t, <-done, cause)
	require.Equal(t, before, requests.Load())
	gate.Open()
}

func TestStaleTemporaryFilesAreSwept(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	create(t, target(s, ""), smb.Options{})
	at := func(name string, age time.Duration) string {
		path := filepath.Join(s.Folder, name)
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		then := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(path, then, then))
		return path
	}
	stale := []string{at("tmp-tidemark-1", 48*time.Hour), at("packs/tmp-tidemark-2", 25*time.Hour)}
	kept := []string{at("packs/tmp-tidemark-3", time.Hour), at("mine", 48*time.Hour), at("index/photo.jpg", 48*time.Hour)}
	st := create(t, target(s, ""), smb.Options{})
	for _, path := range stale {
		require.FileExists(t, path, "opening must not write")
	}
	idle, mark := create(t, target(s, ""), smb.Options{}), store.Name{Kind: store.Mark, ID: "01"}
	require.NoError(t, idle.Put(t.Context(), mark, []byte("x")))
	require.NoError(t, idle.Delete(t.Context(), mark))
	require.NoError(t, idle.Close())
	require.FileExists(t, stale[0], "a run that stores no pack does not look for them")
	require.NoError(t, st.Put(t.Context(), pack(1), []byte("x")))
	for kind := range store.Kinds() {
		for info, err := range st.List(t.Context(), kind) {
			require.NoError(t, err)
			require.Equal(t, pack(1), info.Name, "a foreign file is listed")
		}
	}
	require.NoError(t, st.Close(), "only Close waits for the sweep")
	for _, path := range stale {
		require.NoFileExists(t, path)
	}
	for _, path := range kept {
		require.FileExists(t, path)
	}
}

// TestPlacesThatAreNone: what a person has named is no folder, or not complete.
func TestPlacesThatAreNone(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	require.NoError(t, os.WriteFile(filepath.Join(s.Folder, "file"), nil, 0o600))
	file := target(s, "file")
	opt := smb.Options{Credentials: password(smbtest.Password)}
	_, err := smb.Open(t.Context(), file, opt)
	require.ErrorContains(t, err, "/file is not a folder; name the one that holds the repository")
	for _, path := range []string{"file", "file/below"} {
		_, err = smb.Create(t.Context(), target(s, path), opt)
		require.ErrorContains(t, err, "there is a file at ")
		require.ErrorContains(t, err, "; choose another path")
	}
	_, err = smb.Open(t.Context(), smb.Target{Host: "nas", Share: "backup"}, smb.Options{})
	require.ErrorIs(t, err, smb.ErrTarget)
	require.ErrorContains(t, err, "name the user: smb://user@nas/... (guest, if the share is open to anybody)")
	_, err = smb.Open(t.Context(), smb.Target{Host: "nas"}, smb.Options{})
	require.ErrorContains(t, err, "host or share is missing")
	locked := errors.New("the key ring is locked: unlock it")
	opt.Credentials = func(context.Context) (smb.Secret, error) { return smb.Secret{}, locked }
	_, err = smb.Open(t.Context(), file, opt)
	require.ErrorIs(t, err, locked)
	require.ErrorContains(t, err, "get the password for 127.0.0.1")
}

// TestTempsOfKilledWritersAreRemoved: the temporary file of a writer that is alive stays, however old it is. When the
// connection of the writer has ended, the next Put of another removes it.
func TestTempsOfKilledWritersAreRemoved(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	writing := make(chan struct{})
	var once sync.Once
	st := create(t, through(p, s), smb.Options{Protection: smb.Signed, Parallel: of(1)})
	p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if !f.Is(smbtest.Write, true) {
			return smbtest.Pass
		}
		once.Do(func() { close(writing) })
		return smbtest.Drop
	})
	ctx, cancel := context.WithCancel(t.Context())
	var put sync.WaitGroup
	put.Go(func() { assert.Error(t, st.Put(ctx, pack(1), content(1))) })
	<-writing
	next := func(n int, age time.Duration) {
		for _, temp := range temps(t, s.Folder) {
			then := time.Now().Add(-age)
			require.NoError(t, os.Chtimes(temp, then, then))
		}
		other := create(t, target(s, ""), smb.Options{})
		require.NoError(t, other.Put(t.Context(), pack(n), content(n)))
		require.NoError(t, other.Close()) // waits for the sweep
	}
	next(2, 48*time.Hour)
	require.Len(t, temps(t, s.Folder), 1, "its writer is alive")
	p.Filter(func(*smbtest.Frame) smbtest.Verdict { return smbtest.Cut })
	p.CutAll()
	require.Eventually(t, func() bool {
		next(3, time.Hour)
		return len(temps(t, s.Folder)) == 0
	}, 20*time.Second, 100*time.Millisecond)
	cancel()
	put.Wait()
}

// TestTempRemovedBeforeItsName: a sweep of another program came just before the file got its name.
func TestTempRemovedBeforeItsName(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	st := create(t, through(p, s), smb.Options{Protection: smb.Signed})
	var once sync.Once
	removed := 0
	p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if f.IsRename() {
			once.Do(func() {
				for _, temp := range temps(t, s.Folder) {
					assert.NoError(t, os.Remove(temp))
					removed++
				}
			})
		}
		return smbtest.Pass
	})
	require.NoError(t, st.Put(t.Context(), pack(1), content(1)))
	require.Equal(t, 1, removed)
	got := make([]byte, len(content(1)))
	require.NoError(t, st.Get(t.Context(), pack(1), 0, got))
	require.True(t, bytes.Equal(content(1), got))
}

func TestParse(t *testing.T) {
	for address, want := range map[string]smb.Target{
		"smb://anna@nas/backup": {User: "anna", Host: "nas", Port: 445, Share: "backup"},
		"smb://nas/backup/":     {Host: "nas", Port: 445, Share: "backup"},
		"smb://WORK;anna@nas:4450/b/a/c": {Domain: "WORK", User: "anna", Host: "nas", Port: 4450, Share: "b",
			Path: "a/c"},
		"smb://a%40b@[fe80::1]/My%20Share/x%20": {},
		"smb://a%40b@[fe80::1]/My%20Share/x%20y": {
			User: "a@b", Host: "fe80::1", Port: 445, Share: "My Share", Path: "x y",
		},
		"smb://nas:4450/b/me%40home": {Host: "nas", Port: 4450, Share: "b", Path: "me@home"},
		"smb://anna@nas/b/me%40home": {User: "anna", Host: "nas", Port: 445, Share: "b", Path: "me@home"},
		"smb://anna@nas/b/me@home":   {}, // of two, the first could end a password
		"smb://anna@nas/b//c":        {User: "anna", Host: "nas", Port: 445, Share: "b", Path: "c"},
	} {
		got, err := smb.Parse(address)
		if want == (smb.Target{}) {
			require.ErrorIs(t, err, smb.ErrTarget, address)
			continue
		}
		require.NoError(t, err, address)
		require.Equal(t, want, got, address)
		again, err := smb.Parse(got.String())
		require.NoError(t, err, "%s", got)
		require.Equal(t, want, again)
	}
	for _, address := range []string{
		"", "nas", "/mnt/nas", "smb:/nas/x", "smb://", "smb://nas", "smb://nas/", "smb:///share", "smb://u@nas:0/s",
		"smb://u@nas:99999/s", "smb://u@nas:x/s", "smb://u@nas/s/../x", `smb://u@nas/s/a\b`, "smb://u@nas/s/a:b",
		"smb://u@nas/s?x",
		"smb://u@nas/s#x", "smb://u@nas/s/%00", "smb://u@nas/s/a.", "sftp://u@nas/s", "smb://u@na s/x",
	} {
		_, err := smb.Parse(address)
		require.ErrorIs(t, err, smb.ErrTarget, address)
	}
	for _, address := range []string{
		"smb://u:hunter2@nas/s", "smb://u:hunter2@nas:x/s", "smb://D;u:hunter2@nas/s", "smb://u:hunter2@/s",
		"smb://:hunter2@nas/s",
		"smb://u:hunt%zz@er2@nas/s", "smb://u:12/hunter2@nas/s", "smb://u:1/hunt/er2@nas/s", "smb://u/hunter2@nas/s",
		"smb://u@x:12/hunter2@nas/s", "smb://u%3ahunter2@nas/s", "smb://u%25hunter2@nas/s", "smb://D;u%3ahunter2@nas/s",
		"smb://nas:445/s/hunter2@x", "smb://u:@nas/hunter2", "smb://[u:hunter2@nas/s",
	} {
		_, err := smb.Parse(address)
		require.ErrorIs(t, err, smb.ErrTarget)
		require.ErrorContains(t, err, "--smb-password-file")
		require.NotContains(t, err.Error(), "hunt")
	}
}

func TestParseCredentials(t *testing.T) {
	for text, want := range map[string]smb.Secret{
		"":                                      {},
		"username=anna\npassword=p=w d \n":      {User: "anna", Password: "p=w d "},
		"user=anna\r\npass=x\r\ndom=WORK\r\n":   {User: "anna", Password: "x", Domain: "WORK"},
		"# words\n\n  username=WORK\\anna\n":    {User: "anna", Domain: "WORK"},
		"username=anna%geheim\n":                {User: "anna", Password: "geheim"},
		"USERNAME = anna":                       {User: " anna"},
		"domain=D\npassword=#not a comment\n\n": {Domain: "D", Password: "#not a comment"},
	} {
		got, err := smb.ParseCredentials(strings.NewReader(text))
		require.NoError(t, err, "%q", text)
		require.True(t, want == got, "%q", text)
	}
	for _, text := range []string{"hunter2", "username=a\nhunter2=x", "x\x00", strings.Repeat("hunter2", 100_000)} {
		_, err := smb.ParseCredentials(strings.NewReader(text))
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
