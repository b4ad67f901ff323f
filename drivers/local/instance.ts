/**
 * Names by which a later start tells what a dead process left from what a living one still needs.
 * `<host>-<boot>-<process>-<started>-<instance>`: the first two are digests of the machine and of this run of it.
 */
import { createHash } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

interface Owner {
  readonly host: string
  readonly boot: string
  readonly process: number
  /** Clock ticks since the boot, 0 where the system does not tell. */
  readonly started: number
}

function digest(...parts: readonly string[]): string {
  return createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 8)
}

function textOf(read: () => string): string {
  try {
    return read().trim()
  } catch {
    return ''
  }
}

/** proc(5): the 22nd field of stat; the second may hold blanks and brackets. Undefined: no such process. */
function startOf(pid: number): number | undefined {
  const text = textOf(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return text === '' ? undefined : Number(fields[19])
}

function thisProcess(): Owner {
  return {
    host: digest(
      textOf(() => readFileSync('/etc/machine-id', 'utf8')),
      hostname(),
    ),
    // Process numbers mean something within one namespace of them only.
    boot: digest(
      textOf(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
      textOf(() => readlinkSync('/proc/self/ns/pid')),
    ),
    process: process.pid,
    started: startOf(process.pid) ?? 0,
  }
}

/** The name of the folder in which this process stages. */
export function stagingNameOf(instance: string): string {
  const { host, boot, process: pid, started } = thisProcess()
  const safe = /^[\w-]{1,64}$/.test(instance) ? instance : digest(instance)
  return `${host}-${boot}-${pid}-${started}-${safe}`
}

/**
 * Whether the owner of a staging folder is surely gone. What another machine stages on a shared disk cannot be asked
 * for: it is left alone until nothing in it has changed for a day.
 */
export function isDead(name: string, changed: Date, now = Date.now()): boolean {
  const match = /^([\da-f]{8})-([\da-f]{8})-(\d+)-(\d+)-[\w-]+$/.exec(name)
  const quiet = now - changed.getTime() > 24 * 3_600_000
  if (!match) return quiet
  const own = thisProcess()
  const [, host, boot, pid, started] = match
  if (host !== own.host) return quiet
  if (boot !== own.boot) return process.platform === 'linux' || quiet
  if (process.platform === 'linux') return startOf(Number(pid)) !== Number(started)
  return !isRunning(Number(pid))
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
