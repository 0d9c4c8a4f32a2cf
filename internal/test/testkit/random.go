package testkit

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
)

// Random returns a tree of about size entries, the same for the same seed: nested directories, files of many sizes with
// repeated and shared content, holes, symlinks, FIFOs, hard links, odd names, modes and times, and user attributes. Any
// user can write and read it: owners, devices and unreadable modes are left to Hostile. withXattrs is whether the
// target file system keeps user attributes.
func Random(seed uint64, size int, withXattrs bool) Dir {
	g := &generator{r: rand.New(rand.NewPCG(seed, 0x7472_6565)), left: size, xattrs: withXattrs}
	return g.dir("", 0)
}

type generator struct {
	r      *rand.Rand
	left   int
	xattrs bool
	files  []string // paths that a hard link may have as target
	shared [][]byte // contents that may be reused
}

func (g *generator) dir(path string, depth int) Dir {
	d := Dir{}
	n := g.r.IntN(12)
	for first := true; g.left > 0 && (path == "" || first || n > 0); n-- {
		first = false
		g.left--
		name := g.name()
		if _, taken := d[name]; taken {
			continue
		}
		d[name] = g.entry(path+name, depth)
	}
	return d
}

func (g *generator) entry(path string, depth int) Entry {
	switch k := g.r.IntN(20); {
	case k < 4 && depth < 12:
		return g.decorated(With{Of: g.dir(path+"/", depth+1), Mode: 0o700 | g.r.Uint32N(0o2000), Mtime: g.time()})
	case k == 4:
		return With{Of: Symlink{Target: g.name()}, Mtime: g.time()}
	case k == 5:
		return With{Of: Fifo{}, Mode: 0o600 | g.r.Uint32N(0o1000), Mtime: g.time()}
	case k == 6 && len(g.files) > 0:
		return Hardlink{To: g.files[g.r.IntN(len(g.files))]}
	case k == 7:
		at := g.r.Int64N(64) << 12
		data := map[int64][]byte{at: Noise(g.r.Uint64(), 1)}
		return g.decorated(With{Of: Sparse{Size: at + 1 + g.r.Int64N(1<<20), Data: data}, Mtime: g.time()})
	}
	g.files = append(g.files, path)
	return g.decorated(With{Of: File{Data: g.data()}, Mode: 0o600 | g.r.Uint32N(0o1000), Mtime: g.time()})
}

func (g *generator) decorated(e With) With {
	if !g.xattrs || g.r.IntN(4) > 0 {
		return e
	}
	e.Xattrs = map[string]string{}
	for range 1 + g.r.IntN(3) {
		e.Xattrs[fmt.Sprintf("user.%d", g.r.IntN(100))] = string(Noise(g.r.Uint64(), g.r.IntN(200)))
	}
	return e
}

// data returns the content of a file: sizes over all orders of magnitude up to 1 MiB, small ones more often.
func (g *generator) data() []byte {
	if len(g.shared) > 0 && g.r.IntN(6) == 0 {
		return slices.Concat(g.shared[g.r.IntN(len(g.shared))], Noise(g.r.Uint64(), g.r.IntN(3)))
	}
	n := g.r.IntN(1 << g.r.IntN(21))
	p := Noise(g.r.Uint64(), n)
	switch g.r.IntN(3) {
	case 0:
		p = Text(g.r.Uint64(), n)
	case 1:
		clear(p[g.r.IntN(n+1):])
	}
	g.shared = append(g.shared, p)
	return p
}

// name returns a name of letters or, on Linux, of any bytes.
func (g *generator) name() string {
	n := 1 + g.r.IntN(12)
	if g.r.IntN(20) == 0 {
		n = 1 + g.r.IntN(255)
	}
	p := Noise(g.r.Uint64(), n)
	wild := runtime.GOOS == "linux" && g.r.IntN(4) == 0
	for i, b := range p {
		if !wild || b == 0 || b == '/' {
			p[i] = 'a' + b%26
		}
	}
	if s := string(p); s != "." && s != ".." {
		return s
	}
	return "dots"
}

// time returns a moment between 1930 and 2100, often with a fraction of a second.
func (g *generator) time() time.Time {
	sec := -40*365*86400 + g.r.Int64N(170*365*86400)
	if g.r.IntN(3) == 0 {
		return time.Unix(sec, 0)
	}
	return time.Unix(sec, g.r.Int64N(1e9))
}
