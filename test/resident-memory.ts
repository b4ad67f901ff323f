/** Resident memory of a daemon, as the system reports it. */
import { readFile } from 'node:fs/promises'
import type { Daemon } from './gateway.js'

const mebibyte = 1024 * 1024

/** Current resident memory in bytes. */
export async function resident({ pid }: Pick<Daemon, 'pid'>): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1024
}

/** The maximum while `work` runs, minus `idle` (bytes), in MiB. */
export async function risen(daemon: Daemon, idle: number, work: () => Promise<unknown>): Promise<number> {
  let peak = 0
  const timer = setInterval(() => void resident(daemon).then((now) => (peak = Math.max(peak, now))), 50)
  try {
    await work()
  } finally {
    clearInterval(timer)
  }
  return Math.round((peak - idle) / mebibyte)
}
