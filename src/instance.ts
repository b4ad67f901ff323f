/** One run of the program among others: its name, and whether another run is over. Process numbers alone would not tell. */
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import type { Instance } from './driver.js'

/** This run. Its name is `<host>-<boot>-<process>-<started>-<random>`: the first two are digests of the machine and of this run of it. */
export function thisInstance(): Instance {
  const host = digest(textOf('/etc/machine-id'), hostname())
  // Process numbers mean something within one namespace of them only.
  const bootId = textOf('/proc/sys/kernel/random/boot_id')
  const boot = digest(bootId, processNamespace())
  const started = startOf(process.pid) ?? '0'
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

/** Whether a process with this number runs that began at `started`, as `startOf` tells it. */
export function isRunning(pid: number, started: string): boolean {
  // A number is used again by other processes; when it began tells them apart.
  if (process.platform === 'linux') return startOf(pid) === started
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/**
 * Clock ticks from boot to the start of a process (proc(5), field 22 of stat); undefined where there is no such file, and where
 * it has ended and is only waited for.
 */
export function startOf(pid: number): string | undefined {
  const text = textOf(`/proc/${pid}/stat`)
  if (text === '') return undefined
  // From the third field on: the second may hold blanks and brackets.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [state = '', threads, started] = [fields[0], Number(fields[17]), fields[19]]
  // Of a killed process, a thread may still be at a write that cannot be interrupted.
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
