package sftp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/limit"
	"github.com/tidemark-backup/tidemark/internal/store/retry"
	"github.com/tidemark-backup/tidemark/internal/store/sftp"
	"github.com/tidemark-backup/tidemark/internal/test/sftptest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestEachFailureSaysWhatToDo has ssh and the server fail in the ways that people meet.
func TestEachFailureSaysWhatToDo(t *testing.T) {
	testkit.Slow(t)
	s := sftptest.Start(t)
	short, err := os.MkdirTemp("", "tm") // a socket's path has at most some 100 bytes
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	t.Setenv("TMPDIR", short)
	for name, c := range map[string]struct {
		before, after func()
		target        sftp.Target
		want          string
		kind          error
	}{
		"unknown host key": {before: func() { s.Know("") }, after: func() { s.Know("host") },
			want: "the host key of tidemark-test-server is not known", kind: store.ErrDenied},
		"changed host key": {before: func() { s.Know("other") }, after: func() { s.Know("host") },
			want: "the host key of tidemark-test-server has changed", kind: store.ErrDenied},
		"no key": {before: func() { s.Accept(false) }, after: func() { s.Accept(true) },
			want: "does not accept this user", kind: store.ErrDenied},
		"no key at a port": {before: func() { s.Accept(false) }, after: func() { s.Accept(true) },
			target: sftp.Target{User: "me", Host: s.Host, Port: s.Port()}, kind: store.ErrDenied,
			want: fmt.Sprintf("see that 'ssh -p %d me@tidemark-test-server' works", s.Port())},
		"no such host": {target: sftp.Target{Host: "no-such-host.invalid"}, want: "there is no host no-such-host.invalid",
			kind: store.ErrGone},
		"no server": {before: s.Kill, after: s.Run, want: "refuses connections", kind: store.ErrGone},
		"no SFTP": {before: func() { offer(s, false) }, after: func() { offer(s, true) },
			want: "has 'Subsystem sftp internal-sftp'", kind: store.ErrGone},
		"no folder": {target: sftp.Target{Host: s.Host, Path: s.Folder + "/none"}, want: "no such file",
			kind: store.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			if c.before != nil {
				c.before()
				defer c.after()
			}
			if c.target.Host == "" {
				c.target = sftp.Target{Host: s.Host}
			}
			if c.target.Path == "" {
				c.target.Path = s.Folder
			}
			t.Setenv("PATH", s.Bin+":/usr/bin:/bin")
			_, err := sftp.Open(t.Context(), c.target, sftp.Options{})
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, err, c.kind)
			require.NotErrorIs(t, err, store.ErrTemporary, "a mistake at the beginning is reported at once")
		})
	}
	left, err := filepath.Glob(filepath.Join(short, "tidemark-*", "s"))
	require.NoError(t, err)
	require.Empty(t, left, "a socket stayed")
}

// offer restarts a server with or without SFTP.
func offer(s *sftptest.Server, yes bool) {
	s.Kill()
	s.Offer(yes)
	s.Run()
}

// patient repeats as a run does, but sooner.
func patient(st store.Store) *retry.Store {
	return retry.Wrap(st, retry.Policy{Attempts: 12, First: 50 * time.Millisecond, Max: time.Second})
}

// TestARestartIsRiddenOut kills the server, with all its processes, before each operation.
func TestARestartIsRiddenOut(t *testing.T) {
	testkit.Slow(t)
	s := sftptest.Start(t)
	t.Setenv("PATH", s.Bin+":/usr/bin:/bin")
	st := patient(overSSH(t, s.Folder))
	name := storetest.Names()[2]
	data := storetest.Pattern(1<<20, 1)
	require.NoError(t, st.Put(t.Context(), name, data))
	for _, attack := range []struct {
		name string
		do   func(t *testing.T) error
	}{
		{"put", func(t *testing.T) error { return st.Put(t.Context(), storetest.Names()[3], data) }},
		{"get", func(t *testing.T) error {
			got := make([]byte, len(data))
			err := st.Get(t.Context(), name, 0, got)
			require.True(t, err != nil || bytes.Equal(data, got))
			return err
		}},
		{"put new", func(t *testing.T) error {
			_, err := st.PutNew(t.Context(), storetest.Names()[5], data)
			return err
		}},
		{"list", func(t *testing.T) error {
			for _, err := range st.List(t.Context(), store.Pack) {
				require.NoError(t, err)
			}
			return nil
		}},
		{"delete", func(t *testing.T) error { return st.Delete(t.Context(), name) }},
	} {
		t.Run(attack.name, func(t *testing.T) {
			s.Kill()
			back := make(chan struct{})
			time.AfterFunc(200*time.Millisecond, func() { // the outage
				defer close(back)
				s.Run()
			})
			err := attack.do(t)
			<-back
			require.NoError(t, err)
		})
	}
}

// TestACutInTheMiddleIsRiddenOut kills channels, and the server, while files are stored: each is there in the end, and
// none in part.
func TestACutInTheMiddleIsRiddenOut(t *testing.T) {
	testkit.Slow(t)
	s := sftptest.Start(t)
	t.Setenv("PATH", s.Bin+":/usr/bin:/bin")
	inner := overSSH(t, s.Folder)
	st := patient(inner)
	end := make(chan struct{})
	stopped := make(chan struct{})
	var killed atomic.Int64
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			case <-time.After(500 * time.Millisecond):
			}
			if i%4 == 3 {
				s.Kill()
				s.Run()
				killed.Add(1)
			}
			killed.Add(int64(inner.KillChannels()))
		}
	}()
	data := storetest.Pattern(2<<20, 7)
	names := make([]store.Name, 60)
	for i := range names {
		names[i] = store.Name{Kind: store.Pack, ID: string("0123456789abcdef"[i%16]) + string("0123456789abcdef"[i/16]) + "2"}
		require.NoError(t, st.Put(t.Context(), names[i], data))
	}
	for i := 0; killed.Load() < 3; i++ { // a quick machine needs more of them
		require.NoError(t, st.Put(t.Context(), names[i%len(names)], data))
	}
	close(end)
	<-stopped
	for _, name := range names {
		got := make([]byte, len(data))
		require.NoError(t, st.Get(t.Context(), name, 0, got))
		require.True(t, bytes.Equal(data, got))
		info, err := st.Stat(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, int64(len(data)), info.Size)
	}
	require.NoError(t, st.Put(t.Context(), names[0], data)) // removes what failed attempts have left
}

// TestTheRepositoryThatVanishesIsNotEmpty takes the folder away, as a disk of the server that is not mounted.
func TestTheRepositoryThatVanishesIsNotEmpty(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "repo")
	st := direct(t, folder)
	config, snapshot := storetest.Names()[0], storetest.Names()[4]
	require.NoError(t, st.Put(t.Context(), config, []byte("config")))
	require.NoError(t, st.Put(t.Context(), snapshot, []byte("snapshot")))
	_, err := st.Stat(t.Context(), snapshot)
	require.NoError(t, err)
	for range st.List(t.Context(), store.Mark) {
		require.Fail(t, "there is no mark")
	}
	require.NoError(t, os.Rename(folder, folder+".away"))
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "snapshots"), 0o700))
	var failed error
	for _, err := range st.List(t.Context(), store.Snapshot) {
		failed = err
	}
	require.ErrorIs(t, failed, store.ErrGone)
	require.ErrorIs(t, st.Get(t.Context(), snapshot, 0, make([]byte, 1)), store.ErrGone)
	require.ErrorIs(t, st.Delete(t.Context(), snapshot), store.ErrGone)
	require.ErrorIs(t, st.Put(t.Context(), store.Name{Kind: store.Index, ID: "1"}, []byte("x")), store.ErrGone)
	require.NoError(t, os.RemoveAll(folder))
	require.NoError(t, os.Rename(folder+".away", folder))
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "snapshots")))
	for _, err := range st.List(t.Context(), store.Snapshot) {
		failed = err
	}
	require.ErrorContains(t, failed, "the folder of the snapshots is missing")
}

// TestACancelledRunEndsSoon stops the server process, so that it answers nothing.
func TestACancelledRunEndsSoon(t *testing.T) {
	testkit.Slow(t)
	st := direct(t, t.TempDir())
	st.StopChannels()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("enough"))
	defer cancel()
	begin := time.Now()
	require.ErrorContains(t, st.Put(ctx, storetest.Names()[2], storetest.Pattern(8<<20, 1)), "enough")
	require.Less(t, time.Since(begin), 4*time.Second)
	for err := store.ErrTemporary; errors.Is(err, store.ErrTemporary); { // a channel that ends is an outage
		if err = st.Put(t.Context(), storetest.Names()[2], []byte("x")); !errors.Is(err, store.ErrTemporary) {
			require.NoError(t, err, "the next operation has a new channel")
		}
	}
}

// TestASilentServerIsReported stops the server process in the middle of an operation, for longer than a flush takes.
func TestASilentServerIsReported(t *testing.T) {
	testkit.Slow(t)
	said, back := make(chan string, 1), make(chan bool, 1)
	var began time.Time
	st, err := sftp.Create(t.Context(), sftp.Target{Host: "here", Path: t.TempDir()},
		sftp.Options{Silent: func(why string, since time.Time) { began = since; said <- why }, Back: func() { back <- true }}.
			Directly(sftptest.Program(t)))
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	st.StopChannels()
	stored := make(chan error, 1)
	begin := time.Now()
	go func() { stored <- st.Put(t.Context(), storetest.Names()[2], storetest.Pattern(8<<20, 1)) }()
	require.Equal(t, "here is silent", <-said)
	require.Greater(t, time.Since(begin), 5*time.Second)
	require.WithinDuration(t, begin, began, 2*time.Second)
	require.Empty(t, back)
	st.ContinueChannels()
	require.True(t, <-back)
	require.NoError(t, <-stored)
}

// TestAnUploadThatIsHeldIsNoSilence: a limit of the upload rate leaves no request without an answer.
func TestAnUploadThatIsHeldIsNoSilence(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	inner, err := sftp.Create(t.Context(), sftp.Target{Host: "here", Path: t.TempDir()},
		sftp.Options{Silent: func(why string, _ time.Time) { t.Error(why) }}.Directly(sftptest.Program(t)))
	require.NoError(t, err)
	defer func() { require.NoError(t, inner.Close()) }()
	st := limit.Wrap(inner, limit.New(500, 0))
	begin := time.Now()
	require.NoError(t, st.Put(t.Context(), storetest.Names()[2], storetest.Pattern(10_000, 1)))
	require.Greater(t, time.Since(begin), 7*time.Second)
}

// TestWithoutHardLinksANameIsStillTaken has the server refuse hard links.
func TestWithoutHardLinksANameIsStillTaken(t *testing.T) {
	st, err := sftp.Create(t.Context(), sftp.Target{Host: "here", Path: t.TempDir()},
		sftp.Options{}.Directly(sftptest.Without(t, "hardlink")))
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	l, err := st.Describe(t.Context())
	require.NoError(t, err)
	require.Contains(t, l.Durable+l.Remedy+l.Advice, "hard link")
	lease := storetest.Names()[5]
	_, err = st.PutNew(t.Context(), lease, []byte("mine"))
	require.NoError(t, err)
	_, err = st.PutNew(t.Context(), lease, []byte("yours"))
	require.ErrorIs(t, err, store.ErrExists)
	got := make([]byte, 4)
	require.NoError(t, st.Get(t.Context(), lease, 0, got))
	require.Equal(t, "mine", string(got))
}

// TestAServerWithoutFlushIsSaid has the server refuse flushes.
func TestAServerWithoutFlushIsSaid(t *testing.T) {
	st, err := sftp.Create(t.Context(), sftp.Target{Host: "here", Path: t.TempDir()},
		sftp.Options{}.Directly(sftptest.Without(t, "fsync")))
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	require.NoError(t, st.Put(t.Context(), storetest.Names()[2], []byte("x")))
	l, err := st.Describe(t.Context())
	require.NoError(t, err)
	require.Contains(t, l.Durable, "no flush")
}

// TestCtrlCDoesNotReachChannels: a terminal sends it to the process group in front.
func TestCtrlCDoesNotReachChannels(t *testing.T) {
	groups := direct(t, t.TempDir()).Groups()
	require.NotEmpty(t, groups)
	require.NotContains(t, groups, syscall.Getpgrp())
}

// TestAListOfSomePacksIsNoList: the folder of the packs may not be read, while that of the trees may. A prune that took
// the rest for all would miss packs.
func TestAListOfSomePacksIsNoList(t *testing.T) {
	testkit.RequireRoot(t)
	other := testkit.RequireTool(t, "setpriv")
	folder := filepath.Join(testkit.RamDir(t), "repository") // every user may enter it
	st := direct(t, folder)
	ctx := t.Context()
	require.NoError(t, st.Put(ctx, store.Name{Kind: store.Config}, []byte("c")))
	require.NoError(t, filepath.WalkDir(folder, func(at string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(at, 65534, 65534))
	}))
	server := filepath.Join(t.TempDir(), "server")
	script := "#!/bin/sh\nexec " + other + " --reuid 65534 --regid 65534 --clear-groups " + sftptest.Program(t) + "\n"
	require.NoError(t, os.WriteFile(server, []byte(script), 0o755))
	limited, err := sftp.Open(ctx, sftp.Target{Host: "here", Path: folder}, sftp.Options{}.Directly(server))
	require.NoError(t, err)
	defer func() { require.NoError(t, limited.Close()) }()
	list := func() (failed error) {
		for _, err := range limited.List(ctx, store.Pack) {
			failed = err
		}
		return failed
	}
	require.NoError(t, list())
	require.NoError(t, os.Chmod(filepath.Join(folder, store.Pack.Folder()), 0))
	require.ErrorIs(t, list(), store.ErrDenied)
}

// TestAServerThatAllowsOneChannel: the limit of a server is no failure.
func TestAServerThatAllowsOneChannel(t *testing.T) {
	testkit.Slow(t)
	s := sftptest.Start(t)
	s.Kill()
	s.Offer(true, "MaxSessions 1")
	s.Run()
	t.Setenv("PATH", s.Bin+":/usr/bin:/bin")
	st := overSSH(t, s.Folder)
	var group errgroup.Group
	for i := range 32 {
		group.Go(func() error {
			name := store.Name{Kind: store.Pack, ID: fmt.Sprintf("%02x01", i)}
			data, back := storetest.Pattern(100_000, uint64(i)), make([]byte, 100_000)
			if err := st.Put(t.Context(), name, data); err != nil {
				return err
			}
			if err := st.Get(t.Context(), name, 0, back); err != nil {
				return err
			}
			if !bytes.Equal(back, data) {
				return fmt.Errorf("%s differs", name)
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, 1, st.KillChannels())
}
