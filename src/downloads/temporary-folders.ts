/** Folders of the local disk that programs fetch into, one for each download. */
import { lstat, mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { GatewayError } from '../errors.js'

/** What programs keep beside the files that they fetch. */
const leavings = [/\.aria2$/, /^\.[0-9a-f]{40,64}\.parts$/i]
const own = /^tidegate-([\w-]{22})$/

export interface FetchedFile {
  /** Names on the way to it, below the folder of its download. */
  readonly names: readonly string[]
  readonly kind: 'file' | 'folder' | 'other'
  readonly size: number
  /** Differs whenever the content does. */
  readonly state: string
}

/** Where a new download goes. `kept`: it is never removed from here. */
export function folderFor(root: string, tool: string, id: string, kept: boolean): string {
  return join(root, tool, `tidegate-${id}${kept ? '-kept' : ''}`)
}

/** For programs that run as our own user; where an admin has chosen another place, they make it themselves. */
export async function makeFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
}

/** Names of what was fetched. */
export async function fetchedIn(folder: string): Promise<readonly string[]> {
  const names = await onDisk(() => readdir(folder), [])
  return names.filter((name) => !leavings.some((leaving) => leaving.test(name)))
}

/** What a name in the folder holds, folders before their members. Links are told of, and never followed. */
export async function filesOf(folder: string, entry: string): Promise<readonly FetchedFile[]> {
  const found: FetchedFile[] = []
  const waiting: (readonly string[])[] = [[entry]]
  for (let names = waiting.pop(); names !== undefined; names = waiting.pop()) {
    const path = join(folder, ...names)
    const facts = await onDisk(() => lstat(path), undefined)
    if (!facts) throw new GatewayError('not_found', { reason: 'what was fetched is gone: download it again' })
    const kind = facts.isFile() ? 'file' : facts.isDirectory() ? 'folder' : 'other'
    const size = kind === 'file' ? facts.size : 0
    found.push({ names, kind, size, state: `${facts.ino}-${facts.mtimeMs}-${facts.size}` })
    const members = kind === 'folder' ? await onDisk(() => readdir(path), []) : []
    for (const name of members.filter((member) => !leavings.some((leaving) => leaving.test(member)))) {
      waiting.push([...names, name])
    }
  }
  return found
}

/** With all that is in it. */
export async function removeFetched(folder: string, entry = ''): Promise<void> {
  await rm(join(folder, entry), { recursive: true, force: true })
}

/** Removes a folder in which nothing is left that was fetched. */
export async function removeEmpty(folder: string): Promise<void> {
  if ((await fetchedIn(folder)).length === 0) await removeFetched(folder)
}

/** Removes those of downloads that nobody knows any more. */
export async function sweepFolders(root: string, tools: readonly string[], known: ReadonlySet<string>): Promise<void> {
  for (const tool of tools) {
    for (const name of await onDisk(() => readdir(join(root, tool)), [])) {
      const id = own.exec(name)?.[1]
      if (id !== undefined && !known.has(id)) await removeFetched(join(root, tool), name)
    }
  }
}

/** `missing` where nothing is there. */
async function onDisk<T>(work: () => Promise<T>, missing: T): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return missing
    throw new GatewayError('unavailable', { reason: 'the folder of the download cannot be read', cause: error })
  }
}
