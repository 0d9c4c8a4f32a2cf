// Package address says which folder of which share is meant, and who wants to use it: how people write that, and what is a
// mistake in it. It keeps apart what may be shown and what may not, and refuses to know how servers are spoken to.
package address
