// Package iopolicy is a tiered I/O policy in user space: jobs of a worse tier give way to the I/O of better ones, per
// device, by the windows and I/O periods of the kernel of macOS.
//
// A program makes one [Gate] for each device and one [Client] for each job. The client's [Pass] through the gate leads
// every operation: Begin waits until it may go and says how large it may be, End tells that it is over. [Reader],
// [Writer] and [File] do so for whom that is enough. What a device is, who else uses it and whether the user is away, the
// package does not know: it is told by [Watcher], [Peers], [Meter] and Config.Idle.
//
// # Rules
//
// The rules and numbers are those of xnu-11417 (bsd/miscfs/specfs/spec_vnops.c), written down in its own words:
//
//   - A policy has a tier: important 0, standard 1, utility 2, throttle 3. Only strictly better tiers throttle a tier.
//     Passive is tier 0 and throttles nobody. While nobody uses the machine, tier 3 is tier 2.
//   - I/O of a tier opens its window when it begins and again when it ends; as long as it is on the device the window is
//     open in any case. How long the window stays open is a matter of who looks: 25 ms for tier 1, 100 ms for tier 2, 500
//     ms for tier 3.
//   - While no window of a better tier is open, a tier is disengaged: any operation at once, at any size.
//   - In a window, if no I/O was charged in the present period, a tier is engaged: an operation may go at once, no larger
//     than 128 KiB. Several may, until one of them is charged.
//   - In a window, if an I/O was charged in the present period, the state is now: the operation sleeps, first come first
//     served within its tier. If it is the first of its tier to sleep, the tier's period counts from the issue of its last
//     charged I/O: 40, 85 and 200 ms for tiers 1 to 3 on a disk that turns, 5, 15 and 25 ms on solid state.
//   - When the period of a tier with sleepers is over, there is a turn. Tiers take turns: 3, 2, 1, 3. The first sleeper of
//     the tier goes, a new period begins, and the periods of this tier and of all better ones count from now. Turns are
//     never closer than the period of tier 1, counted from the last turn and from where tier 1's period began.
//   - A turn that was not used up after a millisecond, because whoever has it found all in a cache or has nothing more to
//     do, goes to the next sleeper of the tier as well, in the same period. The kernel need not do this: there, who needs
//     no device never sleeps.
//   - At a turn all sleepers go whose windows have closed; not sooner. So a tier is at full speed again within its window
//     and one period of the last better I/O. Better I/O that comes during a sleep does not make it longer: one I/O each
//     period always goes.
//   - A change of policy decides anew about the sleepers of that client, at once. Who must sleep on does so before the
//     others of the new tier.
//
// The kernel lets an operation go and puts its thread to sleep afterwards, when it holds no locks. Here the sleep is
// before the operation, so that nobody sleeps holding a result others wait for, and these follow:
//
//   - An operation is charged when it ends, if it reached the device, but to the period and moment of its issue. An
//     operation that is certain to reach it is charged when it is issued. What a cache answered is free: it uses up no
//     period and opens no window. See [Grant.End] for how that is told.
//   - Calls that a cache answers may share an operation outside windows: see [Series]. If one of them reaches the device
//     after all, they are charged as one, and who uses the device waits for those that are left: at most so many as the
//     program says, once, for the next ones are single again.
//   - A sleeper whose time has come goes at once, where the kernel's timer takes a millisecond at least.
//   - While all clients of a gate are of tier 0, nobody needs to know when they were at the device, and nobody asks the
//     clock. Who joins them sees what they have in flight, and all that begins from then on.
//
// # Others' I/O
//
// The gate asks its [Watcher] at the boundaries of its own operations and never by a timer: at the first use by a client
// that may have to wait, then at Begin and End when the watcher's interval has passed. It does not wait a window's length
// at the start to learn what happened before: that would cost every short job half a second, and the first operations are
// where the watcher learns to tell own from foreign bytes. What others do shows within one interval.
//
// When somebody sleeps and no own operation is on the device, there is a gap: whatever happens at the device is foreign.
// The gate asks at the beginning of the gap and before a sleeper's turn, and nothing of its own begins while it asks. Two
// moments with the same number of operations begun and none in flight enclose a gap exactly.
//
// Peers are other processes with gates for the same device. Their windows count like own ones; for a turn in a window the
// gate claims the slot from them.
//
// # Costs
//
// Begin and End of an operation that is disengaged take no lock and allocate nothing: two readings of the clock and some
// counting, which tier 0 need not have the clock for when it is alone. A sleep costs a timer, which the gate's sleepers
// share.
package iopolicy
