// Package arch holds the tests of the repository itself: that imports point down, that files are opened in few places,
// that the documents speak of what exists. It has tests only, and nothing imports it.
//
// It reads the source files rather than asking the go command, because those of other platforms count as well. Each law
// is a function from sources to findings, so that a test can show it a broken example: a law that finds nothing because
// it looks at nothing would be worse than none.
package arch
