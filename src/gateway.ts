import type { Accounts } from './accounts/accounts.js'
import type { Config } from './config.js'
import type { Links } from './links.js'
import type { Log } from './log.js'
import type { Principal } from './principal.js'
import type { Settings } from './settings.js'
import type { Spool } from './spool.js'
import type { Tasks } from './tasks.js'
import type { VirtualFs } from './virtual-fs.js'

/** What a door gets. */
export interface Gateway {
  readonly config: Config
  readonly log: Log
  readonly accounts: Accounts
  readonly settings: Settings
  readonly links: Links
  readonly tasks: Tasks
  /** Room for uploads that are received now and written later. */
  readonly spool: Spool
  /** The only way into the tree. */
  as(principal: Principal): VirtualFs
}
