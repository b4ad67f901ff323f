/** The folder in which the files and folders of a share appear. No storage has it. */
import { GatewayError } from '../../src/base/errors.js'
import { childOf, root, segmentsOf, under, type Path } from '../../src/base/path.js'
import type { Entry } from '../../src/contract/entry.js'
import type { Lock } from '../../src/locks/webdav-locks.js'
import { folderEntry, type OpenRoot, type OpenShare } from '../../src/shares/open-share.js'
import type { AccessOptions } from '../../src/tree/operation-options.js'
import type { Property, VirtualFs } from '../../src/tree/virtual-fs.js'
import type { ListedTree } from './commands/propfind.js'

/** A path below a root, in the tree of that root. */
interface BelowRoot extends OpenRoot {
  readonly path: Path
}

type MemberOptions = AccessOptions & { readonly members?: readonly string[] | undefined }
type NamesOptions = AccessOptions & { readonly names?: readonly string[] | undefined }

export class RootsFolder implements ListedTree {
  constructor(
    private readonly name: string,
    /** The share whose roots the folder has. Absent: it is empty. */
    private readonly share?: OpenShare,
  ) {}

  /** Resolves at once: the rights to see the roots were checked when the share was opened. */
  assertAllowed(): Promise<void> {
    return Promise.resolve()
  }

  /** Rejects: the folder has no entity tag, and nobody can lock it. */
  async check(): Promise<void> {
    throw new GatewayError('precondition_failed')
  }

  async stat(path: Path, options: AccessOptions = {}): Promise<Entry> {
    const below = this.#below(path)
    return below === undefined ? folderEntry(this.name) : below.fs.stat(below.path, options)
  }

  async *pages(path: Path, options: AccessOptions = {}): AsyncGenerator<readonly Entry[]> {
    const below = this.#below(path)
    if (below !== undefined) yield* below.fs.pages(below.path, options)
    else if (this.share !== undefined) yield (await this.share.listRoots(options)).entries
  }

  async locks(path: Path, { members = [], ...options }: MemberOptions = {}): Promise<readonly Lock[]> {
    const below = this.#below(path)
    if (below !== undefined) return locksOf(below, { ...options, members })
    const found = await Promise.all(members.map((name) => locksOf(this.#root(name, root), options)))
    return found.flat()
  }

  async properties(path: Path, options: AccessOptions = {}): Promise<readonly Property[]> {
    const below = this.#below(path)
    return below === undefined ? [] : below.fs.properties(below.path, options)
  }

  /** The properties of the roots are asked by name: the names of roots whose storage answers. */
  async memberProperties(path: Path, options: NamesOptions = {}): ReturnType<VirtualFs['memberProperties']> {
    const below = this.#below(path)
    if (below !== undefined) return below.fs.memberProperties(below.path, options)
    const { names, ...access } = options
    if (names === undefined) return undefined
    const found = names.map(async (name) => [name, await this.properties(childOf(root, name), access)] as const)
    return new Map(await Promise.all(found))
  }

  /** Undefined: visitors do not see the usage of storages. */
  usageOrUndefined(): Promise<undefined> {
    return Promise.resolve(undefined)
  }

  /** Undefined for the folder itself. */
  #below(path: Path): BelowRoot | undefined {
    const [first, ...rest] = segmentsOf(path)
    return first === undefined ? undefined : this.#root(first, rest.reduce(childOf, root))
  }

  #root(name: string, path: Path): BelowRoot {
    const found = this.share?.roots.find((each) => each.name === name)
    if (found === undefined) throw new GatewayError('not_found')
    return { ...found, path }
  }
}

/** The locks at a path below a root, with the paths by which they are reached from the folder. */
async function locksOf({ name, fs, path }: BelowRoot, options: MemberOptions): Promise<readonly Lock[]> {
  const found = await fs.locks(path, options)
  return found.map((lock) => ({ ...lock, path: under(childOf(root, name), lock.path) }))
}
