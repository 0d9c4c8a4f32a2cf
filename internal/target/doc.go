// Package target finds out what a folder does that is to hold a repository: whether a rename replaces a file at one
// moment, whether a flush takes the time a device needs, what becomes of names, whose clock stamps the files. It also
// measures how fast the place takes files: one large one, then many small ones at once.
//
// # What a probe proves
//
// A probe tries something and reports what came of it, with the evidence. What goes wrong is proof; what goes well is
// evidence only: a share's client may answer from its own cache, and a server that promises a flush may not keep it. So
// a good verdict is no reason to trust, and tidemark reads back what it wrote in any case; a bad one says in advance
// what to expect, and what is done about it.
//
// # What it leaves behind
//
// Nothing. Probes write into a folder of their own, whose name begins as those of the stores' temporary files do, so
// that nobody takes it for a part of a repository. It is removed at the end, also when the run is called off; that of a
// program that was killed is removed by the next probe, a day later by the clock of the target.
//
// It refuses to know what a repository is, where shares are mounted from a URL, and how anything is shown.
package target
