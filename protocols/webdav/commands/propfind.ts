/** PROPFIND (RFC 4918 §9.1): streamed from the pages of the tree, flat in memory for any folder. */
import type { Entry } from '../../../src/driver.js'
import { isGatewayError } from '../../../src/errors.js'
import { childOf, type Path } from '../../../src/path.js'
import type { Property, PropertyName } from '../../../src/properties.js'
import { propertyQuestion, type PropertyQuestion } from '../bodies.js'
import { Refusal } from '../errors.js'
import { checkIf, href, type Command, type Exchange } from '../exchange.js'
import {
  isOverridable,
  isQuota,
  keyOf,
  liveProperties,
  liveProperty,
  type LiveProperty,
  type Subject,
  type Surroundings,
} from '../live-properties.js'
import { encodeSegment } from '../location.js'
import { LockTable } from '../locks.js'
import { Multistatus, statusLine } from '../multistatus.js'
import { readXml, wrap } from '../xml.js'

/** Resources that an answer of depth infinity may hold; beyond that the client has to walk (RFC 4918 §9.1.1). */
const infiniteDepthLimit = 10_000

export const propfind: Command = async (exchange) => {
  const depth = exchange.headers.depth ?? 'infinity'
  const question = propertyQuestion(await readXml(exchange.request))
  await checkIf(exchange)
  const { fs, path, ask } = exchange
  const entry = await fs.stat(path, ask)
  const walk = new Walk(exchange, question)
  await walk.addTarget(entry)
  if (depth !== 0 && entry.kind === 'folder') {
    if (depth === 1) await walk.addMembers(path)
    else await walk.addTree(path)
  }
  walk.end()
}

/** Members whose dead properties are asked for at once where those of all would be too many. */
const fewMembers = 16

/** What there is to know of a folder before its members are told. */
interface Members {
  readonly folder: Path
  /** What their hrefs start with. */
  readonly base: string
  /** Undefined: too many, to be asked for by and by. */
  readonly dead: ReadonlyMap<string, readonly Property[]> | undefined
  readonly locks: LockTable
}

/** One answer in the making. */
class Walk {
  readonly #exchange: Exchange
  readonly #out: Multistatus
  readonly #surroundings: Surroundings
  readonly #render: (subject: Subject, dead: readonly Property[]) => string
  readonly #wants: { readonly dead: boolean; readonly locks: boolean; readonly quota: boolean }

  constructor(exchange: Exchange, question: PropertyQuestion) {
    this.#exchange = exchange
    this.#out = new Multistatus(exchange.response)
    this.#surroundings = { prefix: exchange.prefix, now: Date.now() }
    this.#render = renderer(question, this.#surroundings, wantsLess(exchange))
    this.#wants = {
      dead: question.kind !== 'prop' || question.names.some((name) => !liveProperty(name) || isOverridable(name)),
      locks: question.kind === 'allprop' || (question.kind === 'prop' && question.names.some(isLockDiscovery)),
      quota: namedIn(question).some(isQuota),
    }
  }

  async addTarget(entry: Entry): Promise<void> {
    const { fs, path, ask } = this.#exchange
    const locks = this.#wants.locks ? await fs.locks(path, ask) : []
    const dead = this.#wants.dead ? await fs.properties(path, ask) : []
    const usage = this.#wants.quota && entry.kind === 'folder' ? await this.#usage(path) : undefined
    const target = href(this.#exchange, path, entry.kind === 'folder')
    this.#out.add(this.#response(target, { entry, locks, usage }, dead))
  }

  /** The members of `folder`, sent as they come. */
  async addMembers(folder: Path): Promise<void> {
    const { fs, ask } = this.#exchange
    const members = await this.#membersOf(folder)
    for await (const page of fs.pages(folder, ask)) await this.#addPage(members, page)
  }

  /** Everything below `top`. Nothing is sent before all of it is known to stay within the limit; none of it is held. */
  async addTree(top: Path): Promise<void> {
    let count = 1
    await this.#visit(top, async () => async (page) => {
      count += page.length
      if (count > infiniteDepthLimit) {
        throw new Refusal(403, `more than ${infiniteDepthLimit} resources`, { condition: 'propfind-finite-depth' })
      }
    })
    await this.#visit(top, async (folder) => {
      const members = await this.#membersOf(folder)
      return (page) => this.#addPage(members, page)
    })
  }

  /** Every folder at and below `top`, page by page. */
  async #visit(top: Path, enter: (folder: Path) => Promise<(page: readonly Entry[]) => Promise<void>>): Promise<void> {
    const { fs, ask } = this.#exchange
    const folders = [top]
    for (let folder = folders.shift(); folder !== undefined; folder = folders.shift()) {
      let begun = false
      try {
        const take = await enter(folder)
        for await (const page of fs.pages(folder, ask)) {
          begun = true
          await take(page)
          for (const entry of page) {
            if (entry.kind === 'folder' && entry.isLink !== true) folders.push(childOf(folder, entry.name))
          }
        }
      } catch (error) {
        // A folder that may not be entered, or went away meanwhile, is told itself; its members are not.
        const closed = isGatewayError(error, 'denied', 'hidden', 'password_required', 'not_found', 'unavailable')
        if (folder === top || begun || !closed) throw error
      }
    }
  }

  end(): void {
    this.#out.end()
  }

  async #membersOf(folder: Path): Promise<Members> {
    const { fs, ask } = this.#exchange
    const parent = href(this.#exchange, folder, true)
    return {
      folder,
      base: parent.endsWith('/') ? parent : `${parent}/`,
      dead: this.#wants.dead ? await fs.memberProperties(folder, ask) : new Map(),
      locks: new LockTable(folder, this.#wants.locks ? await fs.locks(folder, { ...ask, members: true }) : []),
    }
  }

  async #addPage({ folder, base, dead, locks }: Members, page: readonly Entry[]): Promise<void> {
    const { fs, ask } = this.#exchange
    const step = dead ? page.length : fewMembers
    for (let at = 0; at < page.length; at += step) {
      const part = page.slice(at, at + step)
      const known = dead ?? (await fs.memberProperties(folder, { ...ask, names: part.map(({ name }) => name) }))
      for (const entry of part) {
        const target = base + encodeSegment(entry.name) + (entry.kind === 'folder' ? '/' : '')
        const subject = { entry, locks: this.#wants.locks ? locks.covering(childOf(folder, entry.name)) : [] }
        // Sent in the middle of a page too: pages may be large.
        if (this.#out.add(this.#response(target, subject, known?.get(entry.name) ?? []))) await this.#out.flush()
      }
    }
  }

  #response(target: string, subject: Subject, dead: readonly Property[]): string {
    return `<D:response><D:href>${target}</D:href>${this.#render(subject, dead)}</D:response>`
  }

  /** A storage that cannot tell has no quota properties. */
  async #usage(path: Path): Promise<Subject['usage']> {
    try {
      return await this.#exchange.fs.usage(path, this.#exchange.ask)
    } catch (error) {
      if (isGatewayError(error, 'unsupported', 'unavailable')) return undefined
      throw error
    }
  }
}

const found = `${statusLine(200)}</D:propstat>`
const missing = `${statusLine(404)}</D:propstat>`

type Renderer = (subject: Subject, dead: readonly Property[]) => string

/** All that does not depend on the resource is prepared once. `brief`: what is missing is not told. */
function renderer(question: PropertyQuestion, surroundings: Surroundings, brief: boolean): Renderer {
  if (question.kind === 'propname') return renderNames(surroundings)
  if (question.kind === 'allprop') return renderAll(question.include, surroundings)
  const asked = uniqueNames(question.names).map((name) => ({
    key: keyOf(name),
    live: liveProperty(name),
    // Nobody can have given these another value, so nobody needs to look.
    dead: liveProperty(name) === undefined || isOverridable(name),
    empty: wrap(name, ''),
  }))
  return (subject, dead) => {
    let have = ''
    let lack = ''
    for (const one of asked) {
      const kept = one.dead && dead.length > 0 ? dead.find((property) => keyOf(property) === one.key) : undefined
      const text = kept ? deadText(kept) : one.live?.write(subject, surroundings)
      if (text === undefined) lack += one.empty
      else have += text
    }
    const tellLack = lack !== '' && !brief
    return (
      (have === '' && tellLack ? '' : `<D:propstat><D:prop>${have}</D:prop>${found}`) +
      (tellLack ? `<D:propstat><D:prop>${lack}</D:prop>${missing}` : '')
    )
  }
}

function renderAll(include: readonly PropertyName[], surroundings: Surroundings): Renderer {
  const included = new Set(include.map(keyOf))
  const told = liveProperties.filter((property) => property.inAllprop || included.has(keyOf(property)))
  return (subject, dead) => {
    let text = ''
    for (const property of told) {
      if (isReplaced(property, dead)) continue
      text += property.write(subject, surroundings) ?? ''
    }
    for (const property of dead) text += deadText(property)
    return `<D:propstat><D:prop>${text}</D:prop>${found}`
  }
}

function renderNames(surroundings: Surroundings): Renderer {
  const live = liveProperties.map((property) => ({ property, empty: wrap(property, '') }))
  return (subject, dead) => {
    let text = ''
    for (const { property, empty } of live) {
      if (isReplaced(property, dead)) continue
      if (property.write(subject, surroundings) !== undefined) text += empty
    }
    for (const property of dead) text += wrap(property, '')
    return `<D:propstat><D:prop>${text}</D:prop>${found}`
  }
}

function isReplaced(property: LiveProperty, dead: readonly Property[]): boolean {
  return dead.length > 0 && isOverridable(property) && dead.some((kept) => keyOf(kept) === keyOf(property))
}

function deadText(property: Property): string {
  return wrap(property, property.value, property.language)
}

function uniqueNames(names: readonly PropertyName[]): readonly PropertyName[] {
  return [...new Map(names.map((name) => [keyOf(name), name])).values()]
}

function namedIn(question: PropertyQuestion): readonly PropertyName[] {
  if (question.kind === 'prop') return question.names
  return question.kind === 'allprop' ? question.include : []
}

function isLockDiscovery({ namespace, name }: PropertyName): boolean {
  return namespace === 'DAV:' && name === 'lockdiscovery'
}

/** RFC 8144 §2.1, and the older header of Windows clients. */
function wantsLess({ request }: Exchange): boolean {
  const { prefer, brief } = request.headers
  return brief === 't' || (typeof prefer === 'string' && /(^|[\s,])return=minimal\b/.test(prefer))
}
