package target

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

const (
	// flushes is how many are timed: the median of five is not moved by two that somebody else made slow.
	flushes = 5
	// flushSize is how much each flush makes durable, in bytes.
	flushSize = 1 << 20
	// instant is a time in which no device takes flushSize: that would be 33 GB/s, and the latency is not counted.
	instant = 30 * time.Microsecond
	// farOff is how wrong a clock may be before people should be told.
	farOff = 5 * time.Minute
	// stamps is how many files are made to see how fine time stamps are.
	stamps = 8
)

// noise returns bytes that no file system can compress or has seen before.
func noise(seed byte, n int) []byte {
	data := make([]byte, n)
	var key [32]byte
	key[0] = seed
	_, _ = rand.NewChaCha8(key).Read(data) // never fails
	return data
}

// write finds out whether the folder takes files at all, and returns them.
func (p *prober) write() error {
	data := noise(2, 256<<10)
	if err := p.folder.Write("written", data, true); err != nil {
		return err
	}
	back, _, err := p.folder.Read("written")
	if err != nil {
		return err
	}
	if !bytes.Equal(data, back) {
		p.report.add("write", Unfit, "A file that was written and flushed came back with other content.",
			"do not use this target: it, or what lies between, damages data")
		return nil
	}
	p.report.add("write", Good, "A file was written, flushed and read back.", "")
	return nil
}

// flush judges by the time that flushes take whether anything is flushed.
func (p *prober) flush() error {
	var dirty, clean []time.Duration
	for i := range flushes {
		d, c, err := p.folder.Flush(fmt.Sprintf("flush-%d", i), flushSize)
		if err != nil {
			return err
		}
		dirty, clean = append(dirty, d), append(clean, c)
	}
	slices.Sort(dirty)
	slices.Sort(clean)
	took := dirty[flushes/2]
	what := fmt.Sprintf("Flushing 1 MiB took %s, and when there was nothing to flush %s (medians of %d)", short(took),
		short(clean[flushes/2]), flushes)
	if p.share {
		p.flushedFar(took, clean[flushes/2], what)
		return nil
	}
	if p.device.Medium == device.Memory {
		p.report.add("flush", Told, "In memory there is nothing to flush.", "")
		return nil
	}
	if took < instant {
		p.report.add("flush", Degraded, what+". No device is that fast: flushing does nothing here.",
			"tidemark reads back the size and the trailer of every pack, but after a power failure at the target the last minutes "+
				"may be missing or torn: run 'tidemark check' then; mount it without options such as volatile")
		return nil
	}
	remedy := ""
	if p.device.Medium == device.Remote {
		remedy = "the time tells nothing about the server's own disk (strict sync of Samba, async of NFS): what is written is read back"
	}
	p.report.add("flush", Good, what+fmt.Sprintf(", %s.", human.Megabytes(flushSize/took.Seconds())), remedy)
	return nil
}

func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d us", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// flushNames tries to flush a folder.
func (p *prober) flushNames() error {
	err := p.folder.FlushNames()
	switch {
	case ends(err):
		return err
	case err != nil:
		p.report.add("folder flush", Degraded, fmt.Sprintf("A folder cannot be flushed: %v.", err),
			"a file that was stored just before a power failure at the target may be missing after it; the next backup finds "+
				"out, as a snapshot is written last and names only what was there")
	default:
		p.report.add("folder flush", Good, "A folder can be flushed, so that names are durable.", "")
	}
	return nil
}

// names tries the names that a repository has.
func (p *prober) names() error {
	want := []string{strings.Repeat("0123456789abcdef", 4), local.TempPrefix + strings.Repeat("0f", 12), "packs", "ab"}
	for _, name := range want {
		if err := p.folder.Write(name, nil, false); err != nil {
			if ends(err) {
				return err
			}
			p.report.add("names", Unfit, fmt.Sprintf("%q is refused: %v.", name, err),
				"a repository needs names of 64 lower-case hexadecimal digits: choose another target, or "+p.otherWay())
			return nil
		}
	}
	have, err := p.folder.Names()
	if err != nil {
		return err
	}
	capitals := false
	for _, name := range want {
		if slices.Contains(have, name) {
			continue
		}
		capitals = p.share && slices.Contains(have, strings.ToUpper(name))
		if !capitals {
			p.report.add("names", Unfit, fmt.Sprintf("A file that was called %q is listed under another name.", name),
				"names are changed on the way (8.3 or upper-case names): choose "+p.otherWay())
			return nil
		}
	}
	if capitals {
		p.report.add("names", Good, "Names of 64 lower-case hexadecimal digits are kept, and listed in capitals.", "")
		return nil
	}
	p.report.add("names", Good, "Names of 64 lower-case hexadecimal digits are kept and listed as they are.", "")
	return nil
}

// foldsCase finds out whether two names that differ in case are one.
func (p *prober) foldsCase() error {
	if err := p.folder.Write("folded-case", nil, false); err != nil {
		return err
	}
	_, _, err := p.folder.Read("FOLDED-CASE")
	switch {
	case err == nil:
		p.report.add("case", Told, "Names that differ only in case are one file.", "nothing: all names are lower-case")
	case ends(err):
		return err
	default:
		p.report.add("case", Told, "Names that differ only in case are different files.", "")
	}
	return nil
}

// otherNames reports which names are refused that a repository does not have.
func (p *prober) otherNames() error {
	var refused []string
	long := 255
	if p.share {
		long = 240 // Samba's fruit takes longer names, and cannot remove them
	}
	for name, what := range map[string]string{
		"a:b": ":", "a?b": "?", "a*b": "*", `a"b`: `"`, "a<b": "<", "a|b": "|", `a\b`: `\`, "end.": "a dot at the end",
		"end\x20": "a blank at the end", "\xff\xfe": "bytes that are not UTF-8", strings.Repeat("n", long): fmt.Sprintf("%d characters", long),
	} {
		if err := p.folder.Write(name, nil, false); ends(err) {
			return err
		} else if err != nil {
			refused = append(refused, what)
		}
	}
	if len(refused) == 0 {
		p.report.add("other names", Told, fmt.Sprintf("All kinds of names are taken, up to %d characters.", long), "")
		return nil
	}
	slices.Sort(refused)
	p.report.add("other names", Told, "Refused in names: "+strings.Join(refused, ", ")+".",
		"nothing: a repository has no such names; restoring files to this place may not be exact")
	return nil
}

// times looks at the clock that stamps files, and how finely.
func (p *prober) times() error {
	var fraction uint32 // of a second; the finest digits seen
	var early, late time.Duration
	for i := range stamps {
		name := fmt.Sprintf("time-%d", i)
		before := p.now()
		if err := p.folder.Write(name, []byte{1}, true); err != nil {
			return err
		}
		after := p.now()
		_, st, err := p.folder.Read(name)
		if err != nil {
			return err
		}
		at := time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec))
		if i == 0 {
			// The stamp was made between before and after, and may be cut by a time that is not known yet.
			early, late = at.Sub(after), at.Sub(before)
		}
		fraction = finest(fraction, st.Mtime.Nsec)
	}
	p.report.add("time stamps", Told, fmt.Sprintf("Files are stamped to %s.", grain(fraction)),
		"nothing depends on less than a minute")
	off := early // the least that explains the stamp
	if late > 0 && early < 0 || late < 0 && late > -2*time.Second {
		off = 0
	} else if late < 0 {
		off = late
	}
	if off.Abs() < 2*time.Second {
		p.report.add("clock", Good, "The target's clock agrees with the one of this machine, to 2 seconds.", "")
		return nil
	}
	direction := "ahead of"
	if off < 0 {
		direction = "behind"
	}
	what := fmt.Sprintf("The target's clock is %s %s the one of this machine.", off.Abs().Round(time.Second), direction)
	if off.Abs() < farOff {
		p.report.add("clock", Good, what, "")
		return nil
	}
	p.report.add("clock", Degraded, what, "set the wrong one right; tidemark judges the presence of other machines by the "+
		"target's clock alone, so no data is in danger, but snapshots bear the time of this machine")
	return nil
}

// finest keeps of two fractions the one with more digits.
func finest(a, b uint32) uint32 {
	if a == 0 || b != 0 && unit(b) < unit(a) {
		return b
	}
	return a
}

// unit is the largest power of ten, in nanoseconds, that a fraction of a second is a multiple of.
func unit(nsec uint32) uint32 {
	if nsec == 0 {
		return 1e9
	}
	u := uint32(1)
	for nsec%(u*10) == 0 {
		u *= 10
	}
	return u
}

func grain(fraction uint32) string {
	if fraction == 0 {
		return "a second or more"
	}
	return time.Duration(unit(fraction)).String()
}

// inodes looks whether a file keeps its number while it is renamed.
func (p *prober) inodes() error {
	if err := p.folder.Write("inode-1", []byte("x"), true); err != nil {
		return err
	}
	_, before, err := p.folder.Read("inode-1")
	if err != nil {
		return err
	}
	if err := p.folder.Rename("inode-1", "inode-2"); err != nil {
		return err
	}
	_, after, err := p.folder.Read("inode-2")
	if err != nil {
		return err
	}
	const none = "nothing: a repository is not compared by inode numbers; back up files that lie here with --ignore-inode"
	switch {
	case before.Ino != after.Ino:
		p.report.add("inodes", Told, "A file gets another inode number when it is renamed.", none)
	case !p.stable:
		p.report.add("inodes", Told, "This type of file system may give other inode numbers each time it is mounted.", none)
	default:
		p.report.add("inodes", Told, "Files keep their inode numbers.", "")
	}
	return nil
}

// locks reports whether byte ranges can be locked.
func (p *prober) locks() error {
	err := p.lock()
	if ends(err) {
		return err
	}
	what := "Byte ranges of files can be locked."
	if err != nil {
		what = fmt.Sprintf("Byte ranges of files cannot be locked: %v.", err)
	}
	p.report.add("locks", Told, what, "nothing: tidemark locks nothing")
	return nil
}

func (r *room) lock() error {
	if err := r.Write("lock", []byte("x"), false); err != nil {
		return err
	}
	return r.do(iopolicy.Op{Kind: iopolicy.Metadata}, func() error {
		f, err := os.OpenFile(filepath.Join(r.path, "lock"), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return withDescriptor(f, lockRange)
	})
}
