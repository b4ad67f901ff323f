/** Gateways for tests: one in the process of the test, and the real daemon as a child process that can be killed. */
import { execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { driverTypes } from '../drivers/index.js'
import type { AnyDriverType } from '../src/contract/driver-type.js'
import type { Log } from '../src/base/log.js'
import { configSchema, type ConfigInput } from '../src/installation/config.js'
import type { Gateway } from '../src/gateway/gateway.js'
import { startDaemon as start } from '../src/process/daemon.js'
import { generateKeyPair } from '../protocols/sftp/host-keys.js'
import { createLog } from '../src/process/log.js'
import { openStore } from '../src/database/store.js'
import { protocols } from '../protocols/index.js'
import { runFirst } from './first-run.js'
import { startBalancer } from './servers/haproxy.js'
import { storeOf, storeVariables } from './store-location.js'

export interface Addresses {
  /** `http://127.0.0.1:PORT` */
  readonly url: string
  /** With a trailing slash. */
  readonly davUrl: string
  readonly sftpPort: number
}

export interface RunningGateway extends Addresses {
  readonly gateway: Gateway
  readonly adminPassword: string
  readonly dataFolder: string
  stop(): Promise<void>
}

export interface RunOptions {
  readonly dataFolder?: string
  /** The location of the database; by default that of the data folder. */
  readonly store?: string
  readonly adminPassword?: string
  readonly config?: ConfigInput
  /** The driver mounted at `/`, instead of a local folder. */
  readonly driver?: { readonly name: string; readonly addition?: object } | undefined
  /** Driver types in addition to those of the program. */
  readonly driverTypes?: readonly AnyDriverType[]
  /** Absent: the log is written to stderr, from level fatal. */
  readonly log?: Log
}

const password = 'a password for tests'

/** A data folder after a first run. */
async function temporaryFolder(t: Test, adminPassword: string, types: readonly AnyDriverType[]): Promise<string> {
  const folder = await newDataFolder(t)
  await runFirst(folder, adminPassword, types, await storeOf(folder, t))
  return folder
}

/**
 * Prepares the empty PostgreSQL database `store` for daemons that share the folder `files`, mounted at `/`. Resolves to
 * a data folder for each of them.
 */
export async function prepareNodes(
  t: Test,
  store: string,
  count: number,
  files: string,
  adminPassword = password,
): Promise<readonly string[]> {
  const folders = await Promise.all(Array.from({ length: count }, () => newDataFolder(t)))
  await runFirst(folders[0] ?? '', adminPassword, driverTypes, store)
  const opened = await openStore(store)
  const [row] = await opened.storages.all()
  if (row) await opened.storages.update(row.id, { addition: JSON.stringify({ root_folder_path: files }) })
  await opened.close()
  return folders
}

/** A data folder with host keys, because generating them takes longer than most tests. */
async function newDataFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-test-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  await cp(await hostKeysOfTests(), join(folder, 'ssh'), { recursive: true })
  return folder
}

/**
 * A folder with host keys that all test files share. Complete from the moment it has its name: they run concurrently.
 */
async function hostKeysOfTests(): Promise<string> {
  const keys = join(tmpdir(), `tidegate-test-host-keys-${userInfo().uid}`)
  if (existsSync(keys)) return keys
  const own = await mkdtemp(`${keys}-`)
  for (const type of ['ed25519', 'rsa'] as const) {
    const pair = await generateKeyPair(type, { ...(type === 'rsa' && { bits: 3072 }), comment: 'tidegate' })
    await writeFile(join(own, `ssh_host_${type}_key`), pair.private, { mode: 0o600 })
  }
  try {
    await rename(own, keys)
  } catch {
    // Another test file was first.
    await rm(own, { recursive: true })
  }
  return keys
}

function addresses(http: string, sftp: string): Addresses {
  const url = `http://${http}`
  return { url, davUrl: `${url}/dav/`, sftpPort: Number(sftp.slice(sftp.lastIndexOf(':') + 1)) }
}

/**
 * Starts all protocols in this process on free ports. They stop at the end of the test. With TIDEGATE_TEST_NODES=N
 * there are N nodes behind a balancer, unless the test names a database, or has drivers, a log or files that one
 * process has for itself. `gateway` is the first of them.
 */
export async function startGateway(t: Test, options: RunOptions = {}): Promise<RunningGateway> {
  const { store = options.config?.store, driver } = options
  const isAlone = store !== undefined || (options.driverTypes ?? options.log) !== undefined || driver?.name === 'Memory'
  return nodesOfTests === 1 || isAlone ? startNode(t, options) : startBalanced(t, options)
}

/** Starts nodes behind a balancer. A local storage at `/` has the folder `files` of the first data folder. */
async function startBalanced(t: Test, options: RunOptions): Promise<RunningGateway> {
  const { driver, ...shared } = options
  const types = [...driverTypes, ...(options.driverTypes ?? [])]
  const dataFolder = options.dataFolder ?? (await temporaryFolder(t, options.adminPassword ?? password, types))
  const store = await storeOf(dataFolder, t)
  const local = { name: 'Local', addition: { root_folder_path: join(dataFolder, 'files') } }
  const first = await startNode(t, { ...shared, dataFolder, driver: driver ?? local })
  const nodes = [first]
  while (nodes.length < nodesOfTests) {
    nodes.push(await startNode(t, { ...shared, dataFolder: await newDataFolder(t), store }))
  }
  const portsOf = ({ url, sftpPort }: Addresses) => ({ http: Number(new URL(url).port), sftp: sftpPort })
  const { http, sftp } = await startBalancer(t, nodes.map(portsOf))
  return {
    ...first,
    ...addresses(`127.0.0.1:${http}`, `127.0.0.1:${sftp}`),
    stop: async () => {
      await Promise.all(nodes.map((node) => node.stop()))
    },
  }
}

/** The number of nodes that `startGateway` starts. */
export const nodesOfTests = Number(process.env.TIDEGATE_TEST_NODES ?? 1)

/** The `skip` option of a test that is about what one process has for itself. */
export const withoutNodes = nodesOfTests > 1 && 'several nodes serve the tree'

async function startNode(t: Test, options: RunOptions): Promise<RunningGateway> {
  const adminPassword = options.adminPassword ?? password
  const types = [...driverTypes, ...(options.driverTypes ?? [])]
  const dataFolder = options.dataFolder ?? (await temporaryFolder(t, adminPassword, types))
  const file = configSchema(protocols).parse({
    http: '127.0.0.1:0',
    sftp: '127.0.0.1:0',
    drain_seconds: 1,
    ...options.config,
  })
  const log = options.log ?? createLog('fatal')
  const store = options.store ?? (file.store === '' ? await storeOf(dataFolder, t) : file.store)
  const daemon = await start({ ...file, data: dataFolder, store }, log, { password: adminPassword }, { drivers: types })
  let stopped: Promise<void> | undefined
  const stop = () => (stopped ??= daemon.stop())
  t.teardown(stop)
  const { gateway } = daemon
  if (options.driver) {
    const [row] = await gateway.store.storages.all()
    if (!row) throw new Error('no storage was made at the first run')
    const addition = JSON.stringify(options.driver.addition ?? {})
    await gateway.supervisor.apply(
      await gateway.store.storages.update(row.id, { driver: options.driver.name, addition }),
    )
  }
  return { ...addresses(daemon.addresses.http, daemon.addresses.sftp ?? ''), gateway, adminPassword, dataFolder, stop }
}

/**
 * Starts gateways in this process that share the PostgreSQL database `store`, which must be empty, and a storage at
 * `/`: by default a local folder that all of them see.
 */
export async function startNodes(
  t: Test,
  store: string,
  count: number,
  options: RunOptions = {},
): Promise<readonly RunningGateway[]> {
  const files = await mkdtemp(join(tmpdir(), 'tidegate-shared-'))
  t.teardown(() => rm(files, { recursive: true, force: true, maxRetries: 3 }))
  const driver = options.driver ?? { name: 'Local', addition: { root_folder_path: files } }
  const first = await newDataFolder(t)
  await runFirst(first, password, [...driverTypes, ...(options.driverTypes ?? [])], store)
  const nodes: RunningGateway[] = []
  for (let index = 0; index < count; index++) {
    const dataFolder = index === 0 ? first : await newDataFolder(t)
    // The first node changes the storage; the others start with its row.
    nodes.push(await startNode(t, { ...options, dataFolder, store, driver: index === 0 ? driver : undefined }))
  }
  return nodes
}

export interface Daemon extends Addresses {
  /** As the daemon prints them, by protocol: `127.0.0.1:PORT`. */
  readonly bound: Readonly<Record<string, string>>
  readonly pid: number
  readonly adminPassword: string
  readonly dataFolder: string
  readonly exited: boolean
  /** The end of its output to stderr. */
  readonly log: string
  /** SIGKILL. */
  kill(): Promise<void>
  /** SIGTERM; resolves to the exit status. */
  stop(): Promise<number | null>
}

const main = fileURLToPath(new URL('../src/main.js', import.meta.url))

/**
 * Runs the built program, or another one that takes a data folder, as a child process. It is killed at the end of the
 * test.
 */
export async function startDaemon(
  t: Test,
  options: Pick<RunOptions, 'dataFolder' | 'adminPassword'> & {
    readonly program?: string
    /** The ports of the protocols. Absent: free ones. */
    readonly ports?: { readonly http: number; readonly sftp: number }
    /** The limit of open files of the process. */
    readonly descriptors?: number
    /** Variables in addition to those of this process. */
    readonly environment?: Readonly<Record<string, string>>
  } = {},
): Promise<Daemon> {
  const adminPassword = options.adminPassword ?? password
  const dataFolder = options.dataFolder ?? (await temporaryFolder(t, adminPassword, driverTypes))
  const { http: httpPort, sftp: sftpPort } = options.ports ?? { http: 0, sftp: 0 }
  const own = ['--http', `127.0.0.1:${httpPort}`, '--sftp', `127.0.0.1:${sftpPort}`]
  const serve = [main, 'serve', '--data', dataFolder, ...own]
  const words = options.program === undefined ? serve : [options.program, dataFolder]
  const { descriptors } = options
  const limited = descriptors === undefined ? [] : ['sh', '-c', `ulimit -n ${descriptors} && exec "$@"`, 'sh']
  const [program = '', ...parameters] = [...limited, process.execPath, ...words]
  const child = spawn(program, parameters, {
    env: {
      ...process.env,
      ...(await storeVariables(dataFolder, t)),
      ...options.environment,
      TIDEGATE_ADMIN_PASSWORD: adminPassword,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let complaints = ''
  child.stderr.on('data', (chunk: Buffer) => (complaints = (complaints + chunk.toString()).slice(-10_000)))
  let exited = false
  const exit = new Promise<number | null>((resolve) =>
    child.once('exit', (status) => {
      exited = true
      resolve(status)
    }),
  )
  const end = (signal: 'SIGKILL' | 'SIGTERM') => {
    if (!exited) child.kill(signal)
    return exit
  }
  t.teardown(() => end('SIGKILL'))
  const ready = await new Promise<string>((resolve, reject) => {
    createInterface(child.stdout).on('line', (line) => {
      if (line.includes('ready')) resolve(line)
    })
    void exit.then((status) => reject(new Error(`the daemon ended with ${status}: ${complaints}`)))
  })
  const printed = ready.matchAll(/(\w+):\/\/(127\.0\.0\.1:\d+)/g)
  const bound = Object.fromEntries(
    Array.from(printed, ([, protocol = '', address = '']) => [protocol, address] as const),
  )
  return {
    ...addresses(bound.http ?? '', bound.sftp ?? ''),
    bound,
    pid: child.pid ?? 0,
    adminPassword,
    dataFolder,
    get exited() {
      return exited
    },
    get log() {
      return complaints
    },
    kill: async () => {
      await end('SIGKILL')
    },
    stop: () => end('SIGTERM'),
  }
}

/**
 * Resolves when the storage at `/` has started and has removed the leftovers of killed runs, which may be after the
 * daemon is ready.
 */
export async function storageStarted({ davUrl, adminPassword }: Daemon): Promise<void> {
  const authorization = `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
  while (!(await fetch(davUrl, { method: 'HEAD', headers: { authorization } })).ok) await wait(100)
}

/** The processes that serve for a daemon with several workers. Needs the program `ps`. */
export async function workersOf({ pid }: Pick<Daemon, 'pid'>): Promise<readonly number[]> {
  const { stdout } = await promisify(execFile)('ps', ['-o', 'pid=,args=', '--ppid', String(pid)])
  const lines = stdout.split('\n').filter((line) => line.includes('main.js serve'))
  return lines.map((line) => Number.parseInt(line, 10))
}
