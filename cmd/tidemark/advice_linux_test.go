package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// What a message about a full target says to do works as it is typed.
func TestTheAdviceForAFullTargetWorks(t *testing.T) {
	s := newStage(t)
	_, rest, found := strings.Cut(store.FreeSpace, "'tidemark ")
	command, _, quoted := strings.Cut(rest, "'")
	require.True(t, found && quoted)
	s.do(append(strings.Fields(command), "--password-file", s.at("password"))...)
}
