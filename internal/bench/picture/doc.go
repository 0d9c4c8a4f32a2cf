// Package picture draws the pictures of the documents as SVG, from what was recorded for each:
//
//	tidemark-bench picture [-pictures DIR]
//
// The picture of the README is a backup beside a program that comes and goes: the events that `tidemark backup --json`
// prints, shortened to what is drawn, and the reads of the other program. tidemark-bench policy -pictures records the
// others: the curve of what others keep against the speed of the backup, and the trace of slot grants. The same events
// give the same bytes of SVG, so a test holds the pictures in the documents to their events.
package picture
