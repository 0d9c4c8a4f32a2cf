// Package elsewhere maps the commands, flags and environment variables of other backup programs to tidemark's. It holds
// data: the command line looks words up in it, and tests compare it with the command tree and with the guides.
package elsewhere
