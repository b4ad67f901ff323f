/**
 * The processes of rclone of this gateway: one for each command, shared by its storages. Each is started again when it
 * ends by itself, and ended with its last user.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { settlesWithin, untilAborted } from '../../src/base/cancellation.js'
import type { DriverEnv, Instance } from '../../src/contract/driver-env.js'
import { GatewayError } from '../../src/base/errors.js'
import { OneTimeSources } from './one-time-sources.js'
import type { RcloneCommand } from './options.js'
import { RemoteControl } from './remote-control.js'

/** Milliseconds that a start may take, and that a call waits for it. */
const startTimeout = 15_000
/** Milliseconds after SIGTERM until SIGKILL. */
const endTimeout = 2000
/** Milliseconds for a program to report its version. */
const versionTimeout = 5000
/** Milliseconds after which a process counts as started well. One that ends sooner is started again after a pause. */
const minLife = 1000
const maxPause = 10_000

interface Running {
  readonly child: ChildProcess
  readonly control: RemoteControl
  readonly ended: Promise<void>
}

export class RcloneProcess {
  readonly sources = new OneTimeSources()
  readonly #closed = new AbortController()
  #running: Promise<Running> | undefined
  /** The process that does not accept calls yet. */
  #starting: ChildProcess | undefined
  /** Consecutive processes that have ended soon after their start. */
  #failures = 0

  constructor(
    private readonly command: RcloneCommand,
    private readonly env: Pick<DriverEnv, 'egress' | 'instance' | 'log'>,
    /** The first start waits until this has settled. */
    private readonly after?: Promise<unknown>,
  ) {}

  /** Resolves when the process accepts calls. Rejects with `unavailable` if it does not within `startTimeout`. */
  async control(signal?: AbortSignal): Promise<RemoteControl> {
    const running = this.#start()
    const started = await untilAborted(settlesWithin(running, startTimeout), signal)
    if (!started) throw new GatewayError('unavailable', { reason: 'rclone is being started again' })
    return (await running).control
  }

  /** Resolves when the process has ended. */
  async close(): Promise<void> {
    this.#closed.abort()
    this.#starting?.kill('SIGKILL')
    const running = await this.#running?.catch(() => undefined)
    running?.control.close()
    if (running) await end(running)
    await this.sources.close()
  }

  #isClosed(): boolean {
    return this.#closed.signal.aborted
  }

  #start(): Promise<Running> {
    return (this.#running ??= this.#launch().catch((error: unknown) => {
      this.#running = undefined
      throw error
    }))
  }

  async #launch(): Promise<Running> {
    const { data, program } = this.command
    await this.after?.catch(() => undefined)
    if (this.#failures > 0) {
      const wait = Math.min(maxPause, 100 * 2 ** this.#failures)
      await pause(wait, undefined, { signal: this.#closed.signal }).catch(() => undefined)
    }
    if (this.#isClosed()) throw new GatewayError('aborted')
    this.#failures++
    await removeOrphans(data, this.env.instance)
    const folder = await createProcessFolder(data, this.env.instance)
    const credentials = { user: randomBytes(32).toString('hex'), password: randomBytes(32).toString('hex') }
    const words = [...(await lifeline()), program, ...wordsOf(this.command), folderFlag, folder]
    const [first = '', ...rest] = words
    const child = spawn(first, rest, {
      cwd: '/',
      // In a process group of its own: Ctrl-C in a terminal ends the daemon, which first lets running uploads end.
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
      env: environmentOf(this.command, credentials),
    })
    this.#starting = child
    const startedAt = performance.now()
    const output = new Output(child, Object.values(credentials))
    const exit = new Promise<void>((resolve) => child.once('exit', () => resolve()).once('error', () => resolve()))
    const ended = this.#watch(child, exit, output, folder, startedAt)
    const port = await Promise.race([
      output.port,
      exit.then(() => undefined),
      pause(startTimeout, undefined, { ref: false }),
    ])
    this.#starting = undefined
    if (port === undefined || this.#isClosed()) {
      child.kill('SIGKILL')
      throw new GatewayError('unavailable', { reason: 'rclone does not start', cause: new Error(output.lastLine) })
    }
    return { child, ended, control: new RemoteControl(port, credentials, this.env.egress) }
  }

  /** Resolves when the process has ended and its folder is removed. Starts another one, unless this is closed. */
  async #watch(
    child: ChildProcess,
    exit: Promise<void>,
    output: Output,
    folder: string,
    startedAt: number,
  ): Promise<void> {
    await exit
    if (performance.now() - startedAt >= minLife) this.#failures = 0
    await removeProcessFolder(folder)
    if (this.#isClosed()) return
    const { exitCode, signalCode } = child
    this.env.log.warn({ exitCode, signalCode, lastLine: output.lastLine }, 'rclone has ended')
    const failed = await this.#running?.then(
      (running) => running.child === child,
      () => false,
    )
    if (failed !== true) return
    this.#running = undefined
    this.#start().catch((error: unknown) => this.env.log.warn({ err: error }, 'rclone cannot be started again'))
  }
}

/** The words before the program by which the system ends it when this process ends, however that happens. */
async function lifeline(): Promise<readonly string[]> {
  const words = ['--pdeathsig', 'KILL']
  const works = await new Promise<boolean>((resolve) =>
    execFile('setpriv', [...words, 'true'], { timeout: 5000 }, (error) => resolve(error === null)),
  )
  return works ? ['setpriv', ...words] : []
}

function wordsOf({ config, flags }: RcloneCommand): readonly string[] {
  return [
    ...['rcd', '--rc-serve', '--rc-addr', '127.0.0.1:0', '--ask-password=false'],
    // The times of the server cost no request for each file, where the remote has both.
    '--use-server-modtime=true',
    // Default: an hour, after which a long download or upload would be cut.
    ...['--rc-server-read-timeout', '87600h', '--rc-server-write-timeout', '87600h'],
    ...(config === '' ? [] : ['--config', config]),
    ...flags,
  ]
}

/**
 * Whether the program reports its version as rclone does. True if it does not answer in time, which says nothing about
 * what it is.
 */
export async function isRclone(program: string): Promise<boolean> {
  const options = { timeout: versionTimeout, cwd: '/', env: inheritedEnvironment() }
  return new Promise<boolean>((resolve) =>
    execFile(program, ['version'], options, (error, output) => {
      resolve(output === '' && error?.killed === true ? true : /^rclone v?\d/.test(output))
    }),
  ).catch(() => false)
}

/**
 * The environment of the daemon without its own secrets, and without variables of rclone, which could define remotes
 * and set any flag.
 */
function inheritedEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(?:TIDEGATE|RCLONE)_/i.test(name)))
}

/** The environment of a process with this command. */
function environmentOf({ config, password }: RcloneCommand, credentials: { user: string; password: string }) {
  return {
    ...inheritedEnvironment(),
    ...(process.env.RCLONE_CONFIG !== undefined && config === '' && { RCLONE_CONFIG: process.env.RCLONE_CONFIG }),
    RCLONE_RC_USER: credentials.user,
    RCLONE_RC_PASS: credentials.password,
    ...(password !== '' && { RCLONE_CONFIG_PASS: password }),
  }
}

/** The standard error of a process: the port on which it listens, and its last line. */
class Output {
  lastLine = ''
  readonly port: Promise<number>

  constructor(child: ChildProcess, secrets: readonly string[]) {
    this.port = new Promise((resolve) => {
      if (!child.stderr) return
      createInterface({ input: child.stderr }).on('line', (line) => {
        const [, port] = /http:\/\/127\.0\.0\.1:(\d+)\//.exec(line) ?? []
        if (port !== undefined) resolve(Number(port))
        // Traces of crashes are indented or begin in lower case.
        if (/^\d{4}\//.test(line)) this.lastLine = redacted(line, secrets).slice(0, 500)
      })
    })
  }
}

/** Addresses of one-time sources have no meaning for the admin, even though they have been used. */
function redacted(line: string, secrets: readonly string[]): string {
  const text = line.replaceAll(/http:\/\/127\.0\.0\.1:\d+\/[\w-]+/g, 'the gateway')
  return secrets.reduce((rest, secret) => rest.replaceAll(secret, '…'), text)
}

async function end({ child, ended }: Running): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return ended
  child.kill('SIGTERM')
  if (!(await settlesWithin(ended, endTimeout))) child.kill('SIGKILL')
  await ended
}

// Folders for temporary files of processes, closed to other users, below the data folder. The name of each contains the
// run of the gateway, and its path is on the command line of its process. So a later run finds what a killed one has
// left: the folder, and the process where the system could not end it together with the gateway.

/** The flag that names the folder on the command line. */
const folderFlag = '--temp-dir'

/** Creates the folder of a process. */
async function createProcessFolder(data: string, instance: Instance): Promise<string> {
  const folder = join(parentFolder(data), `${instance.name}-${randomBytes(4).toString('hex')}`)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  return folder
}

async function removeProcessFolder(folder: string): Promise<void> {
  // A process that was just killed may still be writing.
  await rm(folder, { recursive: true, force: true, maxRetries: 5 }).catch(() => undefined)
}

/** Ends the processes of runs that are over, and removes their folders. Never rejects. */
async function removeOrphans(data: string, instance: Instance): Promise<void> {
  const names = await readdir(parentFolder(data)).catch(() => [])
  const orphans = names.filter((name) => instance.isOver(name.replace(/-[\da-f]{8}$/, '')) === true)
  for (const name of orphans) {
    const folder = join(parentFolder(data), name)
    for (const pid of await processesOf(folder)) endProcess(pid)
    await removeProcessFolder(folder)
  }
}

function parentFolder(data: string): string {
  return join(data, 'rclone')
}

/** The processes with this folder on their command line; none on systems without /proc. */
async function processesOf(folder: string): Promise<readonly number[]> {
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
  const found: number[] = []
  for (const pid of pids) {
    const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0')
    if (words[words.indexOf(folderFlag) + 1] === folder && words.includes(folderFlag)) found.push(Number(pid))
  }
  return found
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended, or belongs to another user.
  }
}

// Processes that storages share

interface Shared {
  readonly process: RcloneProcess
  users: number
}

const processes = new Map<string, Shared>()
/** The ends of processes, by configuration file. */
const ending = new Map<string, Promise<unknown>>()

export interface ProcessLease {
  readonly process: RcloneProcess
  /** Ends the process if no other storage uses it. Resolves when it has ended. Later calls do nothing. */
  release(): Promise<void>
}

/**
 * A new process starts when those that end with the same configuration file have ended: rclone writes renewed tokens to
 * it.
 */
export function leaseProcess(command: RcloneCommand, env: DriverEnv): ProcessLease {
  const key = JSON.stringify(command)
  const start = () => new RcloneProcess(command, env, ending.get(command.config))
  const shared = processes.get(key) ?? { process: start(), users: 0 }
  processes.set(key, shared)
  shared.users++
  let isReleased = false
  return {
    process: shared.process,
    release: async () => {
      if (isReleased) return
      isReleased = true
      if (--shared.users > 0) return
      processes.delete(key)
      const ended = shared.process.close()
      follow(command.config, ended)
      await ended
    },
  }
}

function follow(config: string, ended: Promise<void>): void {
  const all = Promise.allSettled([ending.get(config), ended]).finally(() => {
    if (ending.get(config) === all) ending.delete(config)
  })
  ending.set(config, all)
}
