// Command tidemark backs up directory trees and gets them back.
package main

import (
	"os"

	"github.com/tidemark-backup/tidemark/internal/cli"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

func main() { os.Exit(cli.Main(keyfile.DefaultParams())) }
