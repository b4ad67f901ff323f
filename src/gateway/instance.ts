/** Identifies this run of the program, and detects whether another run has ended. PIDs alone are reused. */
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import type { Instance } from '../contract/driver-env.js'

/**
 * This run. Its name is `<host>-<boot>-<pid>-<started>-<random>`. `host` and `boot` are digests of the machine and its
 * boot.
 */
export function thisInstance(): Instance {
  const host = digest(textOf('/etc/machine-id'), hostname())
  // PIDs are unique within one PID namespace only.
  const bootId = textOf('/proc/sys/kernel/random/boot_id')
  const boot = digest(bootId, processNamespace())
  const started = processStartTime(process.pid) ?? '0'
  return {
    name: [host, boot, process.pid, started, randomBytes(6).toString('hex')].join('-'),
    boot: bootId === '' ? undefined : digest(bootId),
    isOver: (name) => {
      const match = /^([\da-f]{8})-([\da-f]{8})-(\d+)-(\d+)-[\w-]+$/.exec(name)
      if (match?.[1] !== host) return undefined
      if (match[2] !== boot) return process.platform === 'linux' ? true : undefined
      return !isRunning(Number(match[3]), match[4] ?? '')
    },
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
