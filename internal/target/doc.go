// Package target tests whether a disk or share is suitable for a repository, and measures how fast it takes files.
//
// The probes use the store that a backup uses, in a scratch folder that is removed afterwards. A bad result is proof. A
// good result is evidence only: the client of a share may answer from its cache, and a server may acknowledge a flush
// that it did not do. tidemark reads back what it wrote in any case.
package target
