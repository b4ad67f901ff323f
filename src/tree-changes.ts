/**
 * Changes of many things at once, over the tree as one principal sees it: each of them is judged as if it were asked for alone,
 * and whatever can be known to go wrong is found before anything is done.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Ask } from './change.js'
import type { Entry } from './driver.js'
import { GatewayError, isGatewayError } from './errors.js'
import { checkName, childOf, nameOf, RelativePathError, type Path } from './path.js'
import type { VirtualFs } from './virtual-fs.js'

/** Of a member of a folder. */
export interface Renaming {
  readonly from: string
  readonly to: string
}

/** Milliseconds after which others get their turn. */
const turn = 10

/**
 * Renames members of a folder, one after the other. `exists` where a new name is taken at its turn, `not_found` for an old one
 * that is not there, `invalid` for what is no name; nothing is done then.
 */
export async function renameMembers(
  fs: VirtualFs,
  folder: Path,
  renamings: readonly Renaming[],
  ask: Ask = {},
): Promise<void> {
  await fs.assertMayChange('rename', folder, ask)
  for (const { from, to } of renamings) {
    if (from === '' || from === '.' || from === '..' || /[/\\\0]/.test(from)) throw new RelativePathError()
    checkName(to)
  }
  /** Names that come and go by the renamings looked at so far. */
  const changed = new Map<string, boolean>()
  for (const { from, to } of renamings) {
    const taken = from !== to && (changed.get(to) ?? (await isTaken(fs, childOf(folder, to), from, ask)))
    if (taken) throw nameTaken(to)
    const there = changed.get(from) ?? (await existing(fs, childOf(folder, from), ask)) !== undefined
    if (!there) throw new GatewayError('not_found')
    if (from === to) continue
    changed.set(from, false)
    changed.set(to, true)
  }
  for (const { from, to } of renamings) {
    if (from !== to) await fs.move(childOf(folder, from), childOf(folder, to), { ...ask, overwrite: false })
  }
}

/**
 * Renames every member of a folder for which `newName` has one, such as `compileRenaming` makes it. Rejects as `renameMembers`
 * does.
 */
export async function renameEach(
  fs: VirtualFs,
  folder: Path,
  newName: (name: string) => string | undefined,
  ask: Ask = {},
): Promise<void> {
  await fs.assertMayChange('rename', folder, ask)
  const renamings: Renaming[] = []
  let since = Date.now()
  for await (const page of fs.pages(folder, ask)) {
    for (const { name: from } of page) {
      const to = newName(from)
      if (to !== undefined && to !== from) renamings.push({ from, to })
      if (Date.now() - since > turn) {
        await nextTurn()
        if (ask.signal?.aborted === true) throw new GatewayError('aborted')
        since = Date.now()
      }
    }
  }
  await renameMembers(fs, folder, renamings, ask)
}

/**
 * What becomes of a file whose name is taken in the target, or by another moved file: 'cancel' refuses everything, 'skip' leaves
 * it where it is, 'overwrite' puts it in place of the other.
 */
export type ConflictPolicy = 'cancel' | 'skip' | 'overwrite'

/** How one file is moved, or made sure that it will be. */
export type Mover = (from: Path, to: Path, overwrite: boolean) => Promise<unknown>

/**
 * Moves every file at any depth of `from` directly into `to`; folders and links stay. Resolves to their number. `exists` for a
 * name that is taken, before anything is done; no policy puts a file in place of a folder.
 */
export async function gatherFiles(
  fs: VirtualFs,
  from: Path,
  to: Path,
  policy: ConflictPolicy,
  ask: Ask = {},
  move: Mover = (source, target, overwrite) => fs.move(source, target, { ...ask, overwrite }),
): Promise<number> {
  await fs.assertMayChange('move', from, ask)
  const chosen: Path[] = []
  const names = new Set<string>()
  for await (const path of filesBelow(fs, from, to, ask)) {
    const name = nameOf(path)
    const old = names.has(name) ? 'file' : (await existing(fs, childOf(to, name), ask))?.kind
    if (old === 'folder' || (old !== undefined && policy !== 'overwrite')) {
      if (policy === 'skip') continue
      throw nameTaken(name)
    }
    names.add(name)
    chosen.push(path)
  }
  for (const path of chosen) {
    await move(path, childOf(to, nameOf(path)), policy === 'overwrite')
  }
  return chosen.length
}

/** Those that lie directly in `except` are where they should be. */
async function* filesBelow(fs: VirtualFs, folder: Path, except: Path, ask: Ask): AsyncGenerator<Path> {
  const folders = [folder]
  for (let at = folders.pop(); at !== undefined; at = folders.pop()) {
    for await (const page of fs.pages(at, ask)) {
      for (const { name, kind, isLink } of page) {
        if (isLink === true) continue
        if (kind === 'folder') folders.push(childOf(at, name))
        if (kind === 'file' && at !== except) yield childOf(at, name)
      }
    }
  }
}

/**
 * Removes every empty folder below `folder`, also those that become empty by that. A folder with anything in it stays, also if
 * the principal does not see what; so does one that the principal may not enter or remove, and whatever leads to a mount.
 */
export async function removeEmptyFolders(fs: VirtualFs, folder: Path, ask: Ask = {}): Promise<void> {
  await fs.assertMayChange('remove', folder, ask)
  for (const name of (await contentOf(fs, folder, ask)).folders) await removeIfEmpty(fs, childOf(folder, name), ask)
}

/** Whether it was removed. */
async function removeIfEmpty(fs: VirtualFs, folder: Path, ask: Ask): Promise<boolean> {
  try {
    const { folders, others } = await contentOf(fs, folder, ask)
    let stays = others
    for (const name of folders) stays = !(await removeIfEmpty(fs, childOf(folder, name), ask)) || stays
    if (stays) return false
    // The backend itself refuses one that holds something, which is more than any listing can tell.
    await fs.remove(folder, { ...ask, what: 'folder' })
    return true
  } catch (error) {
    if (isGatewayError(error, 'not_empty', 'not_found', 'denied', 'hidden', 'password_required')) return false
    throw error
  }
}

async function contentOf(
  fs: VirtualFs,
  folder: Path,
  ask: Ask,
): Promise<{ readonly folders: readonly string[]; readonly others: boolean }> {
  const folders: string[] = []
  let others = false
  for await (const page of fs.pages(folder, ask)) {
    for (const { name, kind, isLink } of page) {
      if (kind === 'folder' && isLink !== true) folders.push(name)
      else others = true
    }
  }
  return { folders, others }
}

/** Whether something else than `own` has the name: where case does not count, a thing stands in its own way. */
async function isTaken(fs: VirtualFs, path: Path, own: string, ask: Ask): Promise<boolean> {
  const entry = await existing(fs, path, ask)
  return entry !== undefined && entry.name !== own
}

async function existing(fs: VirtualFs, path: Path, ask: Ask): Promise<Entry | undefined> {
  try {
    return await fs.stat(path, { ...ask, link: true })
  } catch (error) {
    if (isGatewayError(error, 'not_found')) return undefined
    throw error
  }
}

function nameTaken(name: string): GatewayError {
  return new GatewayError('exists', { reason: `file [${name}] exists` })
}
