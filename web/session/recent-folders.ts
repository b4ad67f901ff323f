/** The folders that the user has visited last in this browser, until signing out. */
import type { Me } from './me.ts'

const storageKey = 'recent folders'
const most = 8

interface Stored {
  readonly username: string
  readonly paths: readonly string[]
}

/** Their paths, the last one first. */
export function recentFolders({ username }: Pick<Me, 'username'>): readonly string[] {
  const stored = read()
  return stored?.username === username ? stored.paths : []
}

export function noteFolder(me: Pick<Me, 'username'>, path: string): void {
  const paths = [path, ...recentFolders(me).filter((each) => each !== path)].slice(0, most)
  localStorage.setItem(storageKey, JSON.stringify({ username: me.username, paths } satisfies Stored))
}

export function forgetFolders(): void {
  localStorage.removeItem(storageKey)
}

/** Undefined if nothing is stored, or something else. */
function read(): Stored | undefined {
  try {
    const stored = JSON.parse(localStorage.getItem(storageKey) ?? 'null') as Partial<Stored> | null
    if (typeof stored?.username !== 'string' || !Array.isArray(stored.paths)) return undefined
    const paths = stored.paths.filter((path: unknown): path is string => typeof path === 'string')
    return { username: stored.username, paths }
  } catch {
    return undefined
  }
}
