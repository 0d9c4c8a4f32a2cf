package rules

import (
	"slices"
	"strings"
)

// node is a position in one or many patterns. The patterns of a set share the nodes of their common beginnings, so a
// directory's state is a short list of nodes however many patterns there are.
type node struct {
	literals map[string]*node
	prefixes affixes
	suffixes affixes
	globs    []edge
	any      *node   // reached by every name
	deep     *node   // reached without consuming a name; stays reached below
	loop     bool    // this is the deep node of another: once reached, it stays
	ends     []int32 // rules that match when this node is reached
}

type edge struct {
	glob glob
	to   *node
}

// affixes finds prefixes (or suffixes) of a name by one map lookup per distinct length.
type affixes struct {
	nodes map[string]*node
	lens  []int
}

func (a *affixes) child(text string) *node {
	if n := a.nodes[text]; n != nil {
		return n
	}
	if a.nodes == nil {
		a.nodes = make(map[string]*node)
	}
	n := &node{}
	a.nodes[text] = n
	if !slices.Contains(a.lens, len(text)) {
		a.lens = append(a.lens, len(text))
	}
	return n
}

// insert adds the pattern beneath n, with the rule at its end.
func (n *node) insert(pattern []glob, rule int32) {
	for _, g := range pattern {
		n = n.child(g)
	}
	n.ends = append(n.ends, rule)
}

func (n *node) child(g glob) *node {
	switch g.kind {
	case globDeep:
		if n.loop {
			return n // two successive deep components equal one
		}
		if n.deep == nil {
			n.deep = &node{loop: true}
		}
		return n.deep
	case globLiteral:
		return n.literal(g.text)
	case globAny:
		if n.any == nil {
			n.any = &node{}
		}
		return n.any
	case globPrefix:
		return n.prefixes.child(g.text)
	case globSuffix:
		return n.suffixes.child(g.text)
	}
	for _, e := range n.globs {
		if e.glob.text == g.text {
			return e.to
		}
	}
	to := &node{}
	n.globs = append(n.globs, edge{g, to})
	return to
}

func (n *node) literal(name string) *node {
	if to := n.literals[name]; to != nil {
		return to
	}
	if n.literals == nil {
		n.literals = make(map[string]*node)
	}
	to := &node{}
	n.literals[name] = to
	return to
}

// leaf reports whether n leads to no other node.
func (n *node) leaf() bool {
	return n.literals == nil && n.prefixes.nodes == nil && n.suffixes.nodes == nil && n.globs == nil && n.any == nil &&
		n.deep == nil && !n.loop
}

// step appends to out the nodes that name leads to from n, each once.
func (n *node) step(name []byte, out []*node) []*node {
	if n.literals != nil {
		out = reach(n.literals[string(name)], out)
	}
	for _, l := range n.suffixes.lens {
		if l <= len(name) {
			out = reach(n.suffixes.nodes[string(name[len(name)-l:])], out)
		}
	}
	for _, l := range n.prefixes.lens {
		if l <= len(name) {
			out = reach(n.prefixes.nodes[string(name[:l])], out)
		}
	}
	for i := range n.globs {
		if n.globs[i].glob.match(name) {
			out = reach(n.globs[i].to, out)
		}
	}
	return reach(n.any, out)
}

// reach adds n and the nodes reached with it, without duplicates.
func reach(n *node, out []*node) []*node {
	for ; n != nil; n = n.deep {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// advance steps every active node and the start node, which is active everywhere.
func advance(start *node, active []*node, name []byte, out []*node) []*node {
	out = start.step(name, out)
	for _, n := range active {
		out = n.step(name, out)
		if n.loop {
			out = reach(n, out)
		}
	}
	return out
}

// keep returns a copy of the nodes that lead to others.
func keep(nodes []*node) []*node {
	var kept []*node
	for _, n := range nodes {
		if !n.leaf() {
			kept = append(kept, n)
		}
	}
	return kept
}

// pattern is a parsed path pattern.
type pattern struct {
	parts    []glob // of a name each, or of any number of directories
	anchored bool   // starts at the root rather than anywhere
}

// parsePattern compiles the components of a path pattern; deep is the word for any number of directories.
func parsePattern(parts []string, deep string, syn syntax) (pattern, error) {
	var p pattern
	for _, text := range parts {
		if text == deep {
			p.parts = append(p.parts, glob{kind: globDeep})
			continue
		}
		g, err := compileGlob(text, syn)
		if err != nil {
			return pattern{}, err
		}
		p.parts = append(p.parts, g)
	}
	return p, nil
}

// splitPath splits at slashes and drops empty components.
func splitPath(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(s string) bool { return s == "" })
}
