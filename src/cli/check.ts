/**
 * `tidegate check`: checks whether the daemon would start and its storages would work. Changes no configuration or
 * file.
 */
import { createServer } from 'node:net'
import type { Command } from 'commander'
import { z } from 'zod'
import { driverTypes } from '../../drivers/index.js'
import { WebClient } from '../../protocols/http/site/web-client.js'
import { protocols } from '../../protocols/index.js'
import { Certificate } from '../../protocols/lib/certificate.js'
import { sitePath } from '../../protocols/lib/client.js'
import { connectThrough } from '../../protocols/lib/proxy-protocol.js'
import { settlesWithin, untilAborted } from '../base/cancellation.js'
import type { Driver } from '../contract/driver.js'
import type { DriverEnv } from '../contract/driver-env.js'
import type { AnyDriverType } from '../contract/driver-type.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { root } from '../base/path.js'
import type { Config } from '../installation/config.js'
import { lockHolderOf, gatewayFolders, lockDataFolder, type LockHolder } from '../installation/data-folder.js'
import { thisInstance } from '../installation/instance.js'
import { connectableHost, splitAddress } from '../net/addresses.js'
import { EgressGuard } from '../net/egress.js'
import { createLog } from '../process/log.js'
import { mergeAddition, checkOptions, parseAddition } from '../mounts/fields.js'
import { runExclusively } from '../locks/exclusive-work.js'
import type { PathClaim } from '../database/engine.js'
import type { StorageRow } from '../database/tables/storages.js'
import type { Store } from '../database/tables.js'
import { announcedUrl, answerTimeout, overTls, requestDaemon } from './daemon-request.js'
import { configOf, openData, withAddressOptions, withCommonOptions, type CommonFlags } from './data-folder.js'
import { commandLine, daemonRequired, finding, wordFor, type Finding } from './finding.js'
import { formatTable, print } from './output.js'

/** Milliseconds for an answer with `--live`: with the start of this program it takes at most 5 seconds. */
const liveTimeout = 3000

interface CheckFlags extends CommonFlags {
  readonly live?: boolean
}

export function addCheckCommand(program: Command): void {
  withAddressOptions(withCommonOptions(program.command('check')))
    .description('check configuration, database, storages and ports; exits with status 1 if a check fails')
    .option('--live', 'check only whether the daemon is ready to serve, within 5 seconds')
    .action(async (flags: CheckFlags) => {
      const config = await configOf(flags)
      const findings = flags.live === true ? [await liveness(config)] : await check(config)
      const rows = findings.map(({ what, ok, detail }) => [wordFor(ok), what, detail])
      const lines = formatTable(['', 'what', 'detail'], rows)
      // A health check logs one line, without the header.
      print(flags, findings, flags.live === true ? lines.replace(/^.*\n/, '') : lines)
      if (findings.some(({ ok }) => ok === false)) process.exitCode = 1
    })
}

interface CheckOptions {
  readonly drivers?: readonly AnyDriverType[] | undefined
  /** Milliseconds for each storage to answer. */
  readonly timeout?: number | undefined
  /** Further findings on the database, which it must not change. */
  readonly further?: ((store: Store) => Promise<readonly Finding[]>) | undefined
}

/** Changes nothing. A database that an older version has written is not opened: the daemon upgrades it. */
export async function check(
  config: Config,
  { drivers = driverTypes, timeout = answerTimeout, further }: CheckOptions = {},
): Promise<readonly Finding[]> {
  const findings: Finding[] = [{ what: 'configuration', ok: true, detail: `data in ${config.data}` }]
  findings.push(...(await checkDatabase({ config, drivers, timeout }, further)))
  if (config.dist_dir !== '') {
    const remedy = 'name the folder of a built web client in dist_dir, or remove that key'
    findings.push(await finding('web client', () => checkWebClient(config), remedy))
  }
  const { tls_certificate: certificate, tls_key: key } = config
  if (config.addresses.https !== 'off') {
    const pair = async () => {
      const loaded = await Certificate.load({ certificate, key }, createLog('silent'))
      loaded.close()
      return `${certificate} and its key`
    }
    findings.push(await finding('certificate', pair, 'name a certificate and its key in tls_certificate and tls_key'))
  }
  for (const [name, address] of Object.entries(config.addresses)) {
    if (address === 'off') continue
    findings.push(await finding(name, () => checkPort(address, config, name === 'https'), portRemedy(name, address)))
  }
  return findings
}

function portRemedy(name: string, address: string): string {
  const { port } = splitAddress(address)
  return `ss -ltnp 'sport = :${port}' # shows who listens there: stop that program, or choose another address with --${name}`
}

async function checkWebClient(config: Config): Promise<string> {
  await WebClient.open(config, createLog('silent'))
  return `pages from ${config.dist_dir}`
}

async function checkDatabase(
  subject: Omit<Subject, 'store'>,
  further: CheckOptions['further'] = () => Promise.resolve([]),
): Promise<readonly Finding[]> {
  const { config } = subject
  let store: Store | undefined
  const database = await finding(
    'database',
    async () => {
      store = await openData(config, refuseUpgrade)
      const [users, rows] = [await store.users.all(), await store.storages.all()]
      return `${counted(users.length, 'user')}, ${counted(rows.length, 'storage')}`
    },
    'name the data folder with --data; if its database is damaged, restore a backup of it',
  )
  if (store === undefined) return [database]
  try {
    return [database, ...(await checkStorages({ ...subject, store }, () => true)), ...(await further(store))]
  } finally {
    await store.close()
  }
}

const refuseUpgrade = () =>
  Promise.reject(
    daemonRequired('an older version has written it: the daemon of this version upgrades it when it starts'),
  )

function counted(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}

/** The finding of one storage. */
export async function checkStorage(
  id: number,
  { config, store }: Pick<Subject, 'config' | 'store'>,
): Promise<Finding | undefined> {
  const subject = { config, store, drivers: driverTypes, timeout: answerTimeout }
  return (await checkStorages(subject, (row) => row.id === id)).at(-1)
}

interface Subject {
  readonly config: Config
  readonly store: Store
  readonly drivers: readonly AnyDriverType[]
  readonly timeout: number
}

/**
 * Checks the selected storages. Only one process may open a storage: if two refresh the same token, each invalidates
 * the other's. So a running daemon is asked; without one, this process locks the data folder while it opens the
 * storages.
 */
async function checkStorages(subject: Subject, isSelected: (row: StorageRow) => boolean): Promise<readonly Finding[]> {
  const { config, store } = subject
  for (;;) {
    const holder = await lockHolderOf(config.data)
    if (holder) return askDaemon(holder, subject, isSelected)
    const releaseFolder = await lockDataFolder(config.data).catch((error: unknown) => {
      // A daemon has started meanwhile.
      if (isGatewayError(error, 'busy')) return undefined
      throw error
    })
    if (!releaseFolder) continue
    try {
      // Read after the folder is locked: a daemon that has just stopped may have stored a newer token.
      const rows = (await store.storages.all()).filter(isSelected)
      const own = await gatewayFolders(config.data)
      const networks = (await store.settings.all()).get('egress_networks') ?? ''
      const egress = new EgressGuard(() => networks)
      return await Promise.all(
        rows.map((row) => storageFinding(config, row, () => openStorage(row, subject, { own, egress }))),
      )
    } finally {
      await releaseFolder()
    }
  }
}

function storageFinding(config: Config, row: StorageRow, work: () => Promise<string>): Promise<Finding> {
  const disable = commandLine(config, 'storage', 'disable', row.mountPath)
  const isKnown = driverTypes.some(({ name }) => name === row.driver)
  const remedy = isKnown
    ? `${disable} # until it works; "tidegate storage edit" changes its options`
    : commandLine(config, 'storage', 'rm', row.mountPath)
  return finding(`storage ${row.mountPath}`, async () => (row.disabled ? 'disabled' : work()), remedy)
}

/**
 * Opens and closes the storage as the daemon does. Stores what the driver saves meanwhile, such as a refreshed token.
 * Rejects after the timeout, even if the driver ignores its signal.
 */
async function openStorage(
  row: StorageRow,
  { store, drivers, timeout }: Subject,
  shared: Pick<DriverEnv, 'own' | 'egress'>,
): Promise<string> {
  const type = drivers.find((each) => each.name === row.driver)
  if (type === undefined) throw new GatewayError('invalid', { reason: `there is no driver ${row.driver}` })
  const options = checkOptions(type.fields, parseAddition(row.addition))
  const deadline = new AbortController()
  // AbortSignal.timeout does not keep the process alive while a driver waits for nothing
  // (Node.js: lib/internal/abort_controller.js).
  const timer = setTimeout(() => deadline.abort(), timeout)
  const { signal } = deadline
  let { addition } = row
  const writes: Promise<unknown>[] = []
  const tracked = <T>(work: Promise<T>) => {
    writes.push(work.catch(() => undefined))
    return work
  }
  const env: DriverEnv = {
    ...shared,
    log: createLog('silent'),
    signal,
    instance: thisInstance(),
    spansMachines: store.shared?.spansMachines === true,
    save: async (changed) => {
      addition = mergeAddition(addition, changed)
      await tracked(store.storages.update(row.id, { addition }))
    },
    state: {
      get: (key) => store.driverState.get(row.id, key),
      set: (key, value) => tracked(store.driverState.set(row.id, key, value)),
      exclusively: (key, work) => tracked(runExclusively({ acquire: (claims) => acquired(store, claims) }, key, work)),
      // The daemon itself completes or undoes the operations that it has begun.
      journal: () => ({ entry: () => ({ set: async () => undefined }), adopt: async () => undefined }),
    },
    resumableUploads: () => store.uploads.tokens(),
    changed: () => undefined,
    assertCurrent: () => undefined,
    onChangeElsewhere: () => undefined,
    report: () => undefined,
    tree: () => {
      throw daemonRequired(`${row.driver} stands on other storages: only the daemon can open it`)
    },
  }
  let driver: Driver | undefined
  try {
    driver = await untilAborted(type.open(options as never, env), signal, { undo: (late) => late.close?.() })
    await untilAborted(driver.stat(root, { signal }), signal)
    return `${row.driver} opens`
  } catch (error) {
    if (!signal.aborted) throw error
    throw new GatewayError('timeout', { reason: `it does not answer within ${timeout / 1000} seconds`, cause: error })
  } finally {
    clearTimeout(timer)
    if (driver?.close) await settlesWithin(driver.close(), timeout)
    await Promise.all(writes)
  }
}

/** Excludes the nodes that share the database. */
async function acquired({ shared }: Store, claims: readonly PathClaim[]): Promise<() => void> {
  const held = await shared?.acquire(claims)
  return () => void held?.release([])
}

async function askDaemon(
  holder: LockHolder,
  { config, store }: Subject,
  isSelected: (row: StorageRow) => boolean,
): Promise<readonly Finding[]> {
  const process = `process ${holder.pid}`
  const token = (await store.settings.all()).get('token') ?? ''
  let url = ''
  const daemon = await finding(
    'daemon',
    async () => {
      url = await announcedUrl(config.data)
      await requestDaemon(config, `${url}/ping`, { timeout: answerTimeout }).catch((error: unknown) => {
        const reason = `${process} serves the data folder, but does not answer at ${url}`
        throw new GatewayError('unavailable', { reason, cause: error })
      })
      return `${process} answers at ${url}`
    },
    `end ${process}, and start the daemon again`,
  )
  const storages = (await store.storages.all()).filter(isSelected).map((row) =>
    storageFinding(config, row, async () => {
      if (daemon.ok !== true) throw daemonRequired(`only the daemon may open it while ${process} runs`)
      const { body } = await requestDaemon(config, `${url}/api/admin/storage/check?id=${row.id}`, {
        headers: { authorization: token },
        timeout: answerTimeout,
      })
      const { code, message } = envelope.parse(JSON.parse(body))
      if (code !== 200) throw new GatewayError('unavailable', { reason: message })
      return `${row.driver} answers`
    }),
  )
  return [daemon, ...(await Promise.all(storages))]
}

const envelope = z.object({ code: z.number(), message: z.string() })

/** Checks whether the daemon can listen at the address, or does so already. */
async function checkPort(address: string, config: Config, isSecure: boolean): Promise<string> {
  const { host, port } = splitAddress(address)
  const server = createServer()
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(port, host, resolve)
    })
    return `${address} is free`
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE' && (await isTidegate({ host, port, isSecure }, config)))
      return `${address} is answered by a running Tidegate`
    const why = code === 'EADDRINUSE' ? 'is taken by another program' : `cannot be used: ${message}`
    throw new GatewayError('unavailable', { reason: `${address} ${why}`, cause: error })
  } finally {
    server.close()
  }
}

/** Milliseconds for a server to greet or answer. */
const greetingTimeout = 3000

/** The beginning of the first line that each protocol sends without being asked. */
const greetings = protocols.flatMap((protocol) => (protocol.listen ? (protocol.greeting ?? []) : []))

/** Recognizes Tidegate by the greeting of a protocol or by its response to `/ping`. */
async function isTidegate(
  { host, port, isSecure }: { readonly host: string; readonly port: number; readonly isSecure: boolean },
  config: Config,
): Promise<boolean> {
  const address = { host: connectableHost(host), port, signal: AbortSignal.timeout(greetingTimeout) }
  const connection = await connectThrough(config.proxy_protocol, address).catch(() => undefined)
  if (!connection) return false
  const socket = isSecure ? overTls(connection) : connection
  const ping = `${sitePath(config.site_url)}/ping`
  return new Promise((resolve) => {
    let answer = ''
    socket.setTimeout(greetingTimeout)
    const finish = () => {
      socket.destroy()
      resolve(greetings.some((greeting) => answer.startsWith(greeting)) || /\r\n\r\npong\s*$/.test(answer))
    }
    socket.on('data', (chunk: Buffer) => {
      answer += chunk.toString('latin1')
      if (/^(?!HTTP\/).*\n/.test(answer) || answer.length > 4096) finish()
    })
    // A server that greets does so first. Without a greeting, the HTTP request is sent.
    setTimeout(() => {
      if (answer === '' && !socket.destroyed) socket.write(`GET ${ping} HTTP/1.0\r\nHost: localhost\r\n\r\n`)
    }, 300)
    socket.on('timeout', finish).on('error', finish).on('end', finish)
  })
}

/**
 * Whether a daemon serves the data folder and is ready, for health checks of containers: asks for its `/readyz`. Does
 * not open the database, and does not verify the certificate.
 */
export function liveness(config: Config): Promise<Finding> {
  return finding('daemon', async () => {
    const holder = await lockHolderOf(config.data)
    if (holder === undefined) throw unavailable(`no daemon serves ${config.data}`)
    const { pid, url } = holder
    if (url === undefined) throw unavailable(`process ${pid} serves the data folder, but is not ready yet`)
    const answer = await requestDaemon(config, `${url}/readyz`, { timeout: liveTimeout }).catch((error: unknown) => {
      throw unavailable(`process ${pid} serves the data folder, but does not answer at ${url}`, error)
    })
    const { status, body } = answer
    if (status !== 200 || body !== 'ok\n')
      throw unavailable(`process ${pid} at ${url} is not ready: it answers ${status}`)
    return `process ${pid} at ${url} is ready`
  })
}

function unavailable(reason: string, cause?: unknown): GatewayError {
  return new GatewayError('unavailable', { reason, cause })
}
