/** PROPFIND (RFC 4918 §9.1): streams the pages of a listing, with constant memory. */
import type { Entry } from '../../../src/contract/entry.js'
import { isGatewayError } from '../../../src/base/errors.js'
import { Pauses } from '../../../src/base/pauses.js'
import { childOf, root, type Path } from '../../../src/base/path.js'
import type { Property, PropertyName, VirtualFs } from '../../../src/tree/virtual-fs.js'
import { parsePropfind, type PropertyQuery } from '../bodies.js'
import { WebdavError, partStatuses } from '../errors.js'
import {
  isOverridable,
  isQuota,
  keyOf,
  liveProperties,
  liveProperty,
  type LiveProperty,
  type Resource,
  type RenderOptions,
} from '../live-properties.js'
import { encodeSegment } from '../location.js'
import { LockTable } from '../locks.js'
import { Multistatus, statusLine } from '../multistatus.js'
import { checkIf, href, readBody, type Command, type WebdavRequest } from '../webdav-request.js'
import { wrap } from '../xml.js'

/** Errors of folders below the requested one, which are then included without their members. */
const unlistable = ['denied', 'hidden', 'password_required', 'throttled', 'not_found', 'unavailable'] as const

/** Maximum number of resources in a response of depth infinity (RFC 4918 §9.1.1). */
const infiniteDepthLimit = 10_000

/** The methods of a tree that PROPFIND uses. */
export type ListedTree = Pick<
  VirtualFs,
  'assertAllowed' | 'check' | 'locks' | 'memberProperties' | 'pages' | 'properties' | 'stat' | 'usageOrUndefined'
>

export const propfind: Command<ListedTree> = async (webdavRequest) => {
  const depth = webdavRequest.headers.depth ?? 'infinity'
  const query = parsePropfind(await readBody(webdavRequest, 'list'))
  await checkIf(webdavRequest)
  const { fs, path, access, name } = webdavRequest
  const found = await fs.stat(path, access)
  const entry = name === undefined ? found : { ...found, name }
  const output = new PropfindResponse(webdavRequest, query)
  await output.addTarget(entry)
  if (depth !== 0 && entry.kind === 'folder') {
    if (depth === 1) await output.addMembers(path)
    else await output.addTree(path)
  }
  output.end()
}

/** Number of members whose dead properties are loaded together if the folder has too many to load all. */
const propertyBatchSize = 16

/** Entries that are rendered between two looks at the clock. */
const entriesPerLook = 16

/** Data of a folder that is loaded before its members are rendered. */
interface Members {
  readonly folder: Path
  /** Prefix of the members' hrefs. */
  readonly base: string
  /** Dead properties by name. Undefined: too many to load together. */
  readonly dead: ReadonlyMap<string, readonly Property[]> | undefined
}

/** Writes the response of one PROPFIND. */
class PropfindResponse {
  readonly #webdavRequest: WebdavRequest<ListedTree>
  readonly #out: Multistatus
  readonly #pauses: Pauses
  /** The number of members that were rendered. */
  #count = 0
  readonly #renderContext: RenderOptions
  readonly #render: (subject: Resource, dead: readonly Property[]) => string
  readonly #needs: { readonly dead: boolean; readonly locks: boolean; readonly quota: boolean }

  constructor(webdavRequest: WebdavRequest<ListedTree>, query: PropertyQuery) {
    this.#pauses = new Pauses(webdavRequest.access.signal)
    this.#webdavRequest = webdavRequest
    this.#out = new Multistatus(webdavRequest.response)
    this.#renderContext = { prefix: webdavRequest.prefix, now: Date.now() }
    this.#render = renderer(query, this.#renderContext, isMinimal(webdavRequest))
    this.#needs = {
      dead: query.kind !== 'prop' || query.names.some((name) => !liveProperty(name) || isOverridable(name)),
      locks: query.kind === 'allprop' || (query.kind === 'prop' && query.names.some(isLockDiscovery)),
      quota: namedIn(query).some(isQuota),
    }
  }

  /** Adds the target of the request. */
  async addTarget(entry: Entry): Promise<void> {
    const { fs, path, access } = this.#webdavRequest
    const locks = this.#needs.locks ? await fs.locks(path, access) : []
    const dead = this.#needs.dead ? await fs.properties(path, access) : []
    const usage = this.#needs.quota && entry.kind === 'folder' ? await this.#usage(path) : undefined
    const isFolder = entry.kind === 'folder'
    // A shared file is the root of its tree.
    const target = path === root && !isFolder ? this.#webdavRequest.prefix : href(this.#webdavRequest, path, isFolder)
    this.#out.add(this.#response(target, { entry, locks, usage }, dead))
  }

  /** Adds the members of `folder`, page by page. */
  async addMembers(folder: Path): Promise<void> {
    const members = await this.#membersOf(folder)
    for await (const page of this.#pages(folder)) await this.#addPage(members, page)
  }

  /**
   * Adds everything below `top`. Walks the tree twice: first to count the resources, so that the request can still be
   * rejected, then to send them. Throws a 403 above the limit.
   */
  async addTree(top: Path): Promise<void> {
    let count = 1
    await this.#visit(top, async () => async (page) => {
      count += page.length
      if (count > infiniteDepthLimit) {
        throw new WebdavError('infinite_depth', { subject: String(infiniteDepthLimit) })
      }
    })
    await this.#visit(top, async (folder) => {
      const members = await this.#membersOf(folder)
      return (page) => this.#addPage(members, page)
    })
  }

  /**
   * Walks the folders at and below `top`, breadth first. `enter` returns a function that receives each page of the
   * folder. Symlinks are not followed.
   */
  async #visit(top: Path, enter: (folder: Path) => Promise<(page: readonly Entry[]) => Promise<void>>): Promise<void> {
    const folders = [top]
    for (let folder = folders.shift(); folder !== undefined; folder = folders.shift()) {
      let hasPage = false
      try {
        const addPage = await enter(folder)
        for await (const page of this.#pages(folder)) {
          hasPage = true
          await addPage(page)
          for (const entry of page) {
            if (entry.kind === 'folder' && entry.isSymlink !== true) folders.push(childOf(folder, entry.name))
          }
        }
      } catch (error) {
        // A folder that cannot be listed, or was removed meanwhile, is included without its members.
        const canSkip = isGatewayError(error, ...unlistable)
        if (folder === top || hasPage || !canSkip) throw error
      }
    }
  }

  end(): void {
    this.#out.end()
  }

  /**
   * The members of a folder, without symlinks that lead nowhere, or to where the caller may not read: clients that copy
   * a folder would fail at them.
   */
  async *#pages(folder: Path): AsyncGenerator<readonly Entry[]> {
    const { fs, access } = this.#webdavRequest
    for await (const page of fs.pages(folder, access)) yield page.filter(({ kind }) => kind !== 'symlink')
  }

  async #membersOf(folder: Path): Promise<Members> {
    const { fs, access } = this.#webdavRequest
    const parent = href(this.#webdavRequest, folder, true)
    return {
      folder,
      base: parent.endsWith('/') ? parent : `${parent}/`,
      dead: this.#needs.dead ? await fs.memberProperties(folder, access) : new Map(),
    }
  }

  async #addPage({ folder, base, dead }: Members, page: readonly Entry[]): Promise<void> {
    const { fs, access } = this.#webdavRequest
    const members = page.map(({ name }) => name)
    const locks = new LockTable(folder, this.#needs.locks ? await fs.locks(folder, { ...access, members }) : [])
    const batchSize = dead ? page.length : propertyBatchSize
    for (let at = 0; at < page.length; at += batchSize) {
      const batch = page.slice(at, at + batchSize)
      const properties =
        dead ?? (await fs.memberProperties(folder, { ...access, names: batch.map(({ name }) => name) }))
      for (const entry of batch) {
        const target = base + encodeSegment(entry.name) + (entry.kind === 'folder' ? '/' : '')
        const subject = { entry, locks: locks.covering(entry.name) }
        if (++this.#count % entriesPerLook === 0 && this.#pauses.areDue) await this.#pauses.take()
        // Also within a page, because pages may be large.
        if (this.#out.add(this.#response(target, subject, properties?.get(entry.name) ?? []))) await this.#out.flush()
      }
    }
  }

  #response(target: string, subject: Resource, dead: readonly Property[]): string {
    return `<D:response><D:href>${target}</D:href>${this.#render(subject, dead)}</D:response>`
  }

  /** The usage of the storage. Undefined if it cannot be determined: the quota properties are left out. */
  #usage(path: Path): Promise<Resource['usage']> {
    return this.#webdavRequest.fs.usageOrUndefined(path, this.#webdavRequest.access)
  }
}

const foundEnd = `${statusLine(200)}</D:propstat>`
const missingEnd = `${statusLine(partStatuses.property_missing)}</D:propstat>`

type Renderer = (subject: Resource, dead: readonly Property[]) => string

/** Prepares a renderer for all resources of the response. `brief`: missing properties are omitted. */
function renderer(query: PropertyQuery, renderContext: RenderOptions, brief: boolean): Renderer {
  if (query.kind === 'propname') return renderNames(renderContext)
  if (query.kind === 'allprop') return renderAll(query.include, renderContext)
  const requested = uniqueNames(query.names).map((name) => ({
    key: keyOf(name),
    live: liveProperty(name),
    // A live property that cannot be overridden has no dead value.
    dead: liveProperty(name) === undefined || isOverridable(name),
    empty: wrap(name, ''),
  }))
  return (subject, dead) => {
    let present = ''
    let absent = ''
    const deadByKey = dead.length > 0 ? new Map(dead.map((property) => [keyOf(property), property])) : undefined
    for (const one of requested) {
      const stored = one.dead ? deadByKey?.get(one.key) : undefined
      const text = stored ? deadText(stored) : one.live?.render(subject, renderContext)
      if (text === undefined) absent += one.empty
      else present += text
    }
    const showsAbsent = absent !== '' && !brief
    return (
      (present === '' && showsAbsent ? '' : `<D:propstat><D:prop>${present}</D:prop>${foundEnd}`) +
      (showsAbsent ? `<D:propstat><D:prop>${absent}</D:prop>${missingEnd}` : '')
    )
  }
}

function renderAll(include: readonly PropertyName[], renderContext: RenderOptions): Renderer {
  const included = new Set(include.map(keyOf))
  const properties = liveProperties.filter((property) => property.inAllprop || included.has(keyOf(property)))
  return (subject, dead) => {
    let text = ''
    for (const property of properties) {
      if (isOverridden(property, dead)) continue
      text += property.render(subject, renderContext) ?? ''
    }
    for (const property of dead) text += deadText(property)
    return `<D:propstat><D:prop>${text}</D:prop>${foundEnd}`
  }
}

function renderNames(renderContext: RenderOptions): Renderer {
  const live = liveProperties.map((property) => ({ property, empty: wrap(property, '') }))
  return (subject, dead) => {
    let text = ''
    for (const { property, empty } of live) {
      if (isOverridden(property, dead)) continue
      if (property.render(subject, renderContext) !== undefined) text += empty
    }
    for (const property of dead) text += wrap(property, '')
    return `<D:propstat><D:prop>${text}</D:prop>${foundEnd}`
  }
}

function isOverridden(property: LiveProperty, dead: readonly Property[]): boolean {
  return dead.length > 0 && isOverridable(property) && dead.some((stored) => keyOf(stored) === keyOf(property))
}

function deadText(property: Property): string {
  return wrap(property, property.value, property.language)
}

function uniqueNames(names: readonly PropertyName[]): readonly PropertyName[] {
  return [...new Map(names.map((name) => [keyOf(name), name])).values()]
}

function namedIn(query: PropertyQuery): readonly PropertyName[] {
  if (query.kind === 'prop') return query.names
  return query.kind === 'allprop' ? query.include : []
}

function isLockDiscovery({ namespace, name }: PropertyName): boolean {
  return namespace === 'DAV:' && name === 'lockdiscovery'
}

/** Whether the client prefers a minimal response: RFC 8144 §2.1, or the older Brief header of Windows clients. */
function isMinimal({ request }: Pick<WebdavRequest, 'request'>): boolean {
  const { prefer, brief } = request.headers
  return brief === 't' || (typeof prefer === 'string' && /(^|[\s,])return=minimal\b/.test(prefer))
}
