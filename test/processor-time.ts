/**
 * Processor time, for tests that promise how much work something is. Unlike the clock on the wall it does not count what
 * other programs do meanwhile.
 */
import { readFile } from 'node:fs/promises'

/** Milliseconds that this process computes until `work` is done, in all of its threads: the least of so many runs. */
export async function processorTime(work: () => unknown, runs = 1): Promise<number> {
  let least = Infinity
  for (let run = 0; run < runs; run++) {
    const before = process.cpuUsage()
    await work()
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, (user + system) / 1000)
  }
  return least
}

/**
 * How many times the processor time of `work(size)` `work(times * size)` takes, each the least of five runs: near `times`
 * where the work grows with the size, near its square where it is quadratic.
 */
export async function growth(work: (size: number) => unknown, size: number, times: number): Promise<number> {
  const small = await processorTime(() => work(size), 5)
  return (await processorTime(() => work(times * size), 5)) / small
}

/** Milliseconds that another process has computed so far, in steps of ten. Linux only. */
export async function processorTimeOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  // The name before the last parenthesis may hold anything.
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
  return (Number(user) + Number(system)) * 10
}
