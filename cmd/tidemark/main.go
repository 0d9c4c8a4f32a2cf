// Command tidemark backs up directory trees and gets them back.
package main

import (
	"os"

	"github.com/tidemark-backup/tidemark/internal/cli"
)

func main() { os.Exit(cli.Main()) }
