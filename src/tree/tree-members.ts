/**
 * The members of a folder at any depth, as listings show them. A symlink is shown as what it leads to. Left out are
 * symlinks that lead nowhere or to what the principal must not read, and those to a folder that contains them. Paths
 * are the principal's own, and those of errors too: each names the member.
 */
import type { Entry } from '../contract/entry.js'
import { GatewayError } from '../base/errors.js'
import { childOf, nameOf, type Path } from '../base/path.js'
import { Pauses } from '../base/pauses.js'
import type { Access, Place } from './access.js'
import type { AccessOptions } from './operation-options.js'
import { withOwnErrors, yielding } from './redaction.js'
import { followSymlinks } from './symlinks.js'
import { assertReadableBelow } from './whole-trees.js'
import { pages } from './folder-contents.js'

/** `path`: that of the principal. */
export interface TreeMember {
  readonly path: Path
  readonly entry: Entry
}

/**
 * Rejects if the folder at `path`, one of its members `names`, or a folder below them that a rule closes, cannot be
 * read. An empty list of names is all members.
 */
export async function assertMembersReadable(
  access: Access,
  path: Path,
  names: readonly string[],
  options: AccessOptions,
): Promise<void> {
  const top = await withOwnErrors(access, 'list', path, async () => {
    const place = await access.resolve(path, options)
    access.decisions.authorize('list', place.at, options, place.principal)
    // The path of a symlink itself is asked before the path that it leads to.
    if (names.length === 0) access.decisions.assertContentGranted(place.at)
    const folder = await followSymlinks(access, 'list', place, options)
    const isFolder = names.length > 0 || (await entryAt(access, path, options)).kind === 'folder'
    if (!isFolder) throw new GatewayError('not_folder')
    return folder
  })
  if (names.length === 0) await assertTreeReadable(access, top, options)
  const pauses = new Pauses(options.signal)
  for (const name of names) {
    const member = childOf(path, name)
    const folder = await withOwnErrors(access, 'list', member, async () => {
      await pauses.take()
      const { kind } = await memberEntry(access, member, options)
      const place = await access.resolveAndAuthorize(kind === 'folder' ? 'list' : 'read', member, options)
      return kind === 'folder' ? place : undefined
    })
    if (folder) await assertTreeReadable(access, folder, options)
  }
}

/**
 * Rejects if the principal may not read everything in a folder, both by the name of the folder and by the path that a
 * symlink leads to.
 */
async function assertTreeReadable(access: Access, { named, at }: Place, options: AccessOptions): Promise<void> {
  for (const folder of new Set([named, at])) await assertReadableBelow(access, folder, options)
}

/**
 * Yields the members, a folder before what is in it. `names`: as for `assertMembersReadable`. Rejects if one that
 * listings show cannot be listed.
 */
export async function* members(
  access: Access,
  path: Path,
  names: readonly string[],
  options: AccessOptions,
): AsyncGenerator<TreeMember> {
  const top = await opened(access, path, undefined, options)
  const entries = names.length === 0 ? top.entries : selected(access, path, names, options)
  const open: OpenFolder[] = [{ ...top, entries }]
  const pauses = new Pauses(options.signal)
  try {
    for (let folder = open.at(-1); folder; folder = open.at(-1)) {
      if (pauses.areDue) await withOwnErrors(access, 'list', folder.path, () => pauses.take())
      const next: IteratorResult<Entry, unknown> = await folder.entries.next()
      if (next.done === true) {
        open.pop()
        continue
      }
      const entry = next.value
      if (entry.kind === 'symlink') continue
      const member = childOf(folder.path, entry.name)
      if (entry.kind === 'folder') {
        const below = await opened(access, member, entry.isSymlink === true ? undefined : folder.real, options)
        if (open.some(({ real }) => real === below.real)) continue
        open.push(below)
      }
      yield { path: member, entry }
    }
  } finally {
    for (const { entries } of open) await entries.return(undefined)
  }
}

/** `parent`: the real path of its parent, if it is no symlink. */
function opened(access: Access, path: Path, parent: Path | undefined, options: AccessOptions): Promise<OpenFolder> {
  return withOwnErrors(access, 'list', path, async () => {
    const folder = await access.resolveAndAuthorize('list', path, options)
    const { signal } = options
    const real =
      parent === undefined
        ? await access.tree.realPath(folder.at, { signal, last: true })
        : childOf(parent, nameOf(path))
    const all = async () => pages(access, folder, { ...options, complete: true })
    return { path, real, entries: distinct(yielding(access, 'list', path, all)) }
  })
}

/** A folder whose members are being visited. */
interface OpenFolder {
  readonly path: Path
  /** The path in the whole tree, without symlinks. */
  readonly real: Path
  readonly entries: AsyncGenerator<Entry>
}

/** The entry at the principal's own `path`. */
async function entryAt(access: Access, path: Path, options: AccessOptions): Promise<Entry> {
  return access.tree.entry((await access.resolveAndAuthorizeEntry(path, options)).at, options)
}

/** Returns the entry of a member, as `entryAt` does. A symlink that leads nowhere counts as missing. */
async function memberEntry(access: Access, path: Path, options: AccessOptions): Promise<Entry> {
  const entry = await entryAt(access, path, options)
  if (entry.kind === 'symlink') throw new GatewayError('not_found')
  return entry
}

/** The members of the folder at `path` with these names, in their order. Rejects if one does not exist. */
async function* selected(
  access: Access,
  path: Path,
  names: readonly string[],
  options: AccessOptions,
): AsyncGenerator<Entry> {
  for (const name of new Set(names)) {
    const member = childOf(path, name)
    const entry = await withOwnErrors(access, 'list', member, () => memberEntry(access, member, options))
    // The name of the entry may have another spelling.
    yield { ...entry, name }
  }
}

/** The entries of these pages. Of several with the same name, which the same path leads to, the first. */
async function* distinct(pages: AsyncIterable<readonly Entry[]>): AsyncGenerator<Entry> {
  const names = new Set<string>()
  for await (const page of pages) {
    for (const entry of page) {
      if (names.has(entry.name)) continue
      names.add(entry.name)
      yield entry
    }
  }
}
