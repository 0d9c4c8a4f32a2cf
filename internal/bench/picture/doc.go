// Package picture records a backup beside a program that comes and goes, and draws it as an SVG:
//
//	tidemark-bench picture [-pictures DIR] [-size MIB] [-dir DIR]   record and draw; needs root
//	tidemark-bench picture -draw [-pictures DIR]                    draw all pictures from what was recorded
//
// The events are those that `tidemark backup --json` prints, shortened to what is drawn, and the reads of the other
// program. Two more pictures are recorded by tidemark-bench policy -pictures: the curve of what others keep against the
// speed of the backup, and the trace of slot grants. The same events give the same bytes of SVG, so a test holds the
// pictures in the documents to their events.
package picture
