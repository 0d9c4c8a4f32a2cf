package browse

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/store"
)

// Prices are what the provider of a store charges, in any currency.
type Prices struct {
	Put, Get, Delete float64 // for 1,000 requests, in the classes of report.Requests
	Stored           float64 // for a GB (10^9 bytes) and month
	Out              float64 // for a GB that is read
}

// ParsePrices reads "put=0.005,get=0.0004,stored=0.023,out=0.09". What is not named costs nothing.
func ParsePrices(text string) (Prices, error) {
	var p Prices
	at := map[string]*float64{"put": &p.Put, "get": &p.Get, "delete": &p.Delete, "stored": &p.Stored, "out": &p.Out}
	for word := range strings.SplitSeq(text, ",") {
		name, number, _ := strings.Cut(strings.TrimSpace(word), "=")
		price, err := strconv.ParseFloat(number, 64)
		to := at[name]
		if to == nil || err != nil || price < 0 || price > 1e9 || math.IsNaN(price) {
			return Prices{}, fmt.Errorf("%q is no price: write put=0.005,get=0.0004,delete=0,stored=0.023,out=0.09", word)
		}
		*to = price
		delete(at, name) // a second price is a mistake
	}
	return p, nil
}

const (
	listed = 1000    // objects in an answer to LIST
	gb     = 1e9     // bytes
	piece  = 4 << 20 // bytes that check reads with one request; a restore reads half of it

	// What a backup sends that finds nothing changed: leases, trees, segment and snapshot; lists; and what it reads.
	backupPuts, backupLists, backupGets, backupDeletes = 6, 7, 9, 3
)

// Month returns what storing the repository costs for a month. s must be of the mode WholeRepository.
func (s *Statistics) Month(p Prices) float64 {
	var bytes uint64
	for _, k := range s.Kinds {
		bytes += k.Bytes
	}
	return float64(bytes) / gb * p.Stored
}

// Runs estimates what a backup that finds nothing changed, check --read-data, and a restore of all data cost, without a
// cache. Its numbers were compared with runs over a bucket of 57 MiB only, by TestRequests. s must be of the mode
// WholeRepository.
func (s *Statistics) Runs(p Prices) []event.RunCost {
	files, lists := map[store.Kind]KindSize{}, uint64(1) // packs have two folders
	for _, k := range s.Kinds {
		files[k.Kind] = k
		lists += 1 + k.Files/listed
	}
	packs, index, snapshots := files[store.Pack], files[store.Index], files[store.Snapshot]
	more := index.Files/listed + snapshots.Files/listed
	read := index.Bytes + snapshots.Bytes + packs.Bytes
	runs := []event.RunCost{
		{Name: "unchanged backup", Requests: report.Requests{Put: backupPuts + backupLists + more, Get: backupGets,
			Delete: backupDeletes}},
		{Name: "check --read-data", Out: read, Requests: report.Requests{Put: lists,
			Get: 2*s.Data.Packs + 8*s.Trees.Packs + packs.Bytes/piece + 3*index.Files + snapshots.Files + 6}},
		{Name: "full restore", Out: read, Requests: report.Requests{Put: 2 + more,
			Get: s.Trees.Packs + 2*packs.Bytes/piece + index.Files + snapshots.Files + 4}},
	}
	for i := range runs {
		r := &runs[i]
		r.Cost = (float64(r.Requests.Put)*p.Put+float64(r.Requests.Get)*p.Get+float64(r.Requests.Delete)*p.Delete)/1000 +
			float64(r.Out)/gb*p.Out
	}
	return runs
}
