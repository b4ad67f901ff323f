/**
 * The members of a folder at any depth, as listings show them to one principal. A symlink is shown as what it leads to.
 * Left out are symlinks that lead nowhere or to what the principal must not read, and those to a folder that contains
 * them.
 */
import { GatewayError } from '../contract/errors.js'
import type { Entry } from '../contract/entry.js'
import { childOf, nameOf, type Path } from '../contract/path.js'
import { Pauses } from '../contract/pauses.js'
import type { MountedTree } from '../storage/mounted-tree.js'
import type { Access } from './access.js'
import type { FolderContents } from './folder-contents.js'
import type { AccessOptions } from './operation-options.js'

/** `path`: that of the principal. */
export interface TreeMember {
  readonly path: Path
  readonly entry: Entry
}

/** A folder whose members are being visited. */
interface OpenFolder {
  readonly path: Path
  /** Without symlinks, in the whole tree. */
  readonly real: Path
  readonly entries: AsyncGenerator<Entry>
}

export class TreeMembers {
  constructor(
    private readonly access: Access,
    private readonly tree: MountedTree,
    private readonly folders: FolderContents,
    private readonly stat: (path: Path, options: AccessOptions) => Promise<Entry>,
  ) {}

  /**
   * Rejects if the folder at `path`, one of its members `names`, or a folder below them that a rule closes, cannot be
   * read. An empty list of names is all members.
   */
  async assertReadable(path: Path, names: readonly string[], options: AccessOptions): Promise<void> {
    const { named } = await this.access.resolveAndAuthorizeListing(path, options)
    if (names.length === 0) {
      if ((await this.stat(path, options)).kind !== 'folder') throw new GatewayError('not_folder')
      await this.access.assertListableBelow(named, options)
    }
    const pauses = new Pauses(options.signal)
    for (const name of names) {
      await pauses.take()
      const member = childOf(path, name)
      const { kind } = await this.stat(member, options)
      if (kind === 'symlink') throw new GatewayError('not_found')
      if (kind !== 'folder') await this.access.resolveAndAuthorize('read', member, options)
      else {
        const folder = await this.access.resolveAndAuthorizeListing(member, options)
        await this.access.assertListableBelow(folder.named, options)
      }
    }
  }

  /** Yields the members, a folder before what is in it. Rejects if one that listings show cannot be listed. */
  async *below(path: Path, names: readonly string[], options: AccessOptions): AsyncGenerator<TreeMember> {
    const top = await this.#open(path, undefined, options)
    const open: OpenFolder[] = [names.length === 0 ? top : { ...top, entries: this.#selected(path, names, options) }]
    const pauses = new Pauses(options.signal)
    try {
      for (let folder = open.at(-1); folder; folder = open.at(-1)) {
        await pauses.take()
        const next: IteratorResult<Entry, unknown> = await folder.entries.next()
        if (next.done === true) {
          open.pop()
          continue
        }
        const entry = next.value
        if (entry.kind === 'symlink') continue
        const member = childOf(folder.path, entry.name)
        if (entry.kind === 'folder') {
          const below = await this.#open(member, entry.isSymlink === true ? undefined : folder.real, options)
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
  async #open(path: Path, parent: Path | undefined, options: AccessOptions): Promise<OpenFolder> {
    const folder = await this.access.resolveAndAuthorizeListing(path, options)
    const { signal } = options
    const real =
      parent === undefined ? await this.tree.realPath(folder.at, { signal, last: true }) : childOf(parent, nameOf(path))
    return { path, real, entries: distinct(this.folders.pages(folder, { ...options, complete: true })) }
  }

  async *#selected(path: Path, names: readonly string[], options: AccessOptions): AsyncGenerator<Entry> {
    for (const name of new Set(names)) {
      const entry = await this.stat(childOf(path, name), options)
      if (entry.kind === 'symlink') throw new GatewayError('not_found')
      // Its name may have another spelling.
      yield { ...entry, name }
    }
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
