/** The parts of the tree that are the same for every principal. */
import type { Bandwidth } from './bandwidth.js'
import type { BaseFolders } from './base-folders.js'
import type { Deliveries } from './deliveries.js'
import type { Events } from './events.js'
import type { FileTurns } from './file-turns.js'
import type { Intents } from './intents.js'
import type { Locks } from './locks.js'
import type { Log } from './log.js'
import type { Mounts } from './mounts.js'
import type { Reservations } from './reservations.js'
import type { Rules } from './rules.js'
import type { Search } from './search/search.js'
import type { Settings } from './settings.js'
import type { Store } from './store/rows.js'

export interface TreeParts {
  readonly mounts: Mounts
  readonly bases: BaseFolders
  readonly rules: Rules
  readonly locks: Locks
  readonly intents: Intents
  readonly reservations: Reservations
  readonly store: Store
  readonly settings: Pick<Settings, 'bool'>
  readonly events: Events
  readonly bandwidth: Pick<Bandwidth, 'toClients' | 'fromClients'>
  readonly deliveries: Deliveries
  readonly search: Search
  /** Turns of the files that copies and moves read and write. */
  readonly turns: FileTurns
  readonly log: Log
}
