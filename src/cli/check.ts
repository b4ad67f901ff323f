/** `tidegate check`: would the daemon start here, and would everything work? It changes nothing. */
import { createServer, connect } from 'node:net'
import type { Command } from 'commander'
import { driverTypes } from '../../drivers/index.js'
import { WebClient } from '../../protocols/http/site/web-client.js'
import { sitePath } from '../../protocols/lib/client.js'
import { loadConfig, splitAddress, type Config } from '../config.js'
import { ownFolders } from '../data-folder.js'
import type { Driver, DriverEnv, OwnFolders } from '../driver.js'
import { EgressGuard } from '../egress.js'
import { GatewayError, toGatewayError } from '../errors.js'
import { checkOptions, parsedAddition } from '../fields.js'
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
      const findings: Finding[] = [{ what: 'configuration', ok: true, detail: `data in ${config.data}` }]
      findings.push(...(await checkDatabase(config)))
      if (config.dist_dir !== '') findings.push(await finding('web client', () => checkWebClient(config)))
      for (const [what, address] of [
        ['http', config.http],
        ['sftp', config.sftp],
      ] as const) {
        if (address !== 'off')
          findings.push(await finding(what, () => checkPort(address, `${sitePath(config.site_url)}/ping`)))
      }
      const rows = findings.map(({ what, ok, detail }) => [wordFor(ok), what, detail])
      print(flags, findings, formatTable(['', 'what', 'detail'], rows).trim())
      if (findings.some(({ ok }) => ok === false)) process.exitCode = 1
    })
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
    const failure = toGatewayError(error)
    const detail =
      failure.cause instanceof Error && failure.code === 'internal' ? failure.cause.message : failure.reason
    return { what, ok: false, detail }
  }
}

async function checkWebClient(config: Config): Promise<string> {
  await WebClient.open(config, createLog('silent'))
  return `pages from ${config.dist_dir}`
}

async function checkDatabase(config: Config): Promise<readonly Finding[]> {
  let store: Store | undefined
  let rows: readonly StorageRow[] = []
  const database = await finding('database', async () => {
    store = await openStore(await databaseOf(config))
    rows = await store.storages.all()
    const users = await store.users.all()
    return `${users.length} users, ${rows.length} storages`
  })
  const opened = store
  if (opened === undefined) return [database]
  try {
    const own = await ownFolders(config.data)
    const storages = rows.map((row) => finding(`storage ${row.mountPath}`, () => checkStorage(row, opened, own)))
    return [database, ...(await Promise.all(storages))]
  } finally {
    await opened.close()
  }
}

async function checkStorage(row: StorageRow, store: Store, own: OwnFolders): Promise<string> {
  if (row.disabled) return 'disabled'
  const type = driverTypes.find((each) => each.name === row.driver)
  if (type === undefined) throw new GatewayError('invalid', { reason: `there is no driver ${row.driver}` })
  const options = checkOptions(type.fields, parsedAddition(row.addition))
  const signal = AbortSignal.timeout(patience)
  const networks = (await store.settings.all()).get('egress_networks') ?? ''
  const env: DriverEnv = {
    log: createLog('silent'),
    signal,
    instance: thisInstance(),
    own,
    save: async () => undefined,
    state: { get: (key) => store.driverState.get(row.id, key), set: async () => undefined },
    uploads: () => store.uploads.tokens(),
    tree: () => {
      throw new NotCheckedError(`${row.driver} stands on other storages: only the daemon can open it`)
    },
    egress: new EgressGuard(() => networks),
  }
  let driver: Driver | undefined
  try {
    driver = await type.open(options as never, env)
    await driver.stat(root, { signal })
    return `${row.driver} opens`
  } finally {
    await driver?.close?.()
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
  const local = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return new Promise((resolve) => {
    let answer = ''
    const socket = connect({ host: local, port, timeout: 3000 })
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
