/** The memory of the browser that a test has started. */
import { readdir, readFile } from 'node:fs/promises'

/** Bytes that the processes of the browsers of this process hold, each shared page counted once (proc(5), smaps). */
export async function browserMemory(): Promise<number> {
  const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const parents = new Map(await Promise.all(processes.map(async (pid) => [pid, await parentOf(pid)] as const)))
  const own = processes.filter((pid) => isBelow(pid, parents))
  const sizes = await Promise.all(own.map(proportionalSize))
  return sizes.reduce((sum, size) => sum + size, 0)
}

function isBelow(pid: string, parents: ReadonlyMap<string, string>): boolean {
  for (let parent = parents.get(pid); parent !== undefined; parent = parents.get(parent)) {
    if (parent === String(process.pid)) return true
  }
  return false
}

async function parentOf(pid: string): Promise<string> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return /^PPid:\s+(\d+)$/m.exec(status)?.[1] ?? ''
}

/** 0 for what is not a browser. */
async function proportionalSize(pid: string): Promise<number> {
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  if (!command.includes('chromium')) return 0
  const sizes = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '')
  return Number(/^Pss:\s+(\d+) kB$/m.exec(sizes)?.[1] ?? 0) * 1024
}
