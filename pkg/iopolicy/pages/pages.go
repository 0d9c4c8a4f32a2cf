// Package pages has the system's memory for files do what a program with an I/O policy needs: send what was written to
// the device now rather than half a minute later, when nobody can tell any more whose it is, and read no more than was
// asked for. It refuses to know when that is wanted.
package pages
