/** Folders of the local disk that programs fetch into, one for each download. */
import { lstat, mkdir, readdir, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { GatewayError } from '../errors.js'

/** What programs keep beside the files that they fetch. */
const leavings = [/\.aria2$/, /^\.[0-9a-f]{40,64}\.parts$/i]
const own = /^tidegate-([\w-]{22})(-kept)?$/

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

/** Those of downloads, whoever still knows them. */
export async function downloadFolders(root: string, tools: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(
    tools.map(async (tool) => {
      const names = await onDisk(() => readdir(join(root, tool)), [])
      return names.filter((name) => own.test(name)).map((name) => join(root, tool, name))
    }),
  )
  return found.flat()
}

/** Of everything in a folder, also of what programs keep there for themselves. */
export async function bytesIn(folder: string): Promise<number> {
  let bytes = 0
  const waiting = [folder]
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    const path = at
    for (const entry of await onDisk(() => readdir(path, { withFileTypes: true }), [])) {
      const member = join(path, entry.name)
      if (entry.isDirectory()) waiting.push(member)
      else bytes += (await onDisk(() => lstat(member), undefined))?.size ?? 0
    }
  }
  return bytes
}

/** Removes those of downloads that nobody knows any more, but for what is kept. */
export async function sweepFolders(root: string, tools: readonly string[], known: ReadonlySet<string>): Promise<void> {
  for (const folder of await downloadFolders(root, tools)) {
    const [, id = '', kept] = own.exec(basename(folder)) ?? []
    if (kept === undefined && !known.has(id)) await removeFetched(folder)
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
