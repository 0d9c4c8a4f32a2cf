package elsewhere

// dsmcCommands lists the commands of IBM's client for UNIX.
const dsmcCommands = `
archive | backup --tag | there are no archives: --tag archive marks a snapshot, 'forget --keep-tag archive' keeps it
backup group | backup | there are no groups: name several paths
backup image | backup | there are no image backups
backup nas | | there are no NAS backups
backup vm | | there are no backups of virtual machines
cancel restore | restore | a restore that was interrupted is continued or left alone
delete archive | forget | there are no archives: name the snapshots that 'tidemark snapshots --tag archive' lists
delete access | | a repository has keys, but no nodes: see 'tidemark key'
delete backup | forget; rewrite --exclude | forget removes whole snapshots, rewrite saves them again without some files
delete filespace | forget --path | removes whole snapshots
delete group | | there are no groups
expire | forget | removes snapshots by --keep-daily and its like
help | help
incremental | backup
loop | | there is no interactive mode
macro | | use a shell script
monitor process | tier show
preview backup | backup --dry-run
query access | key list
query archive | snapshots --tag | there are no archives: --tag archive lists the snapshots with that tag
query backup | find; ls
query filespace | snapshots
query group | | there are no groups
query image | | there are no image backups
query inclexcl | rules list; rules explain
query mgmtclass | forget | there are no management classes: --keep-daily and its like say what stays
query node | snapshots
query options | options
query restore | | a restore that was interrupted continues when it is started again
query schedule | job list
query session | target check; stats
query systeminfo | options; version
restart restore | restore | start the same command again
restore | restore
restore backupset | restore | there are no backup sets
restore group | restore | there are no groups
restore image | | there are no image backups
restore nas | | there are no NAS backups
restore vm | | there are no backups of virtual machines
retrieve | restore --tag | there are no archives: --tag archive selects the snapshots with that tag
schedule | service install; status | the service follows the schedules of its jobs
selective | backup --force
set access | key add
set event | job edit --schedule | jobs have schedules of their own
set password | key add; key remove | add the new key, then remove the old one
`

const dsmcVariables = `
DSM_CONFIG | TIDEMARK_OPTIONS
`
