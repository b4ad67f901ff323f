/** The dependencies of `VirtualFs` that all principals share. */
import type { Audit } from '../audit/audit.js'
import type { FairShare } from '../base/fair-share.js'
import type { Log } from '../base/log.js'
import type { Path } from '../base/path.js'
import type { Cluster } from '../cluster/cluster.js'
import type { Search } from '../search/search.js'
import type { Settings } from '../settings/settings.js'
import type { Bandwidth } from '../storage/bandwidth.js'
import type { Events } from '../storage/events.js'
import type { MountedTree } from '../mounts/mounted-tree.js'
import type { Mounts } from '../mounts/mounts.js'
import type { PathLocks } from '../locks/path-locks.js'
import type { Store } from '../database/tables.js'
import type { InPlaceHandles } from '../transfer/in-place-handles.js'
import type { Intents } from '../transfer/intents.js'
import type { DownloadRouting } from '../download-urls/download-routing.js'
import type { Rules } from './folder-rules.js'
import type { Followers } from './followers.js'
import type { Grant, Grants } from './grants.js'
import type { Locks } from '../locks/webdav-locks.js'
import type { BaseFolders } from './missing-folders.js'

export interface TreeDependencies {
  readonly cluster: Pick<Cluster, 'assertCurrent'>
  readonly audit: Pick<Audit, 'assertWritable' | 'record' | 'recordError' | 'hasRecorded'>
  readonly mounts: Mounts
  readonly mountedTree: MountedTree
  readonly bases: Pick<BaseFolders, 'ensure' | 'forget'>
  /** Whether the folder is the base folder of a user. */
  readonly isBaseFolder: (folder: Path) => boolean
  /** Returns the name of the user or group of a grant, in words for admins. */
  readonly nameOfSubject: (grant: Pick<Grant, 'userId' | 'groupId'>) => string
  readonly rules: Rules
  readonly grants: Grants
  readonly followers: Followers
  readonly locks: Locks
  readonly intents: Intents
  readonly pathLocks: PathLocks
  readonly store: Store
  readonly settings: Pick<Settings, 'bool'>
  readonly events: Events
  readonly bandwidth: Pick<Bandwidth, 'toClients' | 'fromClients'>
  readonly downloadRouting: DownloadRouting
  readonly search: Search
  /** The file descriptors of the process. */
  readonly descriptors: FairShare
  /** Running searches. */
  readonly searches: FairShare
  /** Thumbnails that are being made or read. */
  readonly thumbnails: FairShare
  /** Limits the number of files that copies and moves transfer concurrently. */
  readonly transferSlots: FairShare
  readonly inPlaceHandles: InPlaceHandles
  readonly log: Log
}
