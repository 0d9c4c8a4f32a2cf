// Command tidemark backs up directory trees and gets them back.
package main

import (
	"os"
	"runtime"

	"github.com/tidemark-backup/tidemark/internal/cli"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

// init keeps the first thread of the process for main, which cli.Main lets wait. The kernel hands a signal for the
// process to that thread if it can, even while a mount leaves a call of the thread without an answer.
func init() { runtime.LockOSThread() }

func main() { os.Exit(cli.Main(keyfile.DefaultParams())) }
