package elsewhere

// kopiaCommands lists the commands of kopia 0.2x that users of the command line meet; its groups of low-level commands
// have one row each.
const kopiaCommands = `
benchmark | bench
blob | check | low-level objects are not listed
cache | cache
content | check | low-level objects are not listed
diff | diff
index | repair index
list | ls
logs | log | of the service; --error-log writes a file
ls | ls
maintenance | prune
maintenance run | prune
maintenance info | stats
mount all | mount | | mount LAST
manifest | snapshots | low-level objects are not listed
notification | | use the exit code, or --json
policy | options | options come from flags, the environment and an option file
policy edit | options | edit the option file
policy export | options --json
policy import | options | edit the option file
policy list | options
policy remove | options | edit the option file
policy set | options; forget | write KEEPSNAPSHOTS, COMPRESSION and such into the option file
policy show | options
repo | init
repo connect | options | name it with --repo or TIDEMARK_REPOSITORY | snapshots --repo REPO
repo create | init | | init --repo REPO
repo status | stats; target check
repository | init
repository change-password | key add; key remove | add the new key, then remove the old one
repository connect | options | name it with --repo or TIDEMARK_REPOSITORY | snapshots --repo REPO
repository create | init | | init --repo REPO
repository disconnect | | there is no connection
repository repair | repair
repository status | stats; target check
repository sync-to | copy
repository throttle | --limit-upload; --limit-download; --policy
repository validate-provider | target check
restore | restore | | restore latest --target LAST
server | service install; serve webdav | the service runs jobs by schedule
session | | there are no sessions to list
show | dump
snap | snapshots; backup
snap create | backup | | backup PATHS
snap list | snapshots
snap ls | snapshots
snap restore | restore | | restore latest --target LAST
snapshot | snapshots; backup
snapshot copy-history | copy
snapshot create | backup | | backup PATHS
snapshot delete | forget
snapshot estimate | backup --dry-run
snapshot expire | forget
snapshot fix | repair snapshots; rewrite
snapshot list | snapshots
snapshot ls | snapshots
snapshot migrate | copy
snapshot pin | tag; forget --keep-tag | tag the snapshot and keep that tag
snapshot restore | restore | | restore latest --target LAST
snapshot verify | check --read-data
`

const kopiaFlags = `
--add-dot-ignore | --ignore-file
--add-ignore | --exclude
--add-only-compress | --compression
--all | backup | name the paths, or set DOMAIN in an option file
--cache-directory | --cache-dir
--config-file | --option-file
--end-time | backup --time
--fail-fast | | a file that cannot be read never ends a backup; the exit code is 3
--file-parallelism | --readers
--force-enable-actions | | there are no actions: use a script
--force-hash | backup --force; --reread-days
--global | options | lines before the first SERVERNAME apply to all jobs
--ignore-errors | restore | a restore goes on after an error; the exit code is 1
--ignore-permission-errors | restore | metadata that cannot be set is counted and no failure
--keep-annual | forget --keep-yearly
--keep-latest | forget --keep-last
--log-level | --verbose; --quiet
--max-parallel-file-reads | --readers
--no-progress | --quiet
--overwrite-files | restore --overwrite
--override-hostname | --host
--parallel | --resource-utilization
--path | --repo
--pin | backup --tag; forget --keep-tag
--progress-update-interval | --progress-interval
--safety | prune | prune is safe beside running backups
--skip-existing | restore --overwrite
--skip-owners | | only root can set owners
--snapshot-time | restore --path | name the snapshot by its ID
--start-time | backup --time
--stdin-file | backup --stdin-filename
--tags | backup --tag
--upload-limit-mb | | a backup is complete or continues in the next run
--verify-files-percent | check --read-data-subset
--write-files-atomically | restore | files are always complete before they get their name
--write-sparse-files | restore | holes are never written
`

const kopiaVariables = `
KOPIA_PASSWORD | TIDEMARK_PASSWORD
KOPIA_CONFIG_PATH | TIDEMARK_OPTIONS
KOPIA_CACHE_DIRECTORY | TIDEMARK_CACHE_DIR
`
