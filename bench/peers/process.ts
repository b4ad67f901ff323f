/** Child processes of the bench: starts, measures and stops them. */
import { spawn } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const startLimit = 60_000
const stopLimit = 10_000

export interface RunningProcess {
  readonly pid: number
  /** Current resident memory of the program and its child processes, in bytes. */
  memory(): Promise<number>
  /** Peak resident memory since the last `resetPeak`, in bytes. */
  peakMemory(): Promise<number>
  resetPeak(): Promise<void>
  /** Peak resident memory since the start, regardless of `resetPeak`. */
  lifetimePeak(): Promise<number>
  /** Processor time of the program and its child processes, including ended ones, in seconds. */
  processorTime(): Promise<number>
  /** Sends SIGTERM, and SIGKILL if the process does not exit in time. */
  stop(): Promise<void>
}

interface StartOptions {
  readonly environment?: Readonly<Record<string, string>>
  /** Whether the program is ready. Polled until it is or exits. `output`: what it has printed so far. */
  readonly isReady: (output: string) => boolean | Promise<boolean>
}

/** Starts a program. Rejects with the end of its output if it exits or times out before it is ready. */
export async function startProcess(
  program: string,
  words: readonly string[],
  { environment = {}, isReady }: StartOptions,
): Promise<RunningProcess> {
  const child = spawn(program, [...words], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let printed = ''
  const gather = (chunk: Buffer) => (printed = (printed + chunk.toString()).slice(-20_000))
  child.stdout.on('data', gather)
  child.stderr.on('data', gather)
  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('exit', (status, signal) => resolve(`it ended with ${signal ?? status ?? 'an error'}`))
  })
  const isRunning = () => child.pid !== undefined && child.exitCode === null && child.signalCode === null
  const stop = async (): Promise<void> => {
    if (!isRunning()) return
    child.kill('SIGTERM')
    const patience = new AbortController()
    await Promise.race([ended, sleep(stopLimit, undefined, { signal: patience.signal }).catch(() => undefined)])
    patience.abort()
    if (!isRunning()) return
    child.kill('SIGKILL')
    await ended
  }
  let problem: string | undefined
  void ended.then((reason) => (problem ??= reason))
  const deadline = performance.now() + startLimit
  while (problem === undefined && !(await isReady(printed))) {
    if (performance.now() > deadline) problem = 'it does not accept'
    await sleep(5)
  }
  const { pid } = child
  if (problem !== undefined || pid === undefined) {
    await stop()
    throw new Error(`${program}: ${problem ?? 'not started'}: ${printed.slice(-2000)}`)
  }
  const peakMemory = () => familyFigure(pid, 'VmHWM')
  let highest = 0
  const lifetimePeak = async () => (highest = Math.max(highest, await peakMemory()))
  return {
    pid,
    memory: () => familyFigure(pid, 'VmRSS'),
    peakMemory,
    resetPeak: async () => {
      await lifetimePeak()
      for (const each of await family(pid)) await writeFile(`/proc/${each}/clear_refs`, '5')
    },
    lifetimePeak,
    processorTime: () => familyProcessorTime(pid),
    stop,
  }
}

/** Whether a local port accepts connections. */
export function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}

/** The ids of a process and its descendants. */
async function family(pid: number): Promise<number[]> {
  const parents = new Map<number, number>()
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const status = await readFile(`/proc/${name}/status`, 'utf8').catch(() => '') // the process may have exited
    parents.set(Number(name), Number(/^PPid:\s+(\d+)/m.exec(status)?.[1] ?? 0))
  }
  const members = [pid]
  for (const member of members) {
    for (const [child, parent] of parents) if (parent === member) members.push(child)
  }
  return members
}

async function familyFigure(pid: number, name: 'VmRSS' | 'VmHWM'): Promise<number> {
  let total = 0
  for (const member of await family(pid)) {
    const status = await readFile(`/proc/${member}/status`, 'utf8').catch(() => '')
    total += Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024
  }
  return total
}

/** Clock ticks per second in `/proc` (USER_HZ), the same on every architecture that Node supports. */
export const ticksOfSecond = 100

async function familyProcessorTime(pid: number): Promise<number> {
  let ticks = 0
  for (const member of await family(pid)) {
    const stat = await readFile(`/proc/${member}/stat`, 'utf8').catch(() => '')
    // Starts after the name, which may contain any character. The fields are utime, stime, cutime, cstime (proc(5)).
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    for (const field of fields.slice(11, 15)) ticks += Number(field)
  }
  return ticks / ticksOfSecond
}
