package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// guardedPackage is a package in which each call that can make a device work is an operation of a gate.
type guardedPackage struct {
	folder string
	// begins return a grant, which holds from there to the end of the function; takes do what they are given with one.
	begins, takes []string
	free          map[string]string // "function: call" that needs no grant, and what it leads to -> why
}

func guardedPackages() []guardedPackage {
	return []guardedPackage{
		{
			"internal/localfs", []string{"begin", "beginMany"}, []string{"do", "Do", "change", "setAll", "Names", "pieces"},
			map[string]string{
				"Entries: unix.Seek":        "to go back to the beginning of a directory reads nothing",
				"Push: pages.Push":          "is part of an operation: each call of Push is looked for",
				"BtrfsID: unix.Syscall":     "an open file system knows its name",
				"MountedFrom: unix.Fstatfs": "an open file system knows its name",
				"openInto: .openCached":     "opens what the kernel has in memory",
				"Resident: .openCached":     "opens what the kernel has in memory",
				"readCached: unix.Preadv2":  "reads what the page cache holds",
			},
		},
		{"internal/store/local", nil, []string{"Do", "do", "metadata", "flush"}, map[string]string{
			"discard: unix.Unlinkat": "a temporary file is removed although ctx has ended",
			"Scratch: os.RemoveAll":  "a temporary folder is removed although ctx has ended",
		}},
		{"internal/repo/cachefile", nil, []string{"Do", "Names"}, map[string]string{
			"Finish: os.Remove":        "a temporary file is removed although ctx has ended",
			"Has: os.Lstat":            "a look at the name of an open file",
			"readCached: unix.Preadv2": "reads what the page cache holds",
			"pageSum: .Update":         "hashes bytes",
			"End: .Write":              "leads to WriteAt of a Plain",
		}},
		{"internal/repo/snapcache", nil, []string{"Names"}, map[string]string{
			"Published: os.OpenFile":  "the record is one small file",
			"RemovePublished: change": "the record is one small file",
			"AddPublished: change":    "the record is one small file",
			"AddSeen: change":         "the record is one small file",
			"SetMissing: change":      "the record is one small file",
		}},
		{"internal/repo/treecache", nil, []string{"Names", "atFolder"}, map[string]string{
			"write: os.Remove":      "a temporary file is removed although ctx has ended",
			"statDisk: unix.Statfs": "is handed on as Cache.disk, which is asked at the folder",
		}},
	}
}

// working names the calls that can make a device work. What closes, asks about memory or gives advice is not among
// them.
func working(pkg, name string) bool {
	switch pkg {
	case "golang.org/x/sys/unix", "syscall":
		if slices.Contains([]string{
			"Syscall", "Syscall6", "Pread", "Preadv2", "Pwrite", "Getdents", "Fstat", "Fstatfs", "Statfs", "Seek", "Fsync",
			"Fdatasync", "Ftruncate", "Fallocate", "Fchmod", "Fchown", "UtimesNanoAt", "SyncFileRange", "Flistxattr",
			"Fgetxattr", "Fsetxattr", "Fremovexattr", "Llistxattr", "Lgetxattr", "Lsetxattr", "Lremovexattr", "FcntlFstore",
			"Mkfifo",
		}, name) {
			return true
		}
	case "github.com/tidemark-backup/tidemark/pkg/iopolicy/pages":
		return name == "Push" || name == "Flush" || name == "Sync"
	}
	return slices.Contains(openers()[pkg], name)
}

// workingMethods are those of open files and databases.
func workingMethods() []string {
	return []string{"Write", "WriteAt", "ReadAt", "Sync", "ReadDir", "Readdirnames", "Info", "Update", "Push"}
}

// reference is the mention of a function of the package, or of a call that can make a device work.
type reference struct {
	name string
	raw  bool
	at   string
}

// loose returns what a function mentions outside of any grant. Methods are matched by their names alone, with a dot
// before: a possible match counts.
func (guarded *guardedPackage) loose(f *file, fn *ast.FuncDecl, own map[string]bool) []reference {
	aliases := map[string]string{}
	for _, pkg := range append(slices.Collect(maps.Keys(openers())), module+"/pkg/iopolicy/pages") {
		if alias := f.importName(pkg); alias != "" {
			aliases[alias] = pkg
		}
	}
	type span struct{ from, to token.Pos }
	var granted []span
	called := map[*ast.SelectorExpr]bool{}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := ""
		switch fun := call.Fun.(type) {
		case *ast.SelectorExpr:
			name = fun.Sel.Name
			called[fun] = true
		case *ast.Ident:
			name = fun.Name
		}
		if slices.Contains(guarded.begins, name) {
			granted = append(granted, span{call.End(), fn.End()})
		} else if slices.Contains(guarded.takes, name) {
			granted = append(granted, span{call.Lparen, call.End()})
		}
		return true
	})
	var out []reference
	add := func(name string, raw bool, pos token.Pos) {
		if !slices.ContainsFunc(granted, func(s span) bool { return s.from <= pos && pos < s.to }) {
			out = append(out, reference{name, raw, f.at(pos)})
		}
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, _ := n.X.(*ast.Ident)
			switch name := n.Sel.Name; {
			case x != nil && aliases[x.Name] != "":
				if pkg := aliases[x.Name]; working(pkg, name) {
					add(path.Base(pkg)+"."+name, true, n.Pos())
				}
				return false
			case own["."+name]:
				add("."+name, false, n.Pos())
			case called[n] && slices.Contains(workingMethods(), name):
				add("."+name, true, n.Pos())
			}
		case *ast.Ident:
			if own[n.Name] {
				add(n.Name, false, n.Pos())
			}
		}
		return true
	})
	return out
}

// ungated finds ways from the exported functions of a package to a device that pass no gate, and unused exceptions.
func ungated(files []*file, guarded guardedPackage) []string {
	type body struct {
		f  *file
		fn *ast.FuncDecl
	}
	funcs, own := map[string][]body{}, map[string]bool{}
	for _, f := range files {
		if f.dir() != guarded.folder || f.test() {
			continue
		}
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
				name := fn.Name.Name
				if fn.Recv != nil {
					name = "." + name
				}
				funcs[name] = append(funcs[name], body{f, fn})
				own[name] = true
			}
		}
	}
	seen, used := map[string]bool{}, map[string]bool{}
	var out []string
	var follow func(name, way string)
	follow = func(name, way string) {
		if seen[name] {
			return
		}
		seen[name] = true
		for _, b := range funcs[name] {
			for _, r := range guarded.loose(b.f, b.fn, own) {
				switch what := strings.TrimPrefix(name, ".") + ": " + r.name; {
				case guarded.free[what] != "":
					used[what] = true
				case !r.raw:
					follow(r.name, way+" > "+r.name)
				default:
					out = append(out, fmt.Sprintf("%s: %s without a grant, by way of %s", r.at, r.name, way))
				}
			}
		}
	}
	for name := range funcs {
		if ast.IsExported(strings.TrimPrefix(name, ".")) {
			follow(name, name)
		}
	}
	for what, why := range guarded.free {
		if !used[what] {
			out = append(out, fmt.Sprintf("%s: %s is excepted (%s) and does no such thing", guarded.folder, what, why))
		}
	}
	return out
}

func TestDoorsPassTheGate(t *testing.T) {
	all := goFiles(sources(t), false)
	for _, guarded := range guardedPackages() {
		none(t, ungated(all, guarded))
	}
}

func TestGateLawFindsUngatedCalls(t *testing.T) {
	guarded := guardedPackage{"internal/door", []string{"begin"}, []string{"once"},
		map[string]string{"Free: unix.Fsync": "why", "Cached: .memory": "why"}}
	check := func(body string) []string {
		return ungated([]*file{parse(t, "internal/door/x.go", `package door
			import ("golang.org/x/sys/unix"; "os")
			func (d *Dir) begin() {}
			func (d *Dir) once(f func()) { f() }
			func raw() { unix.Pread(0, nil, 0) }
			func (o *object) deeper() { raw() }
			func Free() { unix.Fsync(0) }
			func (o *object) memory() { raw() }
			func Cached(o *object) { o.memory() }
			`+body)}, guarded)
	}
	for _, good := range []string{
		"func (d *Dir) A() { d.begin(); raw(); unix.Close(0) }",
		"func (d *Dir) A() { d.once(func() { raw() }) }",
		"func (d *Dir) A() { d.once(d.object().deeper) }",
		"func (d *Dir) A() { d.b() }\nfunc (d *Dir) b() { d.begin(); os.Remove(``) }",
		"func unused() { raw() }",
		"func (d *Dir) A() { unix.Close(0); unix.Fadvise(0, 0, 0, 0) }",
	} {
		require.Empty(t, check(good), good)
	}
	for _, bad := range []string{
		"func (d *Dir) A() { raw() }",
		"func (d *Dir) A() { raw(); d.begin() }",
		"func (d *Dir) A() { d.once(func() {}); raw() }",
		"func (d *Dir) A() { use(raw) }",
		"func (d *Dir) A(o *object) { o.memory() }",
		"func (d *Dir) A() { d.b() }\nfunc (d *Dir) b() { d.object().deeper() }",
		"func A(f *os.File) { f.ReadAt(nil, 0) }",
		"func A() { os.Remove(``) }",
	} {
		require.Len(t, check(bad), 1, bad)
	}
	require.Len(t, ungated(nil, guarded), 2, "exceptions that are not used")
}

// freeDoor lets a folder reach files past the gate, for a reason.
type freeDoor struct{ folder, call, reason string }

func freeDoors() []freeDoor {
	return []freeDoor{
		{"internal/throttle/device", "OpenSearchable", "finds out which device it is: only then is there a gate"},
		{"internal/speedtest", "OpenDir", "makes and removes the files that are measured"},
		{"internal/scope", "OpenDir", "identifies the folders of the backup itself, before there is a job"},
		{"internal/cli", "OpenDir", "looks at names before a job begins: which file system it is, what a rule says of it"},
		{"internal/restore", "Ungated", "takes away what a run that was called off would leave half done"},
	}
}

// pastTheGate finds functions that open a door without a way to the device, and unused exceptions.
func pastTheGate(files []*file, allowed []freeDoor) []string {
	var out []string
	used := map[freeDoor]bool{}
	note := func(f *file, pos token.Pos, call string) {
		for _, d := range allowed {
			if d.folder == f.dir() && d.call == call {
				used[d] = true
				return
			}
		}
		out = append(out, fmt.Sprintf("%s: %s past the gate", f.at(pos), call))
	}
	for _, f := range files {
		if f.test() || f.dir() == "internal/localfs" || within(f.dir(), testFolders()) || within(f.dir(), tools()) {
			continue
		}
		localfs, local := f.importName(module+"/internal/localfs"), f.importName(module+"/internal/store/local")
		from := func(x ast.Expr, alias string) bool {
			id, ok := x.(*ast.Ident)
			return ok && alias != "" && id.Name == alias
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if from(n.X, localfs) && (n.Sel.Name == "OpenDir" || n.Sel.Name == "OpenSearchable") {
					note(f, n.Pos(), n.Sel.Name)
				} else if localfs != "" && n.Sel.Name == "Ungated" {
					note(f, n.Pos(), "Ungated")
				}
			case *ast.CompositeLit:
				if sel, ok := n.Type.(*ast.SelectorExpr); ok && from(sel.X, localfs) && sel.Sel.Name == "IOContext" &&
					!namesPass(n) {
					note(f, n.Pos(), "IOContext")
				}
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || !from(sel.X, local) || sel.Sel.Name != "Open" && sel.Sel.Name != "Create" || len(n.Args) != 2 {
					return true
				}
				if id, ok := n.Args[1].(*ast.Ident); ok && id.Name == "nil" {
					note(f, n.Pos(), "local."+sel.Sel.Name)
				}
			}
			return true
		})
	}
	for _, d := range allowed {
		if !used[d] {
			out = append(out, fmt.Sprintf("%s is excepted for %s (%s) and does not use it", d.folder, d.call, d.reason))
		}
	}
	return out
}

// namesPass reports whether a literal of an IOContext sets Pass.
func namesPass(lit *ast.CompositeLit) bool {
	return slices.ContainsFunc(lit.Elts, func(e ast.Expr) bool {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return len(lit.Elts) == 2
		}
		key, _ := kv.Key.(*ast.Ident)
		value, _ := kv.Value.(*ast.Ident)
		return key != nil && key.Name == "Pass" && (value == nil || value.Name != "nil")
	})
}

func TestNoReadGoesPastTheGate(t *testing.T) {
	none(t, pastTheGate(goFiles(sources(t), false), freeDoors()))
}

func TestPastTheGateLawFindsThem(t *testing.T) {
	at := func(path, body string) *file {
		return parse(t, path, `package x
			import ("`+module+`/internal/localfs"; "`+module+`/internal/store/local")
			func f() { `+body+` }`)
	}
	allowed := []freeDoor{{"internal/throttle/device", "OpenDir", "why"}}
	used := at("internal/throttle/device/x.go", "localfs.OpenDir(``)")
	for _, good := range []string{
		"localfs.IOContext{Ctx: ctx, Pass: pass}.OpenDir(``)", "localfs.IOContext{ctx, pass}.OpenSearchable(``)",
		"local.Open(``, pass)",
	} {
		require.Empty(t, pastTheGate([]*file{used, at("internal/backup/scan/x.go", good)}, allowed), good)
	}
	for _, bad := range []string{
		"localfs.OpenDir(``)", "use(localfs.OpenSearchable)", "localfs.IOContext{}.OpenDir(``)",
		"localfs.IOContext{Ctx: ctx}.OpenDir(``)",
		"localfs.IOContext{Ctx: ctx, Pass: nil}.OpenDir(``)", "local.Open(``, nil)", "local.Create(``, nil)", "dir.Ungated()",
	} {
		require.Len(t, pastTheGate([]*file{used, at("internal/backup/scan/x.go", bad)}, allowed), 1, bad)
	}
	require.Len(t, pastTheGate(nil, allowed), 1)
}
