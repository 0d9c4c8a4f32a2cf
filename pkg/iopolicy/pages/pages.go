// Package pages gives the page cache hints for programs with an I/O policy: write dirty pages to the device now rather
// than half a minute later, when their process is no longer known, and read no more than was requested.
package pages
