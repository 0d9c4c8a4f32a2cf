package daemon

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/drill"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// notes returns the notes since the last call.
func notes(w *world) (all []string) {
	for _, e := range w.take() {
		if e.Kind == record.Note {
			all = append(all, e.Text)
		}
	}
	return all
}

// TestDamageStandsUntilACheckFindsItHealed: between two checks that read data, a run of a job whose repository is
// damaged looks again, fails, and proves nothing. The first check without a finding ends that, and says so.
func TestDamageStandsUntilACheckFindsItHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly(), "CHECKEVERY 168h"))
		damaged := Result{ExitCode: 1, Message: "the repository is damaged: 1 problem found",
			Summary: []byte(`{"message_type":"summary","num_errors":1}`)}
		check, args := damaged, []string(nil)
		w.set(func() {
			w.result = func(s Step) (time.Duration, Result) {
				if s.Name == "check" {
					args = s.Args
					return time.Minute, check
				}
				return time.Minute, Result{}
			}
		})
		s, stop := w.orders()
		time.Sleep(20 * time.Minute)
		require.Equal(t, []string{"home schedule failed"}, w.runs())
		require.Equal(t, "damaged", only(t, s).State)
		require.Contains(t, only(t, s).Damage, "1 problem found")
		require.Zero(t, only(t, s).LastProven)
		require.True(t, readsData(args))
		for range 5 {
			time.Sleep(time.Hour)
			require.Equal(t, []string{"home schedule failed"}, w.runs(), "no all-clear while the damage stands")
			require.False(t, readsData(args), "it only looks for known damage")
			require.Zero(t, only(t, s).LastProven)
		}
		w.set(func() { check = Result{} })
		time.Sleep(time.Hour)
		require.Equal(t, []string{"The damage of the repository that was found before is healed"}, notes(w))
		require.Equal(t, "idle", only(t, s).State)
		require.NotZero(t, only(t, s).LastProven)
		w.started()
		time.Sleep(time.Hour)
		require.False(t, slices.Contains(w.started(), "home check"), "no check is due")
		require.NoError(t, stop())
	})
}

// TestAFailedDrillIsDamage: a file that a drill could not restore counts as damage until a check or a drill finds none.
func TestAFailedDrillIsDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly(), "DRILLEVERY 1h"))
		line, err := json.Marshal(event.Of("drill", &drill.Result{Files: 20, Failed: 1}))
		require.NoError(t, err)
		drilled := Result{ExitCode: 1, Message: "1 of 20 not restored", Summary: line}
		w.set(func() {
			w.result = func(s Step) (time.Duration, Result) {
				if s.Name == "drill" {
					return time.Minute, drilled
				}
				return time.Minute, Result{}
			}
		})
		s, stop := w.orders()
		time.Sleep(20 * time.Minute)
		require.Equal(t, "damaged", only(t, s).State)
		require.Equal(t, "drill: 1 of 20 not restored", only(t, s).Damage)
		w.set(func() { drilled = Result{} })
		time.Sleep(time.Hour)
		require.Empty(t, only(t, s).Damage)
		require.NoError(t, stop())
	})
}

// What a command by hand recorded on this machine counts for the service at once, damage and its end.
func TestTheServiceKnowsDamageThatWasFoundByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", every{time.Minute, 0}))
		known, broken := proofs.Damage{}, false
		w.config.Damage = func(*job.Job) (d proofs.Damage) { w.set(func() { d = known }); return d }
		w.set(func() {
			w.result = func(s Step) (time.Duration, Result) {
				if s.Name == "check" && broken {
					return time.Second, Result{ExitCode: 1, Summary: []byte(`{"num_errors":1}`)}
				}
				if s.Name == "check" {
					known = proofs.Damage{At: w.wall()}
				}
				return time.Second, Result{}
			}
		})
		s, stop := w.orders()
		time.Sleep(90 * time.Second)
		require.Empty(t, only(t, s).Damage)
		require.Equal(t, []string{"home backup"}, w.started(), "nothing is known")
		w.set(func() { known, broken = proofs.Damage{At: w.wall(), Problems: 2}, true })
		require.Equal(t, "damaged", only(t, s).State)
		require.Contains(t, only(t, s).Damage, "2 problems")
		w.take()
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"home schedule failed", "home schedule failed"}, w.runs())
		require.Equal(t, []string{"home backup", "home check", "home backup", "home check"}, w.started(), "after each backup")
		w.set(func() { broken = false })
		time.Sleep(time.Minute)
		require.Equal(t, []string{"home schedule done"}, w.runs(), "the backup healed it")
		require.Equal(t, []string{"home backup", "home check"}, w.started())

		w.set(func() { known, broken = proofs.Damage{At: w.wall(), Problems: 2}, true })
		time.Sleep(time.Minute)
		require.NotEmpty(t, only(t, s).Damage)
		w.set(func() { known, broken = proofs.Damage{At: w.wall()}, false })
		require.Empty(t, only(t, s).Damage, "a check by hand found nothing")
		w.started()
		time.Sleep(time.Minute)
		require.Equal(t, []string{"home backup"}, w.started())
		require.NoError(t, stop())
	})
}

// TestNothingIsProvenInARunThatFailed: a check without a finding does not count in a run with a step that failed,
// before it or after it.
func TestNothingIsProvenInARunThatFailed(t *testing.T) {
	for _, fails := range []string{"forget", "check", "drill"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, makeJob(t, "home", hourly(), "KEEPSNAPSHOTS time-machine", "CHECKEVERY 1h", "DRILLEVERY 1h"))
			w.set(func() {
				w.result = func(s Step) (time.Duration, Result) {
					if s.Name == fails {
						return time.Minute, Result{ExitCode: 1}
					}
					return time.Minute, Result{}
				}
			})
			s, stop := w.orders()
			time.Sleep(20 * time.Minute)
			steps := w.started()
			require.Contains(t, steps, "home check", fails)
			require.Contains(t, steps, "home drill", fails)
			require.Zero(t, only(t, s).LastProven, fails)
			w.set(func() { w.result = func(Step) (time.Duration, Result) { return time.Minute, Result{} } })
			time.Sleep(time.Hour)
			require.NotZero(t, only(t, s).LastProven, fails)
			require.NoError(t, stop())
		})
	}
}
