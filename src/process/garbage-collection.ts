/**
 * Tunes V8's garbage collector. Its defaults suit pages and scripts; here most bytes pass once, outside the heap, from
 * a socket to a disk. Must be imported before anything large is loaded: until `afterStartup` the young generation stays
 * small, because the objects of a start are long-lived, and V8 does not return the space later.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { releaseIdleMemory } from '../base/idle-memory.js'

setFlagsFromString('--semi-space-growth-factor=1')
setFlagsFromString('--heap-growing-percent=40')

/** Milliseconds between two looks at the process. */
const lookInterval = 5000
/** Idle looks before the first collection: after it V8 has to make room for young objects again. */
const restingLooks = 5
/** Processor time, as a share of the interval, below which the process is idle. */
const idleShare = 0.05
/** Growth of the resident memory, in bytes, that is worth a collection. */
const worthwhile = 16 * 1024 * 1024
/**
 * Collections in a row, one for each look: the first one frees objects, the second one the pages that are then empty.
 */
const collections = 2

/** What the collector sees of the process, and its only effect. */
interface ObservedProcess {
  /** Processor time since the start, in microseconds. */
  readonly cpuTime: () => number
  /** Resident memory, in bytes. */
  readonly resident: () => number
  /**
   * A full collection, after what is cached for speed alone has been released. Takes about 40 ms for 30 MiB of live
   * objects.
   */
  readonly collect: () => void
}

/** Decides at each look whether to collect. */
export class IdleCollector {
  #cpuTime: number
  /** Resident memory after the last collections. */
  #resident = 0
  /** Collections since the memory grew. */
  #done = 0
  /** Idle looks since the process was busy. */
  #idleLooks = 0

  constructor(private readonly observed: ObservedProcess) {
    this.#cpuTime = observed.cpuTime()
  }

  look(): void {
    const { cpuTime, resident, collect } = this.observed
    this.#idleLooks = cpuTime() - this.#cpuTime < lookInterval * 1000 * idleShare ? this.#idleLooks + 1 : 0
    const isIdle = this.#idleLooks >= restingLooks
    if (isIdle && this.#done === collections) {
      // The system gets the pages a moment after a collection.
      this.#resident = resident()
      this.#done = 0
    } else if (isIdle && (this.#done > 0 || resident() - this.#resident >= worthwhile)) {
      collect()
      this.#done++
    } else {
      // Whatever these returned: a process that is idle now and then must not collect each time.
      if (this.#done > 0) this.#resident = resident()
      this.#done = 0
    }
    this.#cpuTime = cpuTime()
  }
}

/** Call once, when everything is loaded. */
export function afterStartup(): void {
  setFlagsFromString('--semi-space-growth-factor=2')
  // External buffers count as heap growth. By default they trigger about thirty full collections per GiB of transferred
  // bytes. If the heap may grow by 200 %, minor collections free the buffers first.
  setFlagsFromString('--heap-growing-percent=200')
  collectWhenIdle()
}

/**
 * Returns memory to the operating system while the process is idle, which this does not keep alive. V8 collects garbage
 * when something is allocated, so that an idle process would keep the memory of its busiest moment.
 */
function collectWhenIdle(): void {
  // V8 makes the function for new contexts only, once the flag is set.
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const collect = () => {
    releaseIdleMemory()
    collectGarbage()
  }
  const cpuTime = () => {
    const { user, system } = process.cpuUsage()
    return user + system
  }
  const collector = new IdleCollector({ cpuTime, resident, collect })
  setInterval(() => collector.look(), lookInterval).unref()
}

/** Resident memory in bytes; 0, for which nothing is collected, if the system has no descriptor left to read it. */
function resident(): number {
  try {
    return process.memoryUsage.rss()
  } catch {
    return 0
  }
}
