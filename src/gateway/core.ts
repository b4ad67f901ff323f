/**
 * Opens what everything else is built on: the database, the accounts, and what is held in memory of the tree. Each part
 * that has been opened adds to `closing` how it is closed.
 */
import { hostname } from 'node:os'
import { join } from 'node:path'
import { AuditLog } from '../audit/log-target.js'
import { Traffic } from '../audit/traffic.js'
import { Accounts } from '../accounts/accounts.js'
import type { FirstAdmin } from '../accounts/bootstrap.js'
import type { ProtocolFacts } from '../accounts/principal.js'
import { Audit } from '../audit/audit.js'
import type { Log } from '../base/log.js'
import type { Path } from '../base/path.js'
import { joinCluster, type Cluster, type Limits } from '../cluster/cluster.js'
import type { AnyDriverType } from '../contract/driver-type.js'
import type { ProcessChannel } from '../database/engine.js'
import type { Store } from '../database/tables.js'
import { SignedUrls } from '../download-urls/signed-urls.js'
import type { Config } from '../installation/config.js'
import { auditFolder } from '../installation/data-folder.js'
import type { KeyedProtocol } from '../installation/import/server-keys.js'
import { thisInstance, type ThisInstance } from '../installation/instance.js'
import { Locks } from '../locks/webdav-locks.js'
import { MountedTree } from '../mounts/mounted-tree.js'
import { Mounts } from '../mounts/mounts.js'
import { EgressGuard } from '../net/egress.js'
import { settingDefinitions, type ProtocolWithSettings } from '../settings/settings-table.js'
import { Settings } from '../settings/settings.js'
import { LdapSignIn } from '../sign-in/ldap-sign-in.js'
import { Shares } from '../shares/shares.js'
import { Bandwidth } from '../storage/bandwidth.js'
import { Events } from '../storage/events.js'
import { Spool } from '../storage/fallbacks/spool.js'
import type { Task } from '../tasks/task.js'
import { spooledFiles } from '../tasks/upload-tasks.js'
import { Rules } from '../tree/folder-rules.js'
import { Followers } from '../tree/followers.js'
import { Grants } from '../tree/grants.js'
import { needsSignature } from '../tree/decisions.js'
import { Passkeys } from '../sign-in/passkeys.js'
import { SignInTrials } from '../sign-in/sign-in-trials.js'
import { SingleSignOn } from '../sign-in/single-sign-on.js'
import { Webhooks } from '../webhooks/webhooks.js'
import type { Closing } from './closing.js'
import { openDatabase } from './open-database.js'
import type { LogTail } from './log-tail.js'

export interface GatewayOptions {
  readonly config: Config
  readonly log: Log
  /** Gets the lines of `log`. Absent: none are held. */
  readonly logTail?: LogTail
  readonly drivers: readonly AnyDriverType[]
  readonly protocols: readonly (ProtocolFacts & KeyedProtocol & ProtocolWithSettings)[]
  /** The admin account that the first run makes. */
  readonly admin: FirstAdmin
  /** The run of the program; by default a new one. */
  readonly instance?: ThisInstance
  /** Called when another node has ended this one: the gateway must be closed. Absent: nothing happens. */
  readonly onEnded?: () => void
  /** The channel to the other processes that serve the same data folder. Absent: there are none. */
  readonly channel?: ProcessChannel
}

/** The database, this process as a node, the settings, and the records of what is done. */
interface Base {
  readonly config: Config
  readonly log: Log
  readonly driverTypes: readonly AnyDriverType[]
  readonly protocols: GatewayOptions['protocols']
  readonly store: Store
  readonly events: Events
  readonly cluster: Cluster
  readonly settings: Settings
  /** The settings, with this process's part of the limits that hold for all processes together. */
  readonly limits: Limits
  readonly egress: EgressGuard
  readonly webhooks: Webhooks
  readonly audit: Audit
  readonly traffic: Traffic
}

/** The accounts, and how their users sign in. */
interface SignIns {
  readonly accounts: Accounts
  readonly ldap: LdapSignIn
  readonly signInTrials: SignInTrials
  readonly singleSignOn: SingleSignOn
  readonly passkeys: Passkeys
}

/** The parts of the tree that are in memory, and the parts that all transfers share. */
interface TreeTables {
  readonly mounts: Mounts
  readonly mountedTree: MountedTree
  readonly rules: Rules
  readonly grants: Grants
  readonly shares: Shares
  readonly followers: Followers
  readonly locks: Locks
  readonly signedUrls: SignedUrls
  readonly spool: Spool
  readonly bandwidth: Bandwidth
}

/** The parts on which everything else is built. */
export interface Core extends Base, SignIns, TreeTables {}

export async function openCore(options: GatewayOptions, closing: Closing): Promise<Core> {
  const base = await openBase(options, closing)
  const signIns = await openSignIns(base, closing)
  const tables = await loadTreeTables(base, signIns, closing)
  return { ...base, ...signIns, ...tables }
}

async function openBase(options: GatewayOptions, closing: Closing): Promise<Base> {
  const { config, log, drivers: driverTypes, protocols } = options
  const run = options.instance ?? thisInstance()
  const store = await openDatabase(options, run)
  closing.add(() => store.close())
  const events = new Events()
  const node = `${hostname()}:${process.pid}`
  const cluster = await joinCluster({ store, instance: run, name: node, events, log })
  // Others take over what this node owns.
  closing.add(() => cluster.leave().catch(() => undefined))
  const settings = await Settings.open(store, settingDefinitions(protocols, driverTypes), log)
  closing.add(() => settings.close())
  const limits = cluster.limits(settings)
  const traffic = new Traffic(store.traffic, log)
  closing.add(() => traffic.close())
  const auditLog = new AuditLog(settings, log)
  closing.add(() => auditLog.close())
  const folder = join(config.data, auditFolder)
  const egress = new EgressGuard(() => settings.get('egress_networks'))
  // Before the audit, which stores what earlier processes have left, with its deliveries.
  const webhooks = await Webhooks.open({ store, egress, siteUrl: config.site_url, log })
  const { deliveriesOf, onWritten } = webhooks
  const { instance } = cluster
  const { write } = auditLog
  const audit = await Audit.open({ store, settings, folder, instance, node, log, write, deliveriesOf, onWritten })
  closing.add(() => audit.close())
  audit.on(traffic.count)
  const given = { config, log, driverTypes, protocols }
  return { ...given, store, events, cluster, settings, limits, egress, webhooks, audit, traffic }
}

async function openSignIns(base: Base, closing: Closing): Promise<SignIns> {
  const { config, log, store, cluster, settings, egress, audit } = base
  const accounts = await Accounts.open({ store, settings, tokenHours: config.token_hours, log, cluster, audit })
  closing.add(() => accounts.close())
  const ldap = new LdapSignIn({ accounts, settings, egress, log, audit })
  accounts.useDirectory(ldap)
  ldap.start()
  closing.add(() => ldap.close())
  const singleSignOn = new SingleSignOn({ accounts, settings, store, egress, log, audit })
  const signInTrials = new SignInTrials(egress)
  const passkeys = new Passkeys({ store, users: accounts.users })
  return { accounts, ldap, singleSignOn, signInTrials, passkeys }
}

async function loadTreeTables(base: Base, { accounts }: SignIns, closing: Closing): Promise<TreeTables> {
  const { config, log, store, cluster, settings, limits } = base
  const mounts = new Mounts()
  const mountedTree = new MountedTree(mounts, log)
  const foldedPath = (path: Path) => mounts.caseFoldedPath(path)
  const rules = await Rules.load(store, foldedPath, log)
  const grants = await Grants.load(store, foldedPath)
  const shares = await Shares.load({ store, foldedPath })
  const locks = await Locks.load(store.locks, cluster, (id) => shares.get(id)?.expires)
  // An earlier run may have ended after it had changed a share.
  await locks.dropOfShares((id) => shares.get(id)?.disabled !== false)
  shares.onChange(({ id, creatorId }) => {
    accounts.principals.endShare(creatorId, id, { reason: 'the share has changed' })
    const dropped = locks.dropOfShares((each) => each === id)
    dropped.catch((error: unknown) =>
      log.warn({ err: error, share: shares.pseudonymOf(id) }, 'locks of visitors were not removed'),
    )
  })
  const followers = new Followers([rules, grants, shares], { moves: store.moves, ofOthers: cluster.ofOthers, log })
  const signedUrls = new SignedUrls({
    settings,
    needsSignature: (path) => needsSignature({ mounts, rules, grants }, path),
  })
  closing.add(() => signedUrls.close())
  const spool = await Spool.open(join(config.data, 'spool'), {
    instance: cluster.instance,
    keep: spooledFiles((await store.tasks.owned()) as Task[]),
    neededElsewhere: spooledFiles((await store.tasks.all({ kind: 'upload' })) as Task[]),
    limit: () => spoolLimit(settings),
  })
  const bandwidth = new Bandwidth(limits)
  return { mounts, mountedTree, rules, grants, shares, followers, locks, signedUrls, spool, bandwidth }
}

/** `spool_size_limit` in bytes. */
function spoolLimit(settings: Settings): number {
  const megabytes = settings.number('spool_size_limit')
  return megabytes < 0 ? Infinity : megabytes * 1024 * 1024
}
