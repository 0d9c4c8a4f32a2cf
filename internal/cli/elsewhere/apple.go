package elsewhere

// tmutilCommands lists the verbs of Time Machine's tmutil.
const tmutilCommands = `
addexclusion | --exclude; --exclude-time-machine | EXCLUDEPATTERN keeps it; exclusions set on files apply
associatedisk | | snapshots record paths, not disks
calculatedrift | diff; snapshots
compare | diff | diff of one snapshot compares it with the files on this machine
delete | forget; prune | forget removes snapshots, prune frees their space
deleteinprogress | prune | removes what an interrupted backup left
deletelocalsnapshots | | tidemark makes no local snapshots of the file system
destinationinfo | options; target check
disable | service uninstall | or job pause, for some time
enable | service install
inheritbackup | --host | all machines share a repository
isexcluded | rules explain
latestbackup | snapshots --latest
listbackups | snapshots
listlocalsnapshotdates | snapshots
listlocalsnapshots | snapshots
localsnapshot | backup
machinedirectory | snapshots --host
removedestination | | change the repository in the option file
removeexclusion | | remove the line EXCLUDEPATTERN from the option file
restore | restore
setdestination | setup; --repo | setup finds disks and shares, and makes the first backup
snapshot | backup
startbackup | job start; backup
status | tier show; status
stopbackup | job stop | or press Ctrl-C: the next run continues
thinlocalsnapshots | forget
uniquesize | stats --mode | the mode unique
verifychecksums | check --read-data
version | version
`

const tmutilFlags = `
-X | --json
--auto | --policy | throttle yields to all, as Time Machine does
--block | | a backup runs in the foreground
--destination | --repo
--rotation | | name one repository in each run
`
