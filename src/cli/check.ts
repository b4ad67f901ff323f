/** `tidegate check`: would the daemon start here, and would everything work? It changes no configuration and no file. */
import { createServer, connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { Command } from 'commander'
import { z } from 'zod'
import { driverTypes } from '../../drivers/index.js'
import { WebClient } from '../../protocols/http/site/web-client.js'
import { sitePath } from '../../protocols/lib/client.js'
import { connectableHost, loadConfig, splitAddress, type Config } from '../config.js'
import { holderOf, ownFolders, takeDataFolder, type Holder } from '../data-folder.js'
import type { AnyDriverType, Driver, DriverEnv } from '../driver.js'
import { EgressGuard } from '../egress.js'
import { GatewayError, isGatewayError, toGatewayError } from '../errors.js'
import { changedAddition, checkOptions, parsedAddition } from '../fields.js'
import { thisInstance } from '../instance.js'
import { createLog } from '../log.js'
import { root } from '../path.js'
import type { StorageRow, Store } from '../store/rows.js'
import { openStore } from '../store/store.js'
import { databaseOf, withAddressOptions, withCommonOptions, type CheckFlags } from './data-folder.js'
import { formatTable, print } from './output.js'

interface Finding {
  readonly what: string
  /** null: it was not checked. */
  readonly ok: boolean | null
  readonly detail: string
}

/** Only a running daemon could tell; nothing is wrong by that. */
class NotCheckedError extends GatewayError {
  constructor(reason: string) {
    super('unsupported', { reason })
  }
}

/** Milliseconds that a storage or a port may take to answer. */
const patience = 15_000

export function addCheckCommand(program: Command): void {
  withAddressOptions(withCommonOptions(program.command('check')))
    .description('check configuration, database, storages and ports; status 1 where something is wrong')
    .action(async (flags: CheckFlags) => {
      const config = await loadConfig({ flags, environment: process.env })
      const findings = await check(config)
      const rows = findings.map(({ what, ok, detail }) => [wordFor(ok), what, detail])
      print(flags, findings, formatTable(['', 'what', 'detail'], rows).trim())
      if (findings.some(({ ok }) => ok === false)) process.exitCode = 1
    })
}

export async function check(
  config: Config,
  drivers: readonly AnyDriverType[] = driverTypes,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [{ what: 'configuration', ok: true, detail: `data in ${config.data}` }]
  findings.push(...(await checkDatabase(config, drivers)))
  if (config.dist_dir !== '') findings.push(await finding('web client', () => checkWebClient(config)))
  for (const [what, address] of [
    ['http', config.http],
    ['sftp', config.sftp],
  ] as const) {
    if (address !== 'off')
      findings.push(await finding(what, () => checkPort(address, `${sitePath(config.site_url)}/ping`)))
  }
  return findings
}

function wordFor(ok: boolean | null): string {
  if (ok === null) return 'not checked'
  return ok ? 'ok' : 'WRONG'
}

async function finding(what: string, look: () => Promise<string>): Promise<Finding> {
  try {
    return { what, ok: true, detail: await look() }
  } catch (error) {
    if (error instanceof NotCheckedError) return { what, ok: null, detail: error.reason }
    return { what, ok: false, detail: reasonOf(error) }
  }
}

function reasonOf(error: unknown): string {
  const { cause, code, reason } = toGatewayError(error)
  return cause instanceof Error && code === 'internal' ? cause.message : reason
}

async function checkWebClient(config: Config): Promise<string> {
  await WebClient.open(config, createLog('silent'))
  return `pages from ${config.dist_dir}`
}

async function checkDatabase(config: Config, drivers: readonly AnyDriverType[]): Promise<readonly Finding[]> {
  let store: Store | undefined
  const database = await finding('database', async () => {
    store = await openStore(await databaseOf(config))
    const [users, rows] = [await store.users.all(), await store.storages.all()]
    return `${users.length} users, ${rows.length} storages`
  })
  if (store === undefined) return [database]
  try {
    return [database, ...(await checkStorages({ config, store, drivers }, () => true))]
  } finally {
    await store.close()
  }
}

/** Whether this one would work, and what is said of it. */
export async function checkStorage(
  id: number,
  { config, store }: Pick<Subject, 'config' | 'store'>,
): Promise<Finding | undefined> {
  return (await checkStorages({ config, store, drivers: driverTypes }, (row) => row.id === id)).at(-1)
}

interface Subject {
  readonly config: Config
  readonly store: Store
  readonly drivers: readonly AnyDriverType[]
}

/**
 * One process at a time opens a storage: two that refresh the same token would sign each other out. A running daemon is
 * asked; without one, this process holds the data folder while it opens storages.
 */
async function checkStorages(subject: Subject, isAsked: (row: StorageRow) => boolean): Promise<readonly Finding[]> {
  const { config, store } = subject
  for (;;) {
    const holder = await holderOf(config.data)
    if (holder) return askDaemon(holder, subject, isAsked)
    const giveBack = await takeDataFolder(config.data).catch((error: unknown) => {
      // A daemon was started meanwhile.
      if (isGatewayError(error, 'busy')) return undefined
      throw error
    })
    if (!giveBack) continue
    try {
      // Read only now: a daemon that has just stopped may have stored a newer token.
      const rows = (await store.storages.all()).filter(isAsked)
      const own = await ownFolders(config.data)
      const networks = (await store.settings.all()).get('egress_networks') ?? ''
      const egress = new EgressGuard(() => networks)
      return await Promise.all(rows.map((row) => storageFinding(row, () => openStorage(row, subject, { own, egress }))))
    } finally {
      await giveBack()
    }
  }
}

function storageFinding(row: StorageRow, look: () => Promise<string>): Promise<Finding> {
  return finding(`storage ${row.mountPath}`, async () => (row.disabled ? 'disabled' : look()))
}

/** Opens and closes it as the daemon would. What the driver saves meanwhile, such as a refreshed token, is stored. */
async function openStorage(
  row: StorageRow,
  { store, drivers }: Subject,
  shared: Pick<DriverEnv, 'own' | 'egress'>,
): Promise<string> {
  const type = drivers.find((each) => each.name === row.driver)
  if (type === undefined) throw new GatewayError('invalid', { reason: `there is no driver ${row.driver}` })
  const options = checkOptions(type.fields, parsedAddition(row.addition))
  const signal = AbortSignal.timeout(patience)
  let { addition } = row
  const stored: Promise<unknown>[] = []
  const storing = <T>(work: Promise<T>) => {
    stored.push(work.catch(() => undefined))
    return work
  }
  const env: DriverEnv = {
    ...shared,
    log: createLog('silent'),
    signal,
    instance: thisInstance(),
    save: async (changed) => {
      addition = changedAddition(addition, changed)
      await storing(store.storages.update(row.id, { addition }))
    },
    state: {
      get: (key) => store.driverState.get(row.id, key),
      set: (key, value) => storing(store.driverState.set(row.id, key, value)),
    },
    uploads: () => store.uploads.tokens(),
    tree: () => {
      throw new NotCheckedError(`${row.driver} stands on other storages: only the daemon can open it`)
    },
  }
  let driver: Driver | undefined
  try {
    driver = await type.open(options as never, env)
    await driver.stat(root, { signal })
    return `${row.driver} opens`
  } finally {
    await driver?.close?.()
    await Promise.all(stored)
  }
}

async function askDaemon(
  holder: Holder,
  { config, store }: Subject,
  isAsked: (row: StorageRow) => boolean,
): Promise<readonly Finding[]> {
  const process = `process ${holder.pid}`
  const token = (await store.settings.all()).get('token') ?? ''
  let url = ''
  const daemon = await finding('daemon', async () => {
    url = await announcedUrl(config.data)
    await ask(`${url}/ping`).catch((error: unknown) => {
      const reason = `${process} serves the data folder, but does not answer at ${url}`
      throw new GatewayError('unavailable', { reason, cause: error })
    })
    return `${process} answers at ${url}`
  })
  const storages = (await store.storages.all()).filter(isAsked).map((row) =>
    storageFinding(row, async () => {
      if (daemon.ok !== true) throw new NotCheckedError(`only the daemon may open it while ${process} runs`)
      const answer = await ask(`${url}/api/admin/storage/check?id=${row.id}`, { authorization: token })
      const { code, message } = envelope.parse(JSON.parse(answer))
      if (code !== 200) throw new GatewayError('unavailable', { reason: message })
      return `${row.driver} answers`
    }),
  )
  return [daemon, ...(await Promise.all(storages))]
}

/** The address of `--http` is not used: another program may listen there, and would see the token. */
async function announcedUrl(folder: string): Promise<string> {
  const until = Date.now() + patience
  for (;;) {
    const holder = await holderOf(folder)
    if (holder?.url !== undefined) return holder.url
    if (!holder) throw new GatewayError('unavailable', { reason: 'the process that had the data folder has ended' })
    if (Date.now() > until) {
      const reason = `process ${holder.pid} has the data folder, but is not ready to answer`
      throw new GatewayError('unavailable', { reason })
    }
    await pause(100)
  }
}

const envelope = z.object({ code: z.number(), message: z.string() })

async function ask(url: string, headers: Record<string, string> = {}): Promise<string> {
  try {
    const response = await fetch(url, { headers, redirect: 'error', signal: AbortSignal.timeout(patience) })
    return await response.text()
  } catch (error) {
    throw new GatewayError('unavailable', { reason: 'the daemon does not answer in time', cause: error })
  }
}

/** Whether the daemon could listen here, or does so already. */
async function checkPort(address: string, ping: string): Promise<string> {
  const { host, port } = splitAddress(address)
  const server = createServer()
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(port, host, resolve)
    })
    return `${address} is free`
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE' && (await isTidegate(host, port, ping)))
      return `${address} is answered by a running Tidegate`
    const why = code === 'EADDRINUSE' ? 'is taken by another program' : `cannot be used: ${message}`
    throw new GatewayError('unavailable', { reason: `${address} ${why}`, cause: error })
  } finally {
    server.close()
  }
}

/** The SSH banner names us, and so does the answer to `/ping`. */
function isTidegate(host: string, port: number, ping: string): Promise<boolean> {
  return new Promise((resolve) => {
    let answer = ''
    const socket = connect({ host: connectableHost(host), port, timeout: 3000 })
    const end = () => {
      socket.destroy()
      resolve(/^SSH-2\.0-Tidegate|\r\n\r\npong\s*$/.test(answer))
    }
    socket.on('data', (chunk: Buffer) => {
      answer += chunk.toString('latin1')
      if (answer.startsWith('SSH-') || answer.length > 4096) end()
    })
    // An SSH server speaks first; who has been silent for a moment is asked as HTTP is.
    setTimeout(() => {
      if (answer === '' && !socket.destroyed) socket.write(`GET ${ping} HTTP/1.0\r\nHost: localhost\r\n\r\n`)
    }, 300)
    socket.on('timeout', end).on('error', end).on('end', end)
  })
}
