// Command tidemark-bench measures tidemark: beside other programs, beside a foreground, at scale, and on a share.
// docs/measurements/2026-11-performance.md says how to run it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/bench/peers"
	"github.com/tidemark-backup/tidemark/internal/bench/picture"
	"github.com/tidemark-backup/tidemark/internal/bench/policy"
	"github.com/tidemark-backup/tidemark/internal/bench/scale"
	"github.com/tidemark-backup/tidemark/internal/bench/share"
)

const usage = `usage: tidemark-bench COMMAND [flags]

  peers    tidemark beside other backup programs, on the same data
  policy   a foreground and a backup beside each other, under each I/O policy
  scale    time, memory and sizes with very many small files
  share    a repository on an SMB share
  picture  draw the pictures of the documents from what was recorded

tidemark-bench COMMAND -h lists the flags. Stages by themselves: go test -bench . ./internal/bench/stages
`

func main() {
	kit.Main("tidemark-bench", func(ctx context.Context) error { return run(ctx, os.Args[1:]) })
}

func run(ctx context.Context, args []string) error {
	commands := map[string]func(context.Context, []string) error{
		"peers": peers.Run, "policy": policy.Run, "scale": scale.Run, "share": share.Run,
		"picture":       picture.Run,
		peers.StartWord: peers.Start, kit.Word: kit.Print, // in processes of their own
	}
	if len(args) == 0 || commands[args[0]] == nil {
		return fmt.Errorf("name a command\n\n%s", usage)
	}
	return commands[args[0]](ctx, args[1:])
}
