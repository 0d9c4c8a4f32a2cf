package arch

import (
	"go/ast"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// throttleFolder connects watchers and gates.
const (
	throttleFolder = "internal/throttle"
	policyImport   = module + "/pkg/iopolicy"
)

// watcherFolders hold watchers, which gates call while they are locked.
func watcherFolders() []string {
	return []string{"internal/throttle/foreign", "pkg/iopolicy/diskwatch"}
}

// gateWords are the names by which one gets at a gate.
func gateWords() []string { return []string{"Gate", "Gates", "Pass", "Client", "Grant", "New"} }

// backToGates finds uses of a gate in what a gate calls: the packages of watchers, and in throttleFolder the functions
// given to a watcher or to a gate, with all that they call there. What a go statement starts holds no lock.
func backToGates(files []*file) (out []string) {
	funcs := map[string][]ast.Node{}
	at := map[ast.Node]*file{}
	var roots []ast.Node
	for _, f := range files {
		switch {
		case f.test():
		case slices.Contains(watcherFolders(), f.dir()):
			out = append(out, gatesIn(f, f.ast)...)
		case f.dir() == throttleFolder:
			for _, decl := range f.ast.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok || fn.Body == nil {
					continue
				}
				at[fn.Body] = f
				funcs[fn.Name.Name] = append(funcs[fn.Name.Name], fn.Body)
				if fn.Recv != nil && slices.Contains([]string{"Look", "NeedsGaps", "Interval"}, fn.Name.Name) {
					roots = append(roots, fn.Body)
				}
			}
			for _, given := range givenIn(f) {
				at[given] = f
				roots = append(roots, given)
			}
		}
	}
	seen := map[ast.Node]bool{}
	var follow func(f *file, n ast.Node)
	follow = func(f *file, n ast.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		out = append(out, gatesIn(f, n)...)
		called(n, func(name string) {
			for _, body := range funcs[name] {
				follow(at[body], body)
			}
		})
	}
	for _, n := range roots {
		follow(at[n], n)
	}
	return out
}

// givenIn returns the values of literals of foreign.Options and iopolicy.Config in a file, and what is assigned to a
// field of a variable opt.
func givenIn(f *file) (given []ast.Node) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			kind, ok := n.Type.(*ast.SelectorExpr)
			if !ok || kind.Sel.Name != "Options" && kind.Sel.Name != "Config" {
				return true
			}
			for _, e := range n.Elts {
				given = append(given, e)
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if field, ok := left.(*ast.SelectorExpr); ok && len(n.Rhs) == len(n.Lhs) {
					if opt, ok := field.X.(*ast.Ident); ok && opt.Name == "opt" {
						given = append(given, n.Rhs[i])
					}
				}
			}
		}
		return true
	})
	return given
}

// called calls use for each name in n that may be that of a function, except in go statements.
func called(n ast.Node, use func(name string)) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			return false
		case *ast.KeyValueExpr:
			called(n.Value, use)
			return false
		case *ast.SelectorExpr:
			use(n.Sel.Name)
		case *ast.Ident:
			use(n.Name)
		}
		return true
	})
}

// gatesIn finds fields called gate, and names of gates in the package of the I/O policy.
func gatesIn(f *file, n ast.Node) (out []string) {
	policy := f.importName(policyImport)
	ast.Inspect(n, func(n ast.Node) bool {
		if _, starts := n.(*ast.GoStmt); starts {
			return false
		}
		if s, ok := n.(*ast.SelectorExpr); ok {
			x, _ := s.X.(*ast.Ident)
			if s.Sel.Name == "gate" || s.Sel.Name == "Gate" || x != nil && policy != "" && x.Name == policy &&
				slices.Contains(gateWords(), s.Sel.Name) {
				out = append(out, f.at(s.Pos())+": a gate calls this, and it uses a gate")
			}
		}
		return true
	})
	return out
}

// A gate is locked while it calls its watcher. A call back into the gate never returned.
func TestNothingLeadsFromAWatcherToAGate(t *testing.T) {
	none(t, backToGates(goFiles(sources(t), false)))
}

func TestWatcherLawFindsWaysBack(t *testing.T) {
	check := func(folder, body string) []string {
		return backToGates([]*file{parse(t, folder+"/x.go", `package x
			import "`+policyImport+`"
			var _ iopolicy.Bytes
			func (e *entry) add() {
				opt := foreign.Options{Peers: e.peers, Served: func() { e.served() }}
				opt.Elsewhere = func() { e.elsewhere() }
				e.gate = iopolicy.New(iopolicy.Config{Watcher: watcher{e}})
			}
			func (e *entry) served() { go e.apply() }
			func (e *entry) apply() { e.gate.SetMedium() }
			func (e *entry) report() { e.gate.Stats() }
			`+body)})
	}
	for _, good := range []string{
		"func (e *entry) elsewhere() { e.all() }\nfunc (e *entry) all() {}", "func (w watcher) Look() { w.Watcher.Look() }",
	} {
		require.Empty(t, check(throttleFolder, good), good)
	}
	for _, bad := range []string{
		"func (e *entry) elsewhere() { e.gate.Own() }",
		"func (e *entry) elsewhere() { e.all() }\nfunc (e *entry) all() { e.report() }",
		"func (e *entry) peers() { e.report() }",
		"func (w watcher) Look() { w.e.gate.Stats() }",
		"func (w watcher) Look() { look(w) }\nfunc look(w watcher) { w.e.gate.Stats() }",
	} {
		require.Len(t, check(throttleFolder, bad), 1, bad)
	}
	for _, folder := range watcherFolders() {
		require.Len(t, backToGates([]*file{parse(t, folder+"/x.go", "package x\nimport \""+policyImport+
			"\"\nfunc f(g *iopolicy.Gate) {}\n")}), 1, folder)
	}
}
