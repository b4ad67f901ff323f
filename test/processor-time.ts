/**
 * Processor time, for tests of the cost of an operation. Unlike wall-clock time, it does not depend on other programs.
 */
import { readFile } from 'node:fs/promises'

/** Processor time of `work` in all threads of this process, in milliseconds: the minimum of several runs. */
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
 * The ratio of the processor times of `work(times * size)` and `work(size)`, each the minimum of five runs: about
 * `times` for linear work, about its square for quadratic work.
 */
export async function growth(work: (size: number) => unknown, size: number, times: number): Promise<number> {
  const small = await processorTime(() => work(size), 5)
  return (await processorTime(() => work(times * size), 5)) / small
}

/** Processor time of another process so far, in milliseconds and steps of ten. Linux only. */
export async function processorTimeOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  // The program name, before the last parenthesis, may have any characters.
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
  return (Number(user) + Number(system)) * 10
}
