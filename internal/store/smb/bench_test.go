package smb_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
)

const (
	packSize = 16 << 20 // as a session makes them
	packs    = 8        // in one round
)

// putAll stores the packs with the given number of parallel uploads and returns the duration.
func putAll(b *testing.B, st store.Store, data [][]byte, uploads int) time.Duration {
	b.Helper()
	began := time.Now()
	var group errgroup.Group
	group.SetLimit(uploads)
	for i, p := range data {
		group.Go(func() error { return st.Put(b.Context(), pack(i), p) })
	}
	require.NoError(b, group.Wait())
	return time.Since(began)
}

func bodies() [][]byte {
	var all [][]byte
	for i := range packs {
		all = append(all, storetest.Pattern(packSize, uint64(i)))
	}
	return all
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkPutAgainstSmbclient stores large packs and has smbclient store the same bytes, in turn. The ratio is that of
// rates: above 1 this package is faster, although it flushes and reads back, which smbclient does not.
func BenchmarkPutAgainstSmbclient(b *testing.B) {
	client, err := exec.LookPath("smbclient")
	if err != nil {
		b.Skip("needs smbclient")
	}
	s := smbtest.Start(b, smbtest.Config{})
	st := create(b, target(s, "ours"), smb.Options{})
	data, folder := bodies(), b.TempDir()
	script := []string{"lcd " + folder}
	for i, p := range data {
		name := fmt.Sprint("pack", i)
		require.NoError(b, os.WriteFile(filepath.Join(folder, name), p, 0o600))
		script = append(script, "put "+name)
	}
	putAll(b, st, data, 4)
	var ratios, rates []float64
	for b.Loop() {
		ours := putAll(b, st, data, 4)
		began := time.Now()
		cmd := exec.Command(client, "//127.0.0.1/"+smbtest.Share, "-p", fmt.Sprint(s.Port), "-U", s.User+"%"+smbtest.Password,
			"-c", strings.Join(script, "; "))
		out, err := cmd.CombinedOutput()
		require.NoError(b, err, "%s", out)
		theirs := time.Since(began)
		ratios = append(ratios, float64(theirs)/float64(ours))
		rates = append(rates, packs*packSize/1e6/ours.Seconds())
	}
	b.ReportMetric(median(ratios), "x-smbclient")
	b.ReportMetric(median(rates), "MB/s")
}

// BenchmarkPutOverDelay compares, over a line of 15 ms there and back, the pool as it is with one session on which one
// request is under way at a time.
func BenchmarkPutOverDelay(b *testing.B) {
	s := smbtest.Start(b, smbtest.Config{})
	p := smbtest.NewProxy(b, s.Addr(), 15*time.Millisecond)
	pool := create(b, through(p, s), smb.Options{})
	single := create(b, through(p, s), smb.Options{Parallel: smb.Parallel{Sessions: 1, Inflight: 1}})
	data := bodies()
	putAll(b, pool, data, 4)
	var ratios, rates []float64
	for b.Loop() {
		slow := putAll(b, single, data[:2], 1) * packs / 2
		fast := putAll(b, pool, data, 4)
		ratios = append(ratios, float64(slow)/float64(fast))
		rates = append(rates, packs*packSize/1e6/fast.Seconds())
	}
	b.ReportMetric(median(ratios), "x-single")
	b.ReportMetric(median(rates), "MB/s")
}
