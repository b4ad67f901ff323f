/**
 * Judges a history of operations: whether there is an order of all of them that explains every answer, and in which
 * each has taken effect at one moment between its begin and its end (linearizability). An operation with an open
 * outcome may have taken effect at any moment after its begin, or never.
 *
 * The search follows the answers in the order of their times. It holds all possible worlds, each with the contents of
 * the paths, and the running operations that have taken effect in it. At each answer, a world in which the operation
 * has not yet taken effect is replaced by all in which it has, after none or some of the other running ones.
 */
import { describe, type Operation } from './history.js'

interface Verdict {
  /** Absent: the history is correct, or cannot be judged. */
  readonly violation?: string
  /** Too many orders may explain the history. */
  readonly isUndecided?: true
  /** Number of conditional overwrites that landed late, which is allowed in a frozen node. */
  readonly late: number
}

/** Milliseconds since the start of the run. */
export interface Period {
  readonly from: number
  readonly to: number
}

/** With more worlds than this at one answer, a history is not judged. */
const maxWorlds = 300_000
/**
 * With so many operations that have an open outcome and the same effect, it is not counted how many have taken effect.
 */
const plenty = 3
/** Numbers of operations with an open outcome that may take effect just before one answer, tried in this order. */
const openLimits = [0, 1, 2, 4]

/**
 * Paths between which something was moved belong to one history. All paths are absent at its begin. `worlds`: for
 * tests.
 */
export function judgeContents(
  operations: readonly Operation[],
  frozen: readonly Period[] = [],
  worlds = maxWorlds,
): Verdict {
  const torn = operations.find(
    ({ kind, outcome, found }) => kind === 'read' && outcome === 'done' && found === undefined,
  )
  if (torn) return { violation: `torn: ${describe(torn)}`, late: 0 }
  const failure = judge(operations, worlds)
  if (failure === undefined) return { late: 0 }
  if (failure.isUndecided) return { isUndecided: true, late: 0 }
  const violation = failure.text
  // A node that is frozen after the check of a condition overwrites what others have stored meanwhile.
  const isLate = (operation: Operation) =>
    operation.kind === 'replace' &&
    operation.outcome !== 'refused' &&
    frozen.some((period) => overlap(period, operation))
  const late = operations.filter(isLate)
  if (late.length === 0) return { violation, late: 0 }
  // A single late operation usually suffices.
  for (const landed of [...late.map((operation) => [operation]), late]) {
    const relaxed = operations.map((operation): Operation => {
      const isWrite = operation.kind === 'replace' && operation.content !== undefined && landed.includes(operation)
      return isWrite ? { ...operation, kind: 'write', content: operation.content } : operation
    })
    if (judge(relaxed, worlds) === undefined) return { late: landed.length }
  }
  return { violation, late: 0 }
}

function overlap({ from, to }: Period, { begin, end, outcome }: Operation): boolean {
  return begin <= to && (outcome === 'open' || end >= from)
}

/** Why no order was found. */
interface Failure {
  readonly text: string
  /** There were more orders to try than the search does. */
  readonly isUndecided: boolean
}

/** Returns undefined if an order explains the history. */
function judge(operations: readonly Operation[], worlds: number): Failure | undefined {
  const failures: Failure[] = []
  for (const limit of openLimits) {
    const failure = new Search(operations, limit, worlds).run()
    if (failure === undefined) return undefined
    failures.push({ ...failure, text: `with ${limit} open: ${failure.text}` })
  }
  // The last search tries all orders that the others try.
  const isUndecided = failures.at(-1)?.isUndecided === true
  return { text: failures.map(({ text }) => text).join('\n'), isUndecided }
}

/** The content of each path; undefined if it does not exist. */
type State = readonly (string | undefined)[]

interface Step {
  /** The place of the step in the order of the answers; undefined without an answer. */
  readonly number?: number
  readonly operation: Operation
  readonly end: number
  /** Whether it never has an effect. */
  readonly isPure: boolean
  /** Identifies steps with the same effect. */
  readonly effect: string
  /** The state afterwards; undefined if the answer would have been another one. The same state, if it has no effect. */
  apply(state: State): State | undefined
}

interface World {
  readonly state: State
  /** The running operations that have taken effect, as numbers of steps. Sorted. */
  readonly done: readonly number[]
  /** The operations with an open outcome that have taken effect, as numbers of steps. Sorted. */
  readonly used: readonly number[]
}

interface Branch {
  readonly world: World
  /** How many operations with an open outcome have taken effect in it. */
  readonly opened: number
  /**
   * What has taken effect in it, and so far affects nothing after it. Unless something does, it can take effect later.
   */
  readonly early: readonly Step[]
}

class Search {
  readonly #paths: readonly string[]
  /** The steps with an answer, in the order of the answers. */
  readonly #closed: readonly Step[]
  readonly #open: readonly Step[]

  constructor(
    operations: readonly Operation[],
    private readonly openLimit: number,
    private readonly maxWorlds: number,
  ) {
    const judged = operations
      .filter(({ kind, outcome }) => kind !== 'lock' && kind !== 'unlock' && outcome !== 'refused')
      .flatMap(stepsOfCopy)
    this.#paths = [...new Set(judged.flatMap(pathsOf))]
    // A content that no answer depends on is like any other such content.
    const seen = new Set(judged.flatMap((each) => (each.kind === 'replace' ? [each.expected] : [each.found])))
    const steps = judged.map((operation) => this.#stepOf(operation, (content) => (seen.has(content) ? content : '?')))
    this.#closed = steps
      .filter(({ operation }) => operation.outcome !== 'open')
      .sort((one, other) => one.end - other.end)
      .map((step, number) => ({ ...step, number }))
    this.#open = steps.filter(({ operation }) => operation.outcome === 'open' && operation.kind !== 'read')
  }

  run(): Failure | undefined {
    let worlds: readonly World[] = [{ state: this.#paths.map(() => undefined), done: [], used: [] }]
    let running: number[] = []
    const byBegin = [...this.#closed.keys()].sort((one, other) => this.#beginOf(one) - this.#beginOf(other))
    let begun = 0
    for (const [number, step] of this.#closed.entries()) {
      for (; begun < byBegin.length && this.#beginOf(byBegin[begun] ?? 0) <= step.end; begun++) {
        running.push(byBegin[begun] ?? 0)
      }
      const open = [...this.#open.entries()].filter(([, { operation }]) => operation.begin <= step.end)
      const next = this.#answer(worlds, number, running, open)
      if (next === undefined || next.length === 0) {
        const reason = next === undefined ? 'too many orders may explain' : 'no order explains'
        const text = `${reason} ${describe(step.operation)}, after:\n${this.#around(number)}`
        return { text, isUndecided: next === undefined }
      }
      worlds = next
      running = running.filter((each) => each !== number)
    }
    return undefined
  }

  #beginOf(number: number): number {
    return this.#closed[number]?.operation.begin ?? 0
  }

  /** The worlds in which the operation has taken effect. Undefined: there are too many. */
  #answer(
    worlds: readonly World[],
    number: number,
    running: readonly number[],
    open: readonly (readonly [number, Step])[],
  ): readonly World[] | undefined {
    const found = new Worlds()
    const visited = new Set<string>()
    const queue: Branch[] = worlds.map((world) => ({ world, opened: 0, early: [] }))
    const supply = new Map<string, number>()
    for (const [, { effect }] of open) supply.set(effect, (supply.get(effect) ?? 0) + 1)
    // In the order of their numbers of operations with an open outcome.
    for (const at of queue) {
      const { opened, early } = at
      const world = this.#withAnswersThatHold(at.world, running)
      const key = `${keyOf(world, true)} ${early.map((step) => step.effect).join()}`
      if (visited.has(key)) continue
      visited.add(key)
      if (visited.size > this.maxWorlds) return undefined
      const take = (step: Step, next: World, more: number) => {
        const rest = early.filter((each) => !shareAPath(each, step))
        queue.push({
          world: next,
          opened: opened + more,
          early: more > 0 || step.number !== number ? [...rest, step] : rest,
        })
      }
      if (world.done.includes(number)) {
        const last = this.#closed[number]
        if (early.every((step) => last && shareAPath(step, last))) {
          found.add({ ...world, done: world.done.filter((each) => each !== number) })
        }
        continue
      }
      for (const each of running) {
        const step = this.#closed[each]
        const state = step?.isPure === true || world.done.includes(each) ? undefined : step?.apply(world.state)
        if (step && state) take(step, { ...world, state, done: inserted(world.done, each) }, 0)
      }
      if (opened === this.openLimit) continue
      const effects = new Set<string>()
      for (const [each, step] of open) {
        if (world.used.includes(each) || effects.has(step.effect)) continue
        effects.add(step.effect)
        const state = step.apply(world.state)
        if (state === undefined || state === world.state) continue
        const isPlentiful = (supply.get(step.effect) ?? 0) >= plenty
        take(step, { ...world, state, used: isPlentiful ? world.used : inserted(world.used, each) }, 1)
      }
    }
    return found.list()
  }

  /** Operations that never have an effect take place as soon as their answers hold: nothing is gained by waiting. */
  #withAnswersThatHold(world: World, running: readonly number[]): World {
    const hold = running.filter((each) => {
      const step = this.#closed[each]
      return step?.isPure === true && !world.done.includes(each) && step.apply(world.state) !== undefined
    })
    return hold.length === 0 ? world : { ...world, done: hold.reduce(inserted, world.done) }
  }

  #stepOf(operation: Operation, canonical: (content: string) => string): Step {
    const { kind, path, outcome, begin, end } = operation
    const at = this.#paths.indexOf(path)
    const holds = (condition: boolean) => (state: State) =>
      condition === (state[at] !== undefined) ? state : undefined
    const set = (state: State, index: number, content: string | undefined) => state.with(index, content)
    const step = (effect: string, apply: Step['apply']): Step => ({
      operation,
      end: outcome === 'open' ? Infinity : Math.max(begin, end),
      isPure: kind === 'read' || outcome === 'missing' || outcome === 'exists',
      effect: `${kind} ${path} ${effect}`,
      apply,
    })
    if (outcome === 'missing') return step('', holds(false))
    if (outcome === 'exists') {
      const target = 'to' in operation ? this.#paths.indexOf(operation.to) : at
      return step('', (state) => (state[target] === undefined ? undefined : state))
    }
    switch (operation.kind) {
      case 'write': {
        const content = canonical(operation.content)
        return step(content, (state) => set(state, at, content))
      }
      case 'create': {
        const content = canonical(operation.content)
        return step(content, (state) => (state[at] === undefined ? set(state, at, content) : undefined))
      }
      case 'replace': {
        const content = operation.content === undefined ? undefined : canonical(operation.content)
        return step(`${operation.expected} ${content}`, (state) =>
          state[at] === operation.expected ? set(state, at, content) : undefined,
        )
      }
      case 'remove':
        return step('', (state) => {
          if (state[at] !== undefined) return set(state, at, undefined)
          return operation.lenient === true ? state : undefined
        })
      case 'move':
      case 'copy': {
        const target = this.#paths.indexOf(operation.to)
        return step(`${operation.to} ${operation.overwrite}`, (state) => {
          if (state[at] === undefined || (!operation.overwrite && state[target] !== undefined)) return undefined
          const copied = set(state, target, state[at])
          return kind === 'copy' ? copied : set(copied, at, undefined)
        })
      }
      default:
        return step('', (state) => (state[at] === operation.found ? state : undefined))
    }
  }

  /** The operations before and during an answer, for the report of a violation. */
  #around(number: number): string {
    const { end = 0, operation } = this.#closed[number] ?? {}
    const paths = operation ? pathsOf(operation) : []
    const touches = (other: Operation) => pathsOf(other).some((path) => paths.includes(path))
    const open = this.#open.filter((step) => step.operation.begin <= end && touches(step.operation))
    const before = this.#closed.filter((step) => step.operation.begin <= end && touches(step.operation)).slice(-25)
    const shown = [...open.slice(-25), ...before].map((step) => step.operation)
    return shown
      .sort((one, other) => one.begin - other.begin)
      .map((each) => `  ${describe(each)}`)
      .join('\n')
  }
}

/** Possible worlds, without those that can do nothing that another one cannot do. */
class Worlds {
  readonly #byState = new Map<string, World[]>()

  add(world: World): void {
    const key = keyOf(world, false)
    const same = this.#byState.get(key) ?? []
    if (same.some(({ used }) => isSubset(used, world.used))) return
    this.#byState.set(key, [...same.filter(({ used }) => !isSubset(world.used, used)), world])
  }

  list(): readonly World[] {
    return [...this.#byState.values()].flat()
  }
}

function keyOf({ state, done, used }: World, withUsed: boolean): string {
  return JSON.stringify([state.map((content) => content ?? null), done, withUsed ? used : []])
}

export function pathsOf(operation: Operation): readonly string[] {
  return 'to' in operation ? [operation.path, operation.to] : [operation.path]
}

/**
 * A copy reads its source before it takes the name of its target: it is a copy to a path of its own, which is then
 * moved.
 */
function stepsOfCopy(operation: Operation, number: number): readonly Operation[] {
  if (operation.kind !== 'copy' || (operation.outcome !== 'done' && operation.outcome !== 'open')) return [operation]
  const own = `copy ${number}`
  return [
    { ...operation, to: own, overwrite: true },
    { ...operation, kind: 'move', path: own },
  ]
}

function shareAPath({ operation: one }: Step, { operation: other }: Step): boolean {
  return pathsOf(one).some((path) => pathsOf(other).includes(path))
}

function isSubset(some: readonly number[], all: readonly number[]): boolean {
  return some.every((each) => all.includes(each))
}

function inserted(numbers: readonly number[], number: number): readonly number[] {
  return [...numbers, number].sort((one, other) => one - other)
}

/** Milliseconds by which a lock may end early or late. */
const expiryTolerance = 1000

interface Hold extends Period {
  readonly token: string
  readonly path: string
  readonly operation: Operation
}

/** Judges exclusive locks: two are never held at once, and no request without the token changes what is locked. */
export function judgeLocks(operations: readonly Operation[]): readonly string[] {
  const holds = operations.flatMap((operation): Hold[] => {
    const { kind, outcome, token, end: from, path } = operation
    if (kind !== 'lock' || outcome !== 'done' || token === undefined) return []
    const ends = operations.flatMap((other) => (other.kind === 'unlock' && other.token === token ? [other.begin] : []))
    const to = Math.min(from + operation.seconds * 1000 - expiryTolerance, ...ends)
    return [{ from, to, token, path, operation }]
  })
  const violations: string[] = []
  for (const path of new Set(holds.map((hold) => hold.path))) {
    const sorted = holds.filter((hold) => hold.path === path).sort((one, other) => one.from - other.from)
    for (const [index, { to, operation }] of sorted.entries()) {
      const next = sorted[index + 1]
      if (next && next.from < to) violations.push(`two locks: ${describe(operation)}; ${describe(next.operation)}`)
    }
    for (const operation of operations.filter((each) => each.path === path)) {
      const isChange = !['read', 'lock', 'unlock'].includes(operation.kind)
      if (!isChange || operation.outcome !== 'done') continue
      const lock = sorted.find(({ from, to }) => from < operation.begin && operation.end < to)
      if (lock && lock.token !== operation.presented) {
        violations.push(`changed in spite of a lock: ${describe(operation)}; ${describe(lock.operation)}`)
      }
    }
  }
  return violations
}
