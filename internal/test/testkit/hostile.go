package testkit

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// HostileOptions sizes the hostile tree; a zero field takes the default.
type HostileOptions struct {
	Entries    int   // in one directory: 10 000
	Depth      int   // levels of directories: 200
	SparseSize int64 // length of the sparse file in bytes, with 1 MiB of data: 10 GiB
}

// BeyondPathMax is the directory of the hostile tree whose full paths exceed the limit of system calls; a tool that
// works with paths has to leave it out.
const BeyondPathMax = "beyond path max"

// Hostile makes a tree of all objects that are difficult for a backup program, in root, which should lie in a TempDir.
// An object that the file system or the user's rights do not permit is no failure: it is logged and returned, a line
// each.
func Hostile(t testing.TB, root string, opt HostileOptions) []string {
	t.Helper()
	if opt.Entries == 0 {
		opt.Entries = 10_000
	}
	if opt.Depth == 0 {
		opt.Depth = 200
	}
	if opt.SparseSize == 0 {
		opt.SparseSize = 10 << 30
	}
	tree := hostileTree(opt)
	isRoot := os.Geteuid() == 0
	if isRoot {
		tree["only root"] = rootOnly()
	}
	refused, err := write(root, tree)
	if err != nil {
		t.Fatalf("make hostile tree %s: %v", root, err)
	}
	if !isRoot {
		refused = append(refused, "not root: owners, devices, trusted and security attributes, append and immutable flags")
	}
	for _, line := range refused {
		t.Logf("hostile tree: refused: %s", line)
	}
	return refused
}

func hostileTree(opt HostileOptions) Dir {
	many := Dir{}
	for i := range opt.Entries {
		many[fmt.Sprintf("entry %06d", i)] = File{Data: Text(uint64(i), i%50)}
	}
	middle := opt.SparseSize / 2 &^ 0xfff
	return Dir{
		"names":         hostileNames(),
		"many":          many,
		"deep":          chain("d", opt.Depth),
		"nearly 4000":   chain(strings.Repeat("n", 240), 15),
		BeyondPathMax:   chain(strings.Repeat("b", 250), 20),
		"modes":         hostileModes(),
		"links":         hostileLinks(),
		"times":         hostileTimes(),
		"attributes":    hostileAttributes(),
		"empty file":    File{},
		"empty dir":     Dir{},
		"fifo":          With{Of: Fifo{}, Mode: 0o640, Mtime: time.Unix(1e9, 7)},
		"socket":        With{Of: Socket{}, Mode: 0o755},
		"only a hole":   Sparse{Size: 5 << 20},
		"hole at end":   Sparse{Size: 3 << 20, Data: map[int64][]byte{0: Text(1, 100)}},
		"hole at start": Sparse{Size: 1<<20 + 5, Data: map[int64][]byte{1 << 20: []byte("end\n\n")}},
		"sparse": Sparse{Size: opt.SparseSize, Data: map[int64][]byte{
			0: Noise(2, 256<<10), middle: Noise(3, 512<<10), opt.SparseSize - 256<<10: Noise(4, 256<<10),
		}},
	}
}

// chain nests directories of one name, with a file at the bottom.
func chain(name string, depth int) Dir {
	d := Dir{"bottom": File{Data: []byte("as deep as it goes\n")}}
	for range depth - 1 {
		d = Dir{name: d}
	}
	return d
}

func hostileNames() Dir {
	d := Dir{}
	for _, name := range []string{
		"\xff\xfe not UTF-8", "latin-1 \xe4\xf6\xfc", "cut off \xf0\x9f\x98", "new\nline", "tab\tand\rreturn",
		" space first", "space last ", "two  spaces", "-rf", "--help", "*", "?", "[a-z]", "back\\slash",
		`"quoted"`, "'", "$HOME", "`id`", "~",
		"#hash", "!bang", "a;b", "a|b", "a&b", "colon:name", "...", ".hidden", "..dots", "😀", "NFC \u00e9", "NFD e\u0301",
		"upper", "UPPER", "\x01\x1b[31m", "\x7f", "con", "nul.txt", "trailing.", strings.Repeat("x", 255),
		strings.Repeat("é", 127) + "x", strings.Repeat("\xfe", 255), "percent%s%n", "comma,equals=",
		"\u202egnp.exe", "\u200b",
	} {
		d[name] = File{Data: []byte(name)}
	}
	d["dir \xff\n"] = Dir{"\xfe": File{Data: []byte("in a directory with such a name")}, "-": Symlink{Target: "\xfd"}}
	return d
}

func hostileModes() Dir {
	d := Dir{
		"setuid":     File{Data: []byte("#!\n"), Mode: 0o4755},
		"setgid":     File{Data: []byte("#!\n"), Mode: 0o2755},
		"sticky dir": With{Of: Dir{"f": File{}}, Mode: 0o1777},
		"setgid dir": With{Of: Dir{"f": File{}}, Mode: 0o2775},
		"all bits":   File{Data: []byte("x"), Mode: 0o7777},
		"none":       File{Data: []byte("nobody reads this"), Mode: ModeNone},
		"write only": File{Data: []byte("mode bits, and no read permission"), Mode: 0o311},
		"none dir":   With{Of: Dir{"inside": File{Data: []byte("hidden")}}, Mode: ModeNone},
		"read only":  With{Of: Dir{"inside": File{Data: []byte("fixed"), Mode: 0o444}}, Mode: 0o555},
	}
	for bit := range 9 {
		d[fmt.Sprintf("bit %03o", 1<<bit)] = File{Data: []byte("x"), Mode: 1 << bit}
	}
	return d
}

func hostileLinks() Dir {
	return Dir{
		"dangling":     Symlink{Target: "nowhere/at/all"},
		"absolute":     Symlink{Target: "/etc/passwd"},
		"to itself":    Symlink{Target: "to itself"},
		"loop a":       Symlink{Target: "loop b"},
		"loop b":       Symlink{Target: "loop a"},
		"up":           Symlink{Target: "../../.."},
		"to dir":       Symlink{Target: "../names"},
		"to fifo":      Symlink{Target: "../fifo"},
		"4095 bytes":   Symlink{Target: strings.Repeat("t", 4095)},
		"not UTF-8":    Symlink{Target: "\xff\xfe\n"},
		"old":          With{Of: Symlink{Target: "x"}, Mtime: time.Unix(86400, 123456789)},
		"one":          Dir{"first name": File{Data: Text(9, 5000)}, "same dir": Hardlink{To: "links/one/first name"}},
		"other":        Dir{"across": Hardlink{To: "links/one/first name"}, "fifo": Hardlink{To: "fifo"}},
		"to a symlink": Hardlink{To: "links/dangling"},
		"to a socket":  Hardlink{To: "socket"},
	}
}

func hostileTimes() Dir {
	d := Dir{}
	for name, at := range map[string]time.Time{
		"epoch":         time.Unix(0, 0),
		"before 1970":   time.Unix(-1, 999_999_999),
		"1901":          time.Unix(-1<<31, 0),
		"past 2038":     time.Unix(1<<31, 1),
		"2400":          time.Date(2400, 2, 29, 12, 0, 0, 0, time.UTC),
		"nanoseconds":   time.Unix(1_700_000_000, 123_456_789),
		"a nanosecond":  time.Unix(1_700_000_000, 1),
		"whole seconds": time.Unix(1_700_000_000, 0),
	} {
		d[name] = File{Data: []byte(name), Mtime: at}
		d[name+" dir"] = With{Of: Dir{"f": File{Mtime: at}}, Mtime: at}
	}
	return d
}

func hostileAttributes() Dir {
	access := map[string]string{"system.posix_acl_access": PosixACL(12345, 6)}
	inherited := map[string]string{"system.posix_acl_default": PosixACL(12345, 7)}
	user := map[string]string{"user.plain": "value", "user.empty": "", "user.binary \xff\n": "\x00\x01\xff"}
	return Dir{
		"user":        With{Of: File{Data: []byte("x")}, Xattrs: user},
		"user dir":    With{Of: Dir{}, Xattrs: user},
		"read only":   With{Of: File{Data: []byte("x")}, Mode: 0o400, Xattrs: map[string]string{"user.a": "b"}},
		"long name":   With{Of: File{}, Xattrs: map[string]string{"user." + strings.Repeat("n", 250): "v"}},
		"large":       With{Of: File{}, Xattrs: map[string]string{"user.large": string(Noise(1, 3000))}},
		"very large":  With{Of: File{}, Xattrs: map[string]string{"user.very large": string(Noise(2, 60_000))}},
		"acl":         With{Of: File{Data: []byte("x")}, Xattrs: access},
		"acl dir":     With{Of: Dir{"f": File{}}, Xattrs: inherited},
		"no dump":     With{Of: File{Data: []byte("x")}, Flags: FlagNoDump},
		"no dump dir": With{Of: Dir{"f": File{Data: []byte("x")}}, Flags: FlagNoDump},
	}
}

func rootOnly() Dir {
	capability := string([]byte{1, 0, 0, 2, 0, 4}) + strings.Repeat("\x00", 14) // cap_net_bind_service, effective
	trusted := map[string]string{"trusted.t": "only root sees this"}
	return Dir{
		"char device":     With{Of: Device{Major: 1, Minor: 3}, Mode: 0o666},
		"block device":    With{Of: Device{Block: true, Major: 7, Minor: 300}, Mode: 0o660},
		"owner":           With{Of: File{Data: []byte("x")}, Owner: &Owner{12345, 54321}},
		"large owner":     With{Of: Dir{"f": File{}}, Owner: &Owner{1<<32 - 2, 1<<32 - 2}},
		"owner of a link": With{Of: Symlink{Target: "x"}, Owner: &Owner{1, 2}},
		"owned setuid":    With{Of: File{Data: []byte("x")}, Mode: 0o6755, Owner: &Owner{12345, 54321}},
		"trusted":         With{Of: File{}, Xattrs: trusted},
		"trusted dir":     With{Of: Dir{}, Xattrs: trusted},
		"trusted link":    With{Of: Symlink{Target: "x"}, Xattrs: trusted},
		"trusted fifo":    With{Of: Fifo{}, Xattrs: trusted},
		"security":        With{Of: File{}, Xattrs: map[string]string{"security.tidemark": "label"}},
		"capability": With{
			Of: File{Data: []byte("x")}, Mode: 0o755, Owner: &Owner{12345, 0},
			Xattrs: map[string]string{"security.capability": capability},
		},
		"immutable":     With{Of: File{Data: []byte("x")}, Mtime: time.Unix(1e9, 1), Flags: FlagImmutable},
		"immutable dir": With{Of: Dir{"f": File{Data: []byte("x")}}, Mtime: time.Unix(1e9, 2), Flags: FlagImmutable},
		"append":        With{Of: File{Data: []byte("x")}, Mtime: time.Unix(1e9, 3), Flags: FlagAppend},
	}
}

// PosixACL returns the value of a system.posix_acl_* attribute: rwx r-x r-- for owner, group and others, and the
// permissions of one more user.
func PosixACL(uid uint32, perm uint16) string {
	const none = 1<<32 - 1
	p := binary.LittleEndian.AppendUint32(nil, 2) // version
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 7, none}, {0x02, perm, uid}, {0x04, 5, none}, {0x10, perm | 5, none}, {0x20, 4, none}} {
		p = binary.LittleEndian.AppendUint16(p, e.tag)
		p = binary.LittleEndian.AppendUint16(p, e.perm)
		p = binary.LittleEndian.AppendUint32(p, e.id)
	}
	return string(p)
}
