/** New names for several entries at once, computed before anything is renamed. */
import { limits } from '../api/schema.ts'

export interface Scheme {
  /** 'replace': every match of `find` is replaced by `replacement`. 'number': the whole name is made of `pattern`. */
  readonly kind: 'replace' | 'number'
  readonly find: string
  readonly replacement: string
  /** `find` is a regular expression, and `replacement` may refer to its groups as `$1`. */
  readonly isRegex: boolean
  /** A name in which a run of `#` stands for the number, with as many digits at least. */
  readonly pattern: string
  /** The number of the first entry. */
  readonly first: number
  /** The part of a name after its last dot stays as it is. */
  readonly keepsExtension: boolean
}

/** Why a renaming is not possible. 'exchanged': the names would be exchanged among the entries. */
export type Problem = 'invalid' | 'taken' | 'repeated' | 'exchanged'

export interface Renaming {
  readonly from: string
  readonly to: string
  readonly problem?: Problem
}

/** Maximum length of a name in bytes. */
const longestName = limits.nameLength
/** Maximum number of UTF-8 bytes for each UTF-16 code unit. */
const bytesPerUnit = 3

/**
 * The renaming of each entry, in the same order. `taken`: all names of the folder. Throws SyntaxError for an invalid
 * regular expression.
 */
export function renamings(names: readonly string[], scheme: Scheme, taken: ReadonlySet<string>): readonly Renaming[] {
  const newName = nameMaker(scheme)
  const planned = names.map((from, index) => ({ from, to: newName(from, index) }))
  const leaving = new Set(planned.filter(({ from, to }) => from !== to).map(({ from }) => from))
  const uses = new Map<string, number>()
  for (const { to } of planned) uses.set(to, (uses.get(to) ?? 0) + 1)
  const isChained = planned.some(({ from, to }) => from !== to && leaving.has(to))
  const exchanged = new Set(isChained ? inOrder(planned).exchanged : [])
  return planned.map(({ from, to }) => {
    const problem = problemOf(from, to)
    return problem === undefined ? { from, to } : { from, to, problem }
  })

  function problemOf(from: string, to: string): Problem | undefined {
    if (from === to) return (uses.get(to) ?? 0) > 1 ? 'repeated' : undefined
    if (!isValid(to)) return 'invalid'
    if ((uses.get(to) ?? 0) > 1) return 'repeated'
    if (taken.has(to) && !leaving.has(to)) return 'taken'
    return exchanged.has(from) ? 'exchanged' : undefined
  }
}

function nameMaker(scheme: Scheme): (name: string, index: number) => string {
  const { kind, find, replacement, isRegex, pattern, first, keepsExtension } = scheme
  if (kind === 'number') {
    return (name, index) => {
      const number = String(first + index)
      return pattern.replace(/#+/g, (run) => number.padStart(run.length, '0')) + split(name, keepsExtension)[1]
    }
  }
  const expression = new RegExp(isRegex ? find : '', 'gu')
  return (name) => {
    const [stem, extension] = split(name, keepsExtension)
    if (find === '') return name
    return (isRegex ? stem.replace(expression, replacement) : stem.replaceAll(find, () => replacement)) + extension
  }
}

/** A name without its extension, and the extension with its dot. */
function split(name: string, keepsExtension: boolean): readonly [stem: string, extension: string] {
  const dot = keepsExtension ? name.lastIndexOf('.') : -1
  return dot <= 0 ? [name, ''] : [name.slice(0, dot), name.slice(dot)]
}

function isValid(name: string): boolean {
  return (
    name !== '' &&
    name !== '.' &&
    name !== '..' &&
    !/[/\\\p{Cc}]/u.test(name) &&
    (name.length * bytesPerUnit <= longestName || new TextEncoder().encode(name).length <= longestName)
  )
}

/**
 * The renamings that change a name, each after the one that frees its new name. `exchanged`: old names that cannot be
 * ordered, because each waits for another.
 */
export function inOrder(all: readonly Renaming[]): {
  readonly ordered: readonly Renaming[]
  readonly exchanged: readonly string[]
} {
  const byOldName = new Map(all.filter(({ from, to }) => from !== to).map((each) => [each.from, each]))
  const ordered: Renaming[] = []
  const exchanged: string[] = []
  const seen = new Set<string>()
  for (const start of byOldName.values()) {
    const chain: Renaming[] = []
    let next: Renaming | undefined = start
    while (next && !seen.has(next.from)) {
      seen.add(next.from)
      chain.push(next)
      next = byOldName.get(next.to)
    }
    const circle = next ? chain.indexOf(next) : -1
    if (circle >= 0) exchanged.push(...chain.slice(circle).map(({ from }) => from))
    ordered.push(...chain.reverse())
  }
  return { ordered, exchanged }
}
