// Package share holds the tests of the engine as a whole against SMB shares: backup, restore and check together, with
// a real Samba that the tests start, kill, cut off, fill and have lie. What one operation of the store does in such a
// moment is tested beside the store; here it is asked what becomes of a backup.
//
// The same is demanded after everything that happens to a server in the middle of a backup:
//
//   - the backup finishes by itself, or it ends with an error that says what it is and what to do;
//   - what was acknowledged is there, every byte, and what an index names is not sent again by the next run;
//   - an index never names a pack that is not whole: this is looked at on the server's disk at the moment before each
//     index segment goes out, and once more at the end;
//   - a check that reads all data finds nothing, and a restore brings back every byte and attribute.
//
// Moments are counted in packs and in messages, never in time, and are the same in every run.
package share
