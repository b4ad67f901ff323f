/** The folders of the local disk into which programs download, one for each download. */
import { lstat, mkdir, readdir, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { GatewayError } from '../contract/errors.js'

/** Control files that programs write next to the downloaded files. */
const controlFiles = [/\.aria2$/, /^\.[0-9a-f]{40,64}\.parts$/i]
const downloadFolder = /^tidegate-([\w-]{22})(-kept)?$/

export interface FetchedFile {
  /** The segments of its path, relative to the folder of the download. */
  readonly names: readonly string[]
  readonly kind: 'file' | 'folder' | 'other'
  readonly size: number
  /** Changes whenever the content does. */
  readonly version: string
}

/** The folder of a new download. `permanent`: it is never deleted. */
export function folderFor(root: string, tool: string, id: string, permanent: boolean): string {
  return join(root, tool, `tidegate-${id}${permanent ? '-kept' : ''}`)
}

/** Creates the folder of a download, for programs that run as the user of the gateway. */
export async function makeFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
}

/** The names in the folder of a download, without control files. */
export async function fetchedNames(folder: string): Promise<readonly string[]> {
  const names = await onDisk(() => readdir(folder), [])
  return names.filter((name) => !isControlFile(name))
}

/**
 * All files below a name in the folder. Folders precede their members. Symlinks are of kind 'other' and not followed.
 */
export async function fetchedFiles(folder: string, entry: string): Promise<readonly FetchedFile[]> {
  const found: FetchedFile[] = []
  const pending: (readonly string[])[] = [[entry]]
  for (let names = pending.pop(); names !== undefined; names = pending.pop()) {
    const path = join(folder, ...names)
    const facts = await onDisk(() => lstat(path), undefined)
    if (!facts)
      throw new GatewayError('not_found', { reason: 'the downloaded files no longer exist: download them again' })
    const kind = facts.isFile() ? 'file' : facts.isDirectory() ? 'folder' : 'other'
    const size = kind === 'file' ? facts.size : 0
    found.push({ names, kind, size, version: `${facts.ino}-${facts.mtimeMs}-${facts.size}` })
    const members = kind === 'folder' ? await onDisk(() => readdir(path), []) : []
    for (const name of members.filter((member) => !isControlFile(member))) {
      pending.push([...names, name])
    }
  }
  return found
}

/** Deletes a file or folder of a download recursively. */
export async function removeFetched(folder: string, entry = ''): Promise<void> {
  await rm(join(folder, entry), { recursive: true, force: true })
}

/** Deletes the folder of a download if it contains nothing but control files. */
export async function removeIfEmpty(folder: string): Promise<void> {
  if ((await fetchedNames(folder)).length === 0) await removeFetched(folder)
}

/** The folders of all downloads, including those without a task. */
export async function downloadFolders(root: string, tools: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(
    tools.map(async (tool) => {
      const names = await onDisk(() => readdir(join(root, tool)), [])
      return names.filter((name) => downloadFolder.test(name)).map((name) => join(root, tool, name))
    }),
  )
  return found.flat()
}

/** The total size of all files in a folder, including control files. */
export async function sizeOfFolder(folder: string): Promise<number> {
  let bytes = 0
  const pending = [folder]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const path = next
    for (const entry of await onDisk(() => readdir(path, { withFileTypes: true }), [])) {
      const member = join(path, entry.name)
      if (entry.isDirectory()) pending.push(member)
      else bytes += (await onDisk(() => lstat(member), undefined))?.size ?? 0
    }
  }
  return bytes
}

/** Deletes the folders of downloads whose ids are not in `known`, except those that are never deleted. */
export async function removeOrphanFolders(
  root: string,
  tools: readonly string[],
  known: ReadonlySet<string>,
): Promise<void> {
  for (const folder of await downloadFolders(root, tools)) {
    const [, id = '', permanent] = downloadFolder.exec(basename(folder)) ?? []
    if (permanent === undefined && !known.has(id)) await removeFetched(folder)
  }
}

function isControlFile(name: string): boolean {
  return controlFiles.some((pattern) => pattern.test(name))
}

/** Maps a missing file to `missing`, and other errors to `unavailable`. */
async function onDisk<T>(work: () => Promise<T>, missing: T): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return missing
    throw new GatewayError('unavailable', { reason: 'failed to read the download folder', cause: error })
  }
}

/** The default folder for downloads by programs, below the data folder. */
export const temporaryDownloads = 'temp'
