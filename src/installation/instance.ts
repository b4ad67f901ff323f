/** Identifies this run of the program, and detects whether another run has ended. PIDs alone are reused. */
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import type { Instance } from '../contract/driver-env.js'

/** The place where a process runs, by which other processes recognize it. */
interface ProcessPlace {
  /** The digest of the machine; copies of one image may share it. */
  readonly host: string
  readonly bootId: string
  /** PIDs are unique within one PID namespace only. */
  readonly namespace: string
}

export interface ThisInstance extends Instance {
  /** Whether the process of this instance runs; undefined if it does not belong to this boot and PID namespace. */
  readonly runs: (name: string) => boolean | undefined
}

/**
 * This run. Its name is `<host>-<place>-<pid>-<started>-<boot>-<random>`: digests of the machine, of boot and PID
 * namespace, and of the boot. Names of earlier versions lack the last digest.
 */
export function thisInstance(place: ProcessPlace = thisPlace()): ThisInstance {
  const { host, bootId, namespace } = place
  const here = digest(bootId, namespace)
  const boot = digest(bootId)
  const started = processStartTime(process.pid) ?? '0'
  const parse = (name: string) => {
    const match = /^([\da-f]{8})-([\da-f]{8})-(\d+)-(\d+)-(?:([\da-f]{8})-)?[\w-]+$/.exec(name)
    return match?.[1] === host ? match : undefined
  }
  const runs = (name: string) => {
    const match = parse(name)
    return match?.[2] === here ? isRunning(Number(match[3]), match[4] ?? '') : undefined
  }
  return {
    name: [host, here, process.pid, started, boot, randomBytes(6).toString('hex')].join('-'),
    boot: bootId === '' ? undefined : boot,
    runs,
    isOver: (name) => {
      const isRunningHere = runs(name)
      if (isRunningHere !== undefined) return !isRunningHere
      // Nothing is known of another container of this boot. An earlier boot is over.
      const match = parse(name)
      return match && match[5] !== boot && process.platform === 'linux' ? true : undefined
    },
  }
}

function thisPlace(): ProcessPlace {
  return {
    host: digest(textOf('/etc/machine-id'), hostname()),
    bootId: textOf('/proc/sys/kernel/random/boot_id'),
    namespace: processNamespace(),
  }
}

/** Whether the process `pid` runs and started at `started`, in the format of `processStartTime`. */
export function isRunning(pid: number, started: string): boolean {
  // PIDs are reused; the start time distinguishes the processes.
  if (process.platform === 'linux') return processStartTime(pid) === started
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/**
 * Clock ticks from boot to the start of a process (proc(5), field 22 of stat). Undefined if the process does not exist,
 * is a zombie, or the system has no /proc.
 */
export function processStartTime(pid: number): string | undefined {
  const text = textOf(`/proc/${pid}/stat`)
  if (text === '') return undefined
  // Starts at the third field: the second may contain spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [state = '', threads, started] = [fields[0], Number(fields[17]), fields[19]]
  // A killed process may be a zombie while one of its threads is still in an uninterruptible write.
  return /^[ZXx]$/.test(state) && threads <= 1 ? undefined : started
}

function processNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return ''
  }
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    return ''
  }
}

function digest(...parts: readonly string[]): string {
  return createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 8)
}
