package share

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// box is a server as people have it, and how this side is set.
type box struct {
	server  smbtest.Config
	options smb.Options
	sealed  bool // every message after the logon is encrypted
	upper   bool // names are in upper case on its disk
}

func boxes() map[string]box {
	global := func(lines ...string) smbtest.Config { return smbtest.Config{Global: lines} }
	share := func(lines ...string) smbtest.Config { return smbtest.Config{Share: lines} }
	return map[string]box{
		"SMB 2.10 only": {server: global("server min protocol = SMB2_10", "server max protocol = SMB2_10")},
		"more: SMB 2.10 and signed": {server: global("server max protocol = SMB2_10", "server signing = mandatory"),
			options: smb.Options{Protection: smb.Signed}},
		"SMB 3.1.1, encryption required": {
			server: global("server min protocol = SMB3_11", "server smb encrypt = required"), sealed: true,
		},
		"more: SMB 3.1.1, encryption required on both sides": {
			server:  global("server min protocol = SMB3_11", "server smb encrypt = required"),
			options: smb.Options{Protection: smb.Encrypted}, sealed: true,
		},
		"signing mandatory":   {server: global("server signing = mandatory"), options: smb.Options{Protection: smb.Signed}},
		"case sensitive = no": {server: share("case sensitive = no"), sealed: true},
		"upper case": {
			server: share("case sensitive = no", "preserve case = no", "short preserve case = no",
				"default case = upper"), upper: true, sealed: true,
		},
		"names mangled": {server: share("mangled names = yes", "mangling method = hash2", "mangle prefix = 6"),
			options: smb.Options{Protection: smb.AsOffered}},
		"fruit, as for Time Machine": {server: smbtest.Config{
			Global: []string{"fruit:aapl = yes", "ea support = yes"},
			Share: []string{
				"vfs objects = fruit streams_xattr", "fruit:metadata = stream", "fruit:resource = stream", "fruit:time " +
					"machine = yes",
				"fruit:time machine max size = 50G", "fruit:model = TimeCapsule8,119", "fruit:posix_rename = yes",
				"fruit:veto_appledouble = no", "fruit:nfs_aces = no", "fruit:wipe_intentionally_left_blank_rfork = yes",
				"fruit:delete_empty_adfiles = yes", "durable handles = yes", "kernel oplocks = no", "kernel share modes = no",
				"posix locking = no",
			},
		}, sealed: true},
		"few credits": {server: global("smb2 max credits = 16", "smb2 max write = 65536", "smb2 max read = 65536"),
			sealed: true},
		"more: no leases, no async": {server: smbtest.Config{
			Global: []string{"smb2 leases = no", "aio read size = 0", "aio write size = 0"},
			Share:  []string{"oplocks = no", "strict locking = yes"},
		}, sealed: true},
	}
}

// TestBoxes runs the engine's list against servers set as those of real boxes are; against some more with -soak.
func TestBoxes(t *testing.T) {
	t.Parallel()
	all := boxes()
	if *kit.Soak == 0 {
		maps.DeleteFunc(all, func(name string, _ box) bool { return strings.HasPrefix(name, "more") })
	}
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(name, "fruit") {
				smbtest.NeedModule(t, "fruit")
				b.server.Folder = testkit.TempDir(t) // its file system keeps the attributes of Apple's metadata
			} else {
				b.server.Folder = testkit.RamDir(t)
			}
			s := smbtest.Start(t, b.server)
			p := smbtest.NewProxy(t, s.Addr(), 0)
			var clear, encrypted atomic.Int64
			p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
				if bytes.HasPrefix(f.Data, []byte{0xfd, 'S', 'M', 'B'}) {
					encrypted.Add(1)
				} else if f.Is(smbtest.Write, true) || f.Is(smbtest.Create, true) || f.Is(smbtest.Read, false) {
					clear.Add(1)
				}
				return smbtest.Pass
			})
			m := newMachine(t, s, through(p, s), b.options)
			if b.upper {
				m.st.disk = "" // an index segment is looked at by way of the share alone
			}
			src := filepath.Join(testkit.RamDir(t), "src")
			testkit.Write(t, src, testkit.Random(uint64(len(name)), 150, true))
			written(t, src, 1, map[string]int{"large": 1 << 20})
			kit.Settle()
			m.list(src)
			seen := fmt.Sprintf("%d messages in clear, %d encrypted", clear.Load(), encrypted.Load())
			if b.sealed {
				require.Zero(t, clear.Load(), seen)
				require.Positive(t, encrypted.Load(), seen)
			} else {
				require.Positive(t, clear.Load(), seen)
			}
		})
	}
}
