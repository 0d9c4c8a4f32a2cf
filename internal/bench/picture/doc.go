// Package picture records a backup beside a program that comes and goes, and draws it as an SVG:
//
//	tidemark-bench picture [-events FILE] [-svg FILE] [-size MIB] [-dir DIR]   record and draw; needs root
//	tidemark-bench picture -draw [-events FILE] [-svg FILE]                    draw what was recorded
//
// The events are those that `tidemark backup --json` prints, shortened to what is drawn, and the reads of the other
// program. The same events give the same bytes of SVG, so a test holds the picture in the documents to its events.
package picture
